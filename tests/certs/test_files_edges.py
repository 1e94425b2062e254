"""Files at their edges: who may own them, what a crash leaves, how much is read, and names that are taken."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.certs import files
from pytest_frt.errors import CertificateRefused, StorageFault, UsageFault

CODE = "POLICY_FILE"
ROOT, STRANGER = 0, 4242


def handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "x"
    made.write_bytes(b"12345")
    made.chmod(0o600)
    return made


def owned_by(monkeypatch: pytest.MonkeyPatch, owner: int, reader: int) -> None:
    """Let the reader see files of ``owner`` and itself as ``reader``."""
    real = os.fstat
    monkeypatch.setattr(os, "geteuid", lambda: reader)
    monkeypatch.setattr(os, "fstat", lambda fd: os.stat_result((*real(fd)[:4], owner, *real(fd)[5:10])))


@pytest.mark.parametrize(
    ("owner", "reader", "fine", "fine_if_secret"),
    [(7, 7, True, True), (ROOT, 7, True, False), (ROOT, ROOT, True, True), (7, 8, False, False), (7, 0, False, False)],
)
def test_trust_comes_from_the_reader_or_root_and_a_secret_from_the_reader_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch, owner: int, reader: int, *, fine: bool, fine_if_secret: bool
) -> None:
    owned_by(monkeypatch, owner, reader)
    for secret, taken in ((False, fine), (True, fine_if_secret)):
        if taken:
            assert files.read_owned(file, code=CODE, cap=5, secret=secret) == b"12345"
            continue
        with pytest.raises(CertificateRefused) as caught:
            files.read_owned(file, code=CODE, cap=5, secret=secret)
        known = sorted({reader} if secret else {reader, ROOT})
        said = f"{file} belongs to uid {owner}, not to {' or '.join(map(str, known))}"
        assert (caught.value.refusal_code, caught.value.message) == (CODE, said)


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize("bit", [0o040, 0o020, 0o010, 0o004, 0o002, 0o001], ids=oct)
def test_each_bit_of_the_others_is_asked(file: Path, bit: int, *, secret: bool) -> None:
    file.chmod(0o700 | bit)
    if not secret and not bit & 0o022:
        assert files.read_owned(file, code=CODE, cap=5) == b"12345"
        return
    with pytest.raises(CertificateRefused, match=f"has mode {0o700 | bit:04o}, open to others") as caught:
        files.read_owned(file, code=CODE, cap=5, secret=secret)
    assert (caught.value.refusal_code, caught.value.hint) == (CODE, f"chmod {'600' if secret else 'go-w'} {file}")


def test_a_file_is_read_up_to_the_cap(file: Path) -> None:
    assert files.read_owned(file, code=CODE, cap=5) == b"12345"
    with pytest.raises(CertificateRefused, match="larger than the cap of 4 bytes") as caught:
        files.read_owned(file, code=CODE, cap=4)
    assert caught.value.refusal_code == CODE
    assert [files.read_some(file, limit) for limit in (0, 4, 5, 6)] == [b"", b"1234", b"12345", b"12345"]


def test_a_file_without_trust_may_be_linked_and_open_to_all(file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(file)
    file.chmod(0o666)
    assert files.read_some(tmp_path / "link", 9) == b"12345"
    with pytest.raises(CertificateRefused, match="is a symbolic link") as caught:
        files.read_owned(tmp_path / "link", code=CODE, cap=9)
    assert (caught.value.refusal_code, caught.value.hint) == (CODE, "name the file itself")


KINDS: dict[str, Callable[[Path], object]] = {"fifo": os.mkfifo, "folder": Path.mkdir}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path, make: Callable[[Path], object]) -> None:
    place = tmp_path / "other"
    make(place)
    place.chmod(0o700)
    with pytest.raises(UsageFault):
        files.read_some(place, 9)
    with pytest.raises((CertificateRefused, UsageFault)):
        files.read_owned(place, code=CODE, cap=9)
    with pytest.raises(UsageFault, match="is no regular file and is not replaced"):
        files.check_replaceable(place)


def test_a_missing_file_is_a_fault_of_use(tmp_path: Path) -> None:
    reads: list[Callable[[Path], bytes]] = [
        lambda at: files.read_some(at, 9),
        lambda at: files.read_owned(at, code=CODE, cap=9),
    ]
    for read in reads:
        with pytest.raises(UsageFault, match="absent cannot be read: No such file") as caught:
            read(tmp_path / "absent")
        assert caught.value.hint == "check the path"


@pytest.mark.parametrize(("mode", "made"), [(None, 0o644), (0o600, 0o600), (0o640, 0o640)])
def test_a_file_is_replaced_whole_with_its_mode_and_folders(tmp_path: Path, mode: int | None, made: int) -> None:
    place, old, before = tmp_path / "a" / "b" / "x", os.umask(0), handles()
    try:
        for data in (b"one", memoryview(b"two")):
            files.write_atomic(place, data) if mode is None else files.write_atomic(place, data, mode=mode)
    finally:
        os.umask(old)
    assert (place.read_bytes(), stat.S_IMODE(place.stat().st_mode)) == (b"two", made)
    assert [path.name for path in place.parent.iterdir()] == ["x"]
    assert handles() <= before


def test_a_name_of_any_length_that_a_file_may_have_is_written(tmp_path: Path) -> None:
    place = tmp_path / ("x" * 255)
    files.write_atomic(place, b"long")
    assert place.read_bytes() == b"long"


def test_the_file_beside_has_a_name_of_its_own_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = Path.replace

    def replace(path: Path, target: Path) -> Path:
        seen.append(path.name)
        assert path.parent == target.parent
        return real(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    for _ in range(3):
        files.write_atomic(tmp_path / "x", b"1")
    assert len(set(seen)) == 3
    assert all(re.fullmatch(r"\.x\.[0-9a-f]{16}\.part", name) for name in seen)


def calls(monkeypatch: pytest.MonkeyPatch, log: list[str]) -> None:
    """Note what is made durable and put in place, in order."""
    sync, move = os.fsync, Path.replace

    def fsync(handle: int) -> None:
        log.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else f"file of {os.fstat(handle).st_size}")
        sync(handle)

    def replace(path: Path, target: Path) -> Path:
        log.append("replace")
        return move(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)


def test_bytes_are_on_the_disk_before_the_name_and_the_name_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    calls(monkeypatch, log)
    files.write_atomic(tmp_path / "x", b"12345")
    assert log == ["file of 5", "replace", "folder"]
    log.clear()
    files.write_new(tmp_path / "y", b"123", mode=0o600)
    assert log == ["file of 3", "folder"]


@pytest.mark.parametrize("gone", [False, True], ids=["there", "gone"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_new_file_that_cannot_be_made_durable_is_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, *, gone: bool
) -> None:
    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode) == (kind == "folder"):
            if gone:
                (tmp_path / "x").unlink()
            raise OSError(errno.EIO, "Input/output error")

    before = handles()
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StorageFault, match="x cannot be written: Input/output error"):
        files.write_new(tmp_path / "x", b"1", mode=0o600)
    assert list(tmp_path.iterdir()) == []
    assert handles() <= before


def test_a_file_that_cannot_be_put_in_place_leaves_what_was_there(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(*_: Path) -> Path:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(StorageFault, match="Input/output error"):
        files.write_atomic(file, b"other")
    assert (file.read_bytes(), list(tmp_path.iterdir())) == (b"12345", [file])


def test_a_new_file_has_its_mode_and_replaces_nothing(file: Path, tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for taken in (file, tmp_path / "dangling"):
        with pytest.raises(UsageFault, match="exists and is never overwritten"):
            files.write_new(taken, b"other", mode=0o600)
        with pytest.raises(UsageFault, match="exists and is never overwritten"):
            files.check_new(taken)
    assert file.read_bytes() == b"12345"
    assert not (tmp_path / "nowhere").exists()
    files.write_new(tmp_path / "y", b"mine", mode=0o400)
    assert stat.S_IMODE((tmp_path / "y").stat().st_mode) == 0o400
    with pytest.raises(StorageFault, match="No such file"):
        files.write_new(tmp_path / "no" / "y", b"mine", mode=0o600)


def test_a_free_name_is_free_and_one_that_nobody_can_look_at_is_a_fault(file: Path, tmp_path: Path) -> None:
    for check in (files.check_new, files.check_replaceable):
        for free in (tmp_path / "free", tmp_path / "no" / "free", file / "inner"):
            check(free)
        with pytest.raises(StorageFault, match="File name too long"):
            check(tmp_path / ("x" * 300))
    files.check_replaceable(file)


@pytest.mark.parametrize(("at", "held"), [(0, True), (65_536 - 16, True), (65_536 - 15, False), (65_536, False)])
def test_a_private_key_is_looked_for_at_the_head_of_a_file(file: Path, at: int, *, held: bool) -> None:
    assert (files.PRIVATE, files.PUBLIC) == (b"PRIVATE KEY-----", b"ed25519:")
    file.write_bytes(b"." * at + files.PRIVATE + b"\n")
    before = handles()
    if held:
        with pytest.raises(UsageFault, match="holds a private key and is not replaced"):
            files.check_replaceable(file)
    else:
        files.check_replaceable(file)
    assert handles() <= before


def test_a_link_is_not_replaced(file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(file)
    with pytest.raises(UsageFault, match="is no regular file and is not replaced"):
        files.check_replaceable(tmp_path / "link")


def test_a_fault_names_the_file_that_it_is_about_or_else_the_place(tmp_path: Path) -> None:
    for error, named in ((OSError(5, "broken", "/elsewhere"), "/elsewhere"), (OSError(5, "broken"), str(tmp_path))):
        with pytest.raises(StorageFault) as caught, files.storage(tmp_path):
            raise error
        assert caught.value.message == f"{named} cannot be written: broken"


@pytest.mark.parametrize(
    "read", [lambda path: files.read_some(path, 9), lambda path: files.read_owned(path, code="X", cap=9)]
)
def test_handle_of_what_is_no_file_is_closed(tmp_path: Path, read: Callable[[Path], bytes]) -> None:
    before = handles()
    for _ in range(5):
        with pytest.raises((CertificateRefused, UsageFault)):
            read(tmp_path)
    assert handles() <= before
