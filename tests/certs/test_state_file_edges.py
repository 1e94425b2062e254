"""The state file at its edges: folders on the way, other owners, and memory at its cap."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import state_file
from pytest_frt.certs.state import STATE, Memory, memory_bytes
from pytest_frt.errors import CertificateRefused, StorageFault, UsageFault
from tests.certs.conftest import NOW

if TYPE_CHECKING:
    from tests.certs.conftest import World

MEMORY = Memory(policy_version=3)


def kept(place: Path, data: bytes = memory_bytes(MEMORY)) -> Path:
    place.write_bytes(data)
    place.chmod(0o600)
    return place


def owned(monkeypatch: pytest.MonkeyPatch, folder: Path, uid: int) -> None:
    """Let a folder belong to somebody, for a reader who is not root."""
    real = Path.stat

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        facts = real(path, follow_symlinks=follow_symlinks)
        return os.stat_result((*facts[:4], uid, *facts[5:10])) if path == folder else facts

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)


@pytest.mark.parametrize(("uid", "code"), [(4242, ""), (0, ""), (1, "STATE_FILE"), (4243, "STATE_FILE")])
def test_folder_belongs_to_the_reader_or_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, code: str
) -> None:
    owned(monkeypatch, tmp_path, uid)
    if not code:
        assert state_file.read(tmp_path / "absent.json") == Memory()
        return
    with pytest.raises(CertificateRefused, match=f"uid {uid}") as caught:
        state_file.read(tmp_path / "absent.json")
    assert caught.value.refusal_code == code


def test_sticky_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o1777)
    owned(monkeypatch, tmp_path, 4243)
    with pytest.raises(CertificateRefused, match="mode 1777"):
        state_file.read(tmp_path / "absent.json")


def test_folders_on_the_way_are_made_once(world: World, tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "state.json"
    for _ in range(2):
        assert state_file.commit(place, world.policy(), NOW, []).policy_version == 7
    beside = place.with_name("other.json")
    assert state_file.commit(beside, world.policy(), NOW, []) == state_file.read(beside) == state_file.read(place)
    assert place.parent.stat().st_mode & 0o7777 == 0o700


def test_memory_that_is_longer_than_its_cap_is_refused(tmp_path: Path) -> None:
    full = memory_bytes(MEMORY).ljust(STATE.size)
    assert state_file.read(kept(tmp_path / "full.json", full)) == MEMORY
    with pytest.raises(CertificateRefused) as caught:
        state_file.read(kept(tmp_path / "over.json", full + b" "))
    assert caught.value.refusal_code == "STATE_FILE"


def test_folder_that_is_a_file_cannot_be_written(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageFault, match="file/deep cannot be written: Not a directory"):
        state_file.commit(tmp_path / "file" / "deep" / "state.json", world.policy(), NOW, [])


@pytest.mark.parametrize("name", ["loop/state.json", f"{'x' * 256}.json", f"{'x' * 256}/state.json"])
def test_memory_that_cannot_be_looked_at_is_not_taken_for_a_first_use(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageFault, match="cannot be looked at: ") as caught:
        state_file.read(tmp_path / name)
    assert caught.value.hint == "name a state file that this user may read"


@pytest.mark.parametrize("what", ["folder", "file"])
def test_memory_that_may_not_be_looked_at_is_not_taken_for_a_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    shut, plain = kept(tmp_path / "state.json"), Path.stat
    shut = shut.parent if what == "folder" else shut

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path == shut:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return plain(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", stat)
    with pytest.raises(UsageFault, match="cannot be looked at: Permission denied"):
        state_file.read(tmp_path / "state.json")


def test_dangling_link_for_a_memory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.json").symlink_to("nothing")
    with pytest.raises(CertificateRefused, match="is a symbolic link"):
        state_file.read(tmp_path / "state.json")
