"""Whoever writes a file that others write holds its lock, and a lock is the file that is there now."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.certs import index_build, keys, lock, policy_edit, store
from pytest_frt.errors import CertificateRefused


def _add(place: Path) -> None:
    store.add_line(place, "{}")


def _edit(place: Path) -> None:
    with policy_edit.held(place):
        pass


def _index(place: Path) -> None:
    index_build.cosign(place.parent, keys.generate())


WRITERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "set": (f"one{store.CERTIFICATE_SUFFIX}", _add),
    "policy": ("frt-trust.toml", _edit),
    "index": (store.INDEX_NAME, _index),
}


@pytest.mark.parametrize(("name", "write"), WRITERS.values(), ids=WRITERS)
def test_a_lock_that_is_never_given_back_is_refused(
    trust: Path, monkeypatch: pytest.MonkeyPatch, name: str, write: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(lock, "WAIT_S", 0.05)
    place = trust.with_name(name)
    with Path(f"{place}{lock.SUFFIX}").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(CertificateRefused, match="held by another process") as caught:
            write(place)
    assert caught.value.refusal_code == "FILE_BUSY"


def test_a_lock_whose_file_was_removed_is_not_the_lock(tmp_path: Path) -> None:
    """The waiter of a removed file would otherwise work beside the holder of the new one."""
    place = tmp_path / "one"
    with lock.locked(place, special="SET_FILE"):
        old = (tmp_path / "one.lock").stat().st_ino
        spare = (tmp_path / "spare").open("w")  # keeps the number from being used again
        (tmp_path / "one.lock").rename(tmp_path / "gone")
        with lock.locked(place, special="SET_FILE"):
            assert (tmp_path / "one.lock").stat().st_ino != old
    spare.close()
