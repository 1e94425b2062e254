"""The lock of one writer: its file, its name, how long it is waited for, and that it is always given back."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.certs.lock import locked
from pytest_frt.errors import CertificateRefused, StorageFault

Flock = Callable[[int, int], None]
FLOCK: Flock = fcntl.flock
WAIT_S, POLL_S = 10, 0.01


def handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def code_of(place: Path, **said: str) -> str:
    """Return the refusal code of a lock that is not given."""
    with pytest.raises(CertificateRefused) as caught, locked(place, special="SPECIAL", **said):
        pass
    return caught.value.refusal_code


class Clock:
    """Time that passes only while someone sleeps."""

    now = 1000.0

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slept: list[float] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def failing(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(*_: int) -> None:
        raise OSError(number, "not now")

    monkeypatch.setattr(fcntl, "flock", fail)


def test_lock_is_a_private_file_that_goes_away(tmp_path: Path) -> None:
    before, mask = handles(), os.umask(0)
    try:
        with locked(tmp_path / "a.json", special="SPECIAL"):
            assert [path.name for path in tmp_path.iterdir()] == ["a.json.lock"]
            assert (tmp_path / "a.json.lock").stat().st_mode & 0o7777 == 0o600
    finally:
        os.umask(mask)
    assert (list(tmp_path.iterdir()), handles()) == ([], before)


@pytest.mark.parametrize(("length", "kept"), [(239, 239), (240, 240), (241, 240), (255, 240)])
def test_long_names_leave_room_for_the_suffix(tmp_path: Path, length: int, kept: int) -> None:
    with locked(tmp_path / ("a" * length), special="SPECIAL"):
        assert [path.name for path in tmp_path.iterdir()] == ["a" * kept + ".lock"]


def test_lock_is_given_back_when_its_holder_fails(tmp_path: Path) -> None:
    before = handles()
    with pytest.raises(KeyError), locked(tmp_path / "a", special="SPECIAL"):
        raise KeyError
    assert (list(tmp_path.iterdir()), handles()) == ([], before)


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EACCES], ids=["again", "access"])
@pytest.mark.parametrize(("said", "code"), [({}, "FILE_BUSY"), ({"busy": "MINE"}, "MINE")], ids=["default", "named"])
def test_lock_that_is_held_is_waited_for_ten_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: dict[str, str], code: str
) -> None:
    clock, before = Clock(monkeypatch), handles()
    failing(monkeypatch, number)
    assert code_of(tmp_path / "a", **said) == code
    assert set(clock.slept) == {POLL_S}
    assert WAIT_S - 2 * POLL_S < sum(clock.slept) < WAIT_S + 2 * POLL_S
    assert handles() == before


def test_lock_is_still_taken_at_the_last_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    def flock(handle: int, how: int) -> None:
        if not clock.slept:
            clock.sleep(WAIT_S)
            raise OSError(errno.EAGAIN, "not yet")
        FLOCK(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path / "a", special="SPECIAL"):
        assert clock.slept == [WAIT_S, POLL_S]


def test_file_system_without_locks_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, before = Clock(monkeypatch), handles()
    failing(monkeypatch, errno.ENOLCK)
    with pytest.raises(StorageFault, match="cannot be locked") as caught, locked(tmp_path / "a", special="SPECIAL"):
        pass
    assert (caught.value.hint, clock.slept, handles()) == ("use a local disk", [], before)


@pytest.mark.parametrize("again", ["removed", "made anew"])
def test_lock_of_a_removed_file_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: str) -> None:
    lock, asked, before = tmp_path / "a.lock", [0], handles()

    def flock(handle: int, how: int) -> None:
        FLOCK(handle, how)
        asked.append(handle)
        if len(asked) == 2:  # as when its last holder removed it while we waited
            lock.unlink()
            if again == "made anew":
                lock.touch()

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path / "a", special="SPECIAL"):
        assert os.path.samestat(os.fstat(asked[-1]), lock.stat())
        assert (len(asked), handles()) == (3, before + 1)
    assert handles() == before


def test_lock_that_became_a_link_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, before = tmp_path / "a.lock", handles()

    def flock(handle: int, how: int) -> None:
        FLOCK(handle, how)
        lock.rename(tmp_path / "moved")
        lock.symlink_to(tmp_path / "moved")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(StorageFault, match="cannot be written"), locked(tmp_path / "a", special="SPECIAL"):
        pass
    assert handles() == before


def test_lock_that_cannot_be_removed_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "read-only")

    before = handles()
    with monkeypatch.context() as patched, locked(tmp_path / "a", special="SPECIAL"):
        patched.setattr(Path, "unlink", fail)
    assert handles() == before
    with locked(tmp_path / "a", special="SPECIAL"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_lock_that_another_removed_is_missed_by_nobody(tmp_path: Path) -> None:
    with locked(tmp_path / "a", special="SPECIAL"):
        (tmp_path / "a.lock").unlink()
    assert list(tmp_path.iterdir()) == []


def test_pipe_as_lock_is_refused_and_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.lock")
    before = handles()
    assert code_of(tmp_path / "a") == "SPECIAL"
    assert ((tmp_path / "a.lock").is_fifo(), handles()) == (True, before)


@pytest.mark.parametrize(
    ("said", "hint"), [({}, "name a file in a folder of yours"), ({"hint": "mine"}, "mine")], ids=["default", "named"]
)
def test_lock_that_cannot_be_made_says_what_to_do(tmp_path: Path, said: dict[str, str], hint: str) -> None:
    (tmp_path / "a.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(StorageFault, match="cannot be written") as caught, locked(tmp_path / "a", special="S", **said):
        pass
    assert (caught.value.hint, (tmp_path / "victim").exists()) == (hint, False)
