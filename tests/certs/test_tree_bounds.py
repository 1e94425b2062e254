"""What lies in a folder cannot make its reader wait, run out of memory, or read what is not a plain file of its own."""

from __future__ import annotations

import os
import resource
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.certs import tree
from pytest_frt.errors import CertificateRefused
from pytest_frt.spec import tree as spec_tree

OTHER_USER = 4242
PROMPTLY = 5.0  # seconds; each refusal takes milliseconds, a reader that is not bounded takes minutes


def foreign(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file, as seen by the reader, one of another user."""
    if os.geteuid() == 0:
        os.chown(path, OTHER_USER, OTHER_USER)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: OTHER_USER)


def giant(path: Path) -> None:
    path.unlink()
    with path.open("wb") as file:
        file.truncate(1 << 42)


def crowd(path: Path) -> None:
    for number in range(40):
        (path.parent / f"n{number}").touch()


def deep(path: Path) -> None:
    path.parent.joinpath(*["d"] * 40).mkdir(parents=True)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink()
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # reads zeros for ever
    except PermissionError:
        pytest.skip("making a device needs rights")


def linked(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


SPOILS: dict[str, tuple[Callable[[Path], None], dict[str, str]]] = {
    "sparse_giant": (giant, {"kernel": "TREE_SIZE", "impl": "TREE_SIZE"}),
    "crowd": (crowd, {"kernel": "TREE_SIZE"}),
    "deep": (deep, {"kernel": "TREE_SIZE"}),
    "fifo": (fifo, {"kernel": "TREE_SPECIAL", "impl": "TREE_SPECIAL"}),
    "device": (device, {"kernel": "TREE_SPECIAL", "impl": "TREE_SPECIAL"}),
    "symlink": (linked, {"kernel": "TREE_SYMLINK", "impl": "ROLE_FILE"}),
}
CASES = [(spoil, role) for spoil, (_, codes) in SPOILS.items() for role in codes]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "a.py").write_text("A = 1\n")
    return tmp_path / "build"


@pytest.mark.parametrize(("spoil", "role"), CASES, ids=["-".join(case) for case in CASES])
def test_refused_by_code_in_bounded_time_and_memory(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: str, role: str
) -> None:
    monkeypatch.setattr(spec_tree, "MAX_FILES", 20)
    change, codes = SPOILS[spoil]
    certified = {file.name: file.sha256 for file in tree.list_files(folder)}
    change(folder / "a.py")
    start, memory = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CertificateRefused) as caught:
        tree.copy_verified(folder, certified, tmp_path / "private", role=role)
    assert caught.value.refusal_code == codes[role]
    assert time.monotonic() - start < PROMPTLY
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 64 * 1024  # KiB
    assert not (tmp_path / "private").exists()


@pytest.mark.parametrize("role", ["kernel", "impl"])
def test_hard_link_to_a_foreign_file_is_refused_and_one_of_our_own_is_not(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    certified = {file.name: file.sha256 for file in tree.list_files(folder)}
    (tmp_path / "cache").hardlink_to(folder / "a.py")
    tree.copy_verified(folder, certified, tmp_path / "own", role=role)
    foreign(folder / "a.py", monkeypatch)
    if os.geteuid() not in {0, OTHER_USER} or (folder / "a.py").stat().st_uid == 0:
        pytest.skip("the file cannot be made to look foreign here")
    with pytest.raises(CertificateRefused) as caught:
        tree.copy_verified(folder, certified, tmp_path / "private", role=role)
    assert caught.value.refusal_code == "TREE_FOREIGN"


def test_hard_link_to_a_file_of_the_reader_is_taken(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").hardlink_to(folder / "a.py")
    if os.geteuid() == 0:
        os.chown(folder / "a.py", OTHER_USER, OTHER_USER)
        monkeypatch.setattr(os, "geteuid", lambda: OTHER_USER)
    assert tree.list_files(folder)


def test_file_of_another_user_under_one_name_is_taken(folder: Path, tmp_path: Path) -> None:
    """Shared installations belong to somebody else; their bytes are hashed while they are copied."""
    if os.geteuid() != 0:
        pytest.skip("giving a file away needs rights")
    certified = {file.name: file.sha256 for file in tree.list_files(folder)}
    os.chown(folder / "a.py", OTHER_USER, OTHER_USER)
    assert tree.copy_verified(folder, certified, tmp_path / "private").is_dir()


def test_file_that_grows_while_it_is_copied_is_read_no_further(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certified = {file.name: file.sha256 for file in tree.list_files(folder)}
    honest = spec_tree.check_file

    def growing(facts: os.stat_result, name: str) -> int:
        size = honest(facts, name)
        with (folder / "a.py").open("ab") as file:
            file.truncate(16 << 20)
        return size

    monkeypatch.setattr(spec_tree, "check_file", growing)
    with pytest.raises(CertificateRefused, match="grew beyond its 6 bytes while it was copied") as caught:
        tree.copy_verified(folder, certified, tmp_path / "private", role="impl")
    assert caught.value.refusal_code == "ROLE_FILE"


def test_file_that_grows_while_it_is_hashed_is_read_no_further(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = spec_tree.check_file

    def growing(facts: os.stat_result, name: str) -> int:
        size = honest(facts, name)
        with (folder / "a.py").open("ab") as file:
            file.write(b"more")
        return size

    monkeypatch.setattr(spec_tree, "check_file", growing)
    with pytest.raises(CertificateRefused, match="grew while it was read") as caught:
        tree.list_files(folder)
    assert caught.value.refusal_code == "TREE_SIZE"


def test_bytes_of_a_tree_are_bounded_as_a_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "b.py").write_text("B = 1\n")
    monkeypatch.setattr(spec_tree, "MAX_TREE_BYTES", 12)
    assert len(tree.list_files(folder)) == 2
    monkeypatch.setattr(spec_tree, "MAX_TREE_BYTES", 11)
    with pytest.raises(CertificateRefused, match="more than 20000 files or 11 bytes"):
        tree.list_files(folder)
