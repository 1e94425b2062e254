"""The state file: no update of two processes is lost, and a file that others could write is not believed."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import lock, state_file, verify
from pytest_frt.certs.state import Memory, memory_bytes
from pytest_frt.errors import CertificateRefused, StorageFault, UsageFault
from tests.certs.conftest import NOW

if TYPE_CHECKING:
    from tests.certs.conftest import World

PROCESSES, ROUNDS = 3, 12
WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from pytest_frt.certs import policy, state_file, verify
place, trust, lines = map(Path, sys.argv[1:4])
now, trusted = datetime(2026, 12, 1, tzinfo=UTC), policy.parse(trust.read_bytes())
for line in lines.read_bytes().splitlines():
    (one,) = verify.verify_set([line], trusted, now)
    state_file.commit(place, trusted, now, [one])
"""


def accepted(world: World, serial: int = 1) -> list[verify.Accepted]:
    payload = world.spoiled(lambda s: s["predicate"].update(serial=serial))
    return [one for one in world.verify(world.line(payload)) if isinstance(one, verify.Accepted)]


def test_a_missing_file_is_a_first_use_and_reading_makes_none(tmp_path: Path) -> None:
    assert state_file.read(tmp_path / "deep" / "state.json") == Memory()
    assert list(tmp_path.iterdir()) == []


def test_what_was_accepted_is_read_back(world: World, tmp_path: Path) -> None:
    place = tmp_path / "very" / "deep" / "state.json"
    memory = state_file.commit(place, world.policy(), NOW, accepted(world, 5))
    assert state_file.read(place) == memory != Memory()
    assert place.stat().st_mode & 0o777 == 0o600
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in place.parent.iterdir()) == ["state.json"]


def test_nothing_accepted_and_only_the_policy_is_written_once(world: World, tmp_path: Path) -> None:
    place, late = tmp_path / "state.json", NOW + timedelta(days=20_000)
    assert state_file.commit(place, world.policy(), late, []) == Memory(policy_version=7)
    before = place.stat().st_mtime_ns
    assert state_file.commit(place, world.policy(), late, []) == state_file.read(place) == Memory(policy_version=7)
    assert place.stat().st_mtime_ns == before


def test_what_another_process_wrote_since_is_seen_under_the_lock(world: World, tmp_path: Path) -> None:
    place = tmp_path / "state.json"
    mine = accepted(world, 4)
    state_file.commit(place, world.policy(), NOW, accepted(world, 5))
    before = place.read_bytes()
    with pytest.raises(CertificateRefused) as caught:
        state_file.commit(place, world.policy(), NOW, mine)
    assert (caught.value.refusal_code, place.read_bytes()) == ("ROLLBACK", before)


def test_processes_at_once_lose_no_update(world: World, tmp_path: Path) -> None:
    trust = tmp_path / "trust.toml"
    trust.write_text(world.policy_text)
    commands = []
    for number in range(PROCESSES):
        lines = tmp_path / f"lines{number}"
        certificates = [
            world.line(world.spoiled(lambda s, n=number, m=turn: s["predicate"]["device"].update(name=f"cpu {n} {m}")))
            for turn in range(ROUNDS)
        ]
        lines.write_bytes(b"\n".join(certificates))
        commands.append([sys.executable, "-c", WRITER, str(tmp_path / "state.json"), str(trust), str(lines)])
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for command in commands]
    errors = [process.communicate()[1].decode() for process in running]
    assert [process.returncode for process in running] == [0] * PROCESSES, errors
    assert len(state_file.read(tmp_path / "state.json").certificates) == PROCESSES * ROUNDS


def test_a_lock_that_is_never_given_back_is_refused(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "WAIT_S", 0.05)
    place = tmp_path / "state.json"
    with (tmp_path / "state.json.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(CertificateRefused) as caught:
            state_file.commit(place, world.policy(), NOW, accepted(world))
    assert (caught.value.refusal_code, place.exists()) == ("STATE_BUSY", False)
    state_file.commit(place, world.policy(), NOW, accepted(world))
    assert place.exists()


def test_a_lock_that_is_given_back_is_waited_for(world: World, tmp_path: Path) -> None:
    place = tmp_path / "state.json"
    held = (tmp_path / "state.json.lock").open("w")
    fcntl.flock(held, fcntl.LOCK_EX)
    release = threading.Timer(0.1, held.close)
    release.start()
    state_file.commit(place, world.policy(), NOW, accepted(world))
    release.join()
    assert place.exists()


def test_a_file_system_without_locks_is_refused(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(StorageFault, match="No locks available"):
        state_file.commit(tmp_path / "state.json", world.policy(), NOW, accepted(world))
    assert not (tmp_path / "state.json").exists()


def test_a_pipe_as_lock_is_refused(world: World, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "state.json.lock")
    with pytest.raises(CertificateRefused, match="not a regular file") as caught:
        state_file.commit(tmp_path / "state.json", world.policy(), NOW, accepted(world))
    assert caught.value.refusal_code == "STATE_FILE"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666], ids=oct)
def test_memory_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    place = tmp_path / "state.json"
    place.write_bytes(memory_bytes(Memory(policy_version=3)))
    place.chmod(0o600)
    assert state_file.read(place).policy_version == 3
    place.chmod(mode)
    with pytest.raises(CertificateRefused) as caught:
        state_file.read(place)
    assert caught.value.refusal_code == "STATE_FILE"


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe"])
def test_memory_that_is_no_plain_file_is_refused(tmp_path: Path, kind: str) -> None:
    place, real = tmp_path / "state.json", tmp_path / "real.json"
    real.write_bytes(memory_bytes(Memory()))
    make = {
        "link": lambda: place.symlink_to(real),
        "dangling link": lambda: place.symlink_to(tmp_path / "nowhere"),
        "pipe": lambda: os.mkfifo(place),
    }[kind]
    make()
    with pytest.raises(CertificateRefused) as caught:
        state_file.read(place)
    assert caught.value.refusal_code == "STATE_FILE"


@pytest.mark.parametrize("damage", ["", "{", "[]"], ids=["empty", "half", "list"])
def test_damaged_memory_stays_as_it_is(world: World, tmp_path: Path, damage: str) -> None:
    place = tmp_path / "state.json"
    place.write_text(damage)
    place.chmod(0o600)
    with pytest.raises(CertificateRefused) as caught:
        state_file.commit(place, world.policy(), NOW, accepted(world))
    assert (caught.value.refusal_code, place.read_text()) == ("STATE_CORRUPT", damage)
    assert str(place) in caught.value.diagnostics()


@pytest.mark.parametrize(("mode", "fine"), [(0o770, False), (0o707, False), (0o1777, True), (0o755, True)], ids=oct)
def test_memory_that_others_may_remove_is_refused(world: World, tmp_path: Path, mode: int, *, fine: bool) -> None:
    place = tmp_path / "folder" / "state.json"
    state_file.commit(place, world.policy(), NOW, accepted(world))
    place.parent.chmod(mode)
    if fine:
        assert state_file.read(place) != Memory()
        return
    for attempt in (
        lambda: state_file.read(place),
        lambda: state_file.commit(place, world.policy(), NOW, accepted(world)),
    ):
        with pytest.raises(CertificateRefused) as caught:
            attempt()
        assert caught.value.refusal_code == "STATE_FILE"


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 4242)
    if tmp_path.stat().st_uid == 0:
        assert state_file.read(tmp_path / "state.json") == Memory()  # what root owns is fine for everybody
        os.chown(tmp_path, 4243, -1)
    with pytest.raises(CertificateRefused) as caught:
        state_file.read(tmp_path / "state.json")
    assert caught.value.refusal_code == "STATE_FILE"


def test_a_linked_lock_is_refused(world: World, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / "state.json.lock").symlink_to(victim)
    with pytest.raises(StorageFault, match=r"state\.json\.lock"):
        state_file.commit(tmp_path / "state.json", world.policy(), NOW, accepted(world))
    assert not victim.exists()


def test_a_place_that_cannot_be_written_says_what_to_do(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFault) as caught:
        state_file.commit(tmp_path / "file" / "state.json", world.policy(), NOW, accepted(world))
    assert "another state file" in caught.value.diagnostics()


def test_the_default_place_follows_xdg_and_the_policys_full_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = state_file.default_place("trust.toml")
    assert place.parent == tmp_path / "state" / "pytest-frt"
    full = hashlib.sha256(str(tmp_path / "trust.toml").encode()).hexdigest()
    assert place.name == f"trust-{full[:16]}.json"  # a later release must find it
    assert place == state_file.default_place(tmp_path / "x" / ".." / "trust.toml") != state_file.default_place("b.toml")
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_STATE_HOME", value)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        assert state_file.default_place("trust.toml").parent == tmp_path / "home" / ".local" / "state" / "pytest-frt"
    monkeypatch.setattr(Path, "home", classmethod(_homeless))
    with pytest.raises(UsageFault, match="no place"):
        state_file.default_place("trust.toml")


def _homeless(_: type[Path]) -> Path:
    raise RuntimeError("no home directory")


def test_an_index_is_remembered(world: World, tmp_path: Path) -> None:
    from pytest_frt.certs.index import parse_index
    from tests.certs.test_index import index_of

    (one,) = accepted(world)
    held = replace(one, index=parse_index(index_of(one.name, version=3)))
    memory = state_file.commit(tmp_path / "state.json", world.policy(), NOW, [held])
    assert [(issuer, seen.number) for issuer, seen in memory.indexes.items()] == [("acme", 3)]
