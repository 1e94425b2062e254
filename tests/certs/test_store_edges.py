"""The store at its edges: where things lie, in what order they are read, and which fault of several is told."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import dsse, store
from pytest_frt.certs.statement import parse_payload
from pytest_frt.contracts.record import FileDigest
from pytest_frt.errors import CertificateRefused, UsageFault

if TYPE_CHECKING:
    from tests.certs.conftest import World

SUFFIX = store.CERTIFICATE_SUFFIX


def artefact(data: bytes) -> FileDigest:
    return FileDigest("scales.safetensors", hashlib.sha256(data).hexdigest())


def hide(monkeypatch: pytest.MonkeyPatch, folder: Path, *named: str) -> None:
    """Let a folder be one that nobody may list; rights do not stop root."""
    real = os.scandir

    def scandir(path: str | Path) -> object:
        if Path(path) == folder:
            raise PermissionError(13, "Permission denied", *named)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)


def test_names_that_others_rely_on() -> None:
    names = (store.CERTIFICATE_SUFFIX, store.INDEX_NAME, store.STATEMENT_SUFFIX, store.ARTEFACT_SUFFIX)
    assert names == (".frt.intoto.jsonl", "index.intoto.jsonl", ".statement.json", ".safetensors")
    assert (store.SHORT, store.MAX_ARTEFACT_BYTES) == (12, 64 * 1024 * 1024)


def test_a_plan_lies_with_the_host_and_device_of_its_cells(world: World, tmp_path: Path) -> None:
    member = world.payload()
    plan = world.plan(member)
    parsed = parse_payload(plan)
    written = store.write_statement(tmp_path, plan)
    assert written == tmp_path / "toy" / "cpu" / f"{parsed.title}.{parsed.payload_sha256[:12]}.statement.json"
    assert written == store.place(tmp_path, parsed, store.STATEMENT_SUFFIX)
    assert store.read_statement(written) == plan


def test_a_line_is_added_once_and_blank_lines_go(world: World, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / f"x{SUFFIX}"
    one, two = world.line(), world.line(key=world.bob)
    store.add_line(path, one.decode())
    assert path.read_bytes() == one + b"\n"
    path.write_bytes(b"\n" + one + b"\n\n")
    before = path.stat().st_mtime_ns
    store.add_line(path, one.decode())
    assert path.stat().st_mtime_ns == before
    store.add_line(path, two.decode())
    assert path.read_bytes() == one + b"\n" + two + b"\n"


def test_a_set_that_was_made_meanwhile_by_another_kind_of_file_is_not_replaced(world: World, tmp_path: Path) -> None:
    (tmp_path / f"x{SUFFIX}").mkdir()
    with pytest.raises(UsageFault, match="cannot be read"):
        store.put_line(tmp_path / f"x{SUFFIX}", world.line().decode())


def test_a_line_that_is_no_envelope_is_not_written(tmp_path: Path) -> None:
    for write in (store.write_certificate, lambda root, line: store.write_statement(root, line.encode())):
        with pytest.raises(CertificateRefused):
            write(tmp_path, "{}")
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_set_must_be_a_plain_file(world: World, tmp_path: Path) -> None:
    path = store.write_certificate(tmp_path, dsse.sign(world.payload(), world.alice))
    before = path.read_bytes()
    os.mkfifo(path.with_name(f"{path.name}.lock"))
    with pytest.raises(CertificateRefused) as caught:
        store.add_line(path, world.line(key=world.bob).decode())
    assert (caught.value.refusal_code, path.read_bytes()) == ("SET_FILE", before)


def test_a_statement_is_read_up_to_the_cap_of_statements(tmp_path: Path) -> None:
    path, cap = tmp_path / "x.statement.json", 256 * 1024
    path.write_bytes(b"x" * cap)
    assert len(store.read_statement(path)) == cap
    path.write_bytes(b"x" * (cap + 1))
    with pytest.raises(CertificateRefused, match="larger than the cap of 262144 bytes") as caught:
        store.read_statement(path)
    assert caught.value.refusal_code == "JSON_SIZE"


def test_a_set_is_read_up_to_the_cap_of_sets(tmp_path: Path) -> None:
    path = tmp_path / f"x{SUFFIX}"
    for size, code in ((dsse.MAX_SET_BYTES, None), (dsse.MAX_SET_BYTES + 1, "SET_SIZE")):
        path.write_bytes(b"x" * size)
        (found,) = store.read(path)
        assert getattr(found, "code", None) == code
        assert found.path == path


def test_a_set_beyond_its_cap_is_not_cut_when_a_line_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, line = tmp_path / f"x{SUFFIX}", b"y" * 9
    for module in (store, dsse):
        monkeypatch.setattr(module, "MAX_SET_BYTES", 20)
    for size in (19, 20):
        path.write_bytes(b"x" * (size - 10) + b"\n" + line)
        store.put_line(path, line.decode())
        assert path.read_bytes() == b"x" * (size - 10) + b"\n" + line
    for beyond, held in ((b"x" * 11 + b"\n" + line, line), (b"x" * 11 + b"\n" + line[1:] + b"\n", line[1:])):
        path.write_bytes(beyond)
        with pytest.raises(CertificateRefused) as caught:
            store.put_line(path, held.decode())
        assert (caught.value.refusal_code, path.read_bytes()) == ("SET_SIZE", beyond)


def test_sets_come_sorted_by_folder_and_name_and_indexes_after_them(tmp_path: Path) -> None:
    names = ["b", "a", "b/z", "b/y", "a/x/w", "c/v"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}{SUFFIX}").write_bytes(b"{}\n")
    for folder in ("", "b", "a"):
        (tmp_path / folder / store.INDEX_NAME).write_bytes(b"{}\n")
    (tmp_path / f"old-{store.INDEX_NAME}").write_bytes(b"{}\n")
    found = [one.path.relative_to(tmp_path).as_posix() for one in store.read(tmp_path)]
    sets = [f"{name}{SUFFIX}" for name in ("a", "b", "a/x/w", "b/y", "b/z", "c/v")]
    assert found == [*sets, *(f"{folder}{store.INDEX_NAME}" for folder in ("", "a/", "b/"))]
    assert store.read(str(tmp_path)) == store.read([tmp_path]) == store.read(tmp_path)


def test_a_linked_folder_is_not_entered_and_a_linked_file_is_read(world: World, tmp_path: Path) -> None:
    real, top = tmp_path / "real", tmp_path / "top"
    top.mkdir()
    path = store.write_certificate(real, dsse.sign(world.payload(), world.alice))
    (top / "more").symlink_to(real, target_is_directory=True)
    assert store.read(top) == ()
    (top / f"x{SUFFIX}").symlink_to(path)
    assert [one.path.name for one in store.read(top)] == [f"x{SUFFIX}"]


def test_a_folder_that_cannot_be_listed_is_told_once_and_hides_no_other(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.write_certificate(tmp_path, dsse.sign(world.payload(), world.alice))
    shut = tmp_path / "shut"
    shut.mkdir()
    for named, place in (((str(shut),), shut), ((), tmp_path)):
        with monkeypatch.context() as patch:
            hide(patch, shut, *named)
            good, bad = store.read(tmp_path)
        assert good.path == path
        assert bad == store.BadSet(place, "SET_FILE", f"{place} cannot be read: Permission denied")


def test_a_fifo_among_sets_is_told_as_no_set(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"pipe{SUFFIX}")
    (found,) = store.read(tmp_path)
    said = f"{tmp_path / f'pipe{SUFFIX}'} is not a regular file"
    assert found == store.BadSet(tmp_path / f"pipe{SUFFIX}", "SET_FILE", said)


def test_what_was_changed_since_a_moment_is_found_from_that_moment_on(world: World, tmp_path: Path) -> None:
    statement = store.write_statement(tmp_path, world.payload())
    certificate = store.write_certificate(tmp_path, dsse.sign(world.payload(), world.alice))
    store.write_artefact(tmp_path, "toy", "cpu", b"scales")
    os.utime(statement, (0, 0))
    moments = [path.lstat().st_ctime for path in (statement, certificate)]
    assert store.changed_since(tmp_path, min(moments)) == (statement, certificate)
    assert certificate in store.changed_since(tmp_path, moments[1])
    assert store.changed_since(tmp_path, max(moments) + 1) == ()
    assert store.changed_since(tmp_path / "absent", 0.0) == ()


def test_an_artefact_is_searched_at_every_place_and_beside_a_file(tmp_path: Path) -> None:
    wanted = artefact(b"scales")
    store.write_artefact(tmp_path / "two", "toy", "cpu", b"scales")
    (tmp_path / "one").mkdir()
    assert store.read_artefact([tmp_path / "one", tmp_path / "two"], wanted) == b"scales"
    places: list[list[Path]] = [[], [tmp_path / "one"], [tmp_path / "one" / f"x{SUFFIX}"]]
    for nowhere in places:
        with pytest.raises(CertificateRefused) as caught:
            store.read_artefact(nowhere, wanted)
        said = f"scales.safetensors is nowhere as {wanted.sha256}.safetensors"
        assert (caught.value.refusal_code, caught.value.message) == ("ARTEFACT", said)


def test_of_several_wrong_artefacts_the_first_is_told(tmp_path: Path) -> None:
    wanted = artefact(b"scales")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{wanted.sha256}.safetensors").write_bytes(folder.encode())
    first = tmp_path / "a" / f"{wanted.sha256}.safetensors"
    with pytest.raises(CertificateRefused) as caught:
        store.read_artefact(tmp_path, wanted)
    digest = hashlib.sha256(b"a").hexdigest()
    assert caught.value.message == f"{first} has sha256 {digest}, certified is {wanted.sha256}"
    first.unlink()
    os.mkfifo(first)
    with pytest.raises(CertificateRefused) as caught:
        store.read_artefact(tmp_path, wanted)
    assert (caught.value.refusal_code, caught.value.message) == ("ARTEFACT", f"{first} is not a regular file")
    second = tmp_path / "b" / first.name
    second.unlink()
    os.mkfifo(second)
    with pytest.raises(CertificateRefused, match=r"/a/\w+\.safetensors is not a regular file"):
        store.read_artefact(tmp_path, wanted)
    second.unlink()
    second.write_bytes(b"scales")
    assert store.read_artefact(tmp_path, wanted) == b"scales"


def test_an_artefact_is_read_up_to_its_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_ARTEFACT_BYTES", 6)
    for data, fine in ((b"scales", True), (b"scales+", False), (b"scales++", False)):
        store.write_artefact(tmp_path, "toy", "cpu", data)
        if fine:
            assert store.read_artefact(tmp_path, artefact(data)) == data
            continue
        with pytest.raises(CertificateRefused, match="certified is"):
            store.read_artefact(tmp_path, artefact(data))


def test_line_that_would_make_a_set_too_long_to_read_is_not_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "full.frt.intoto.jsonl"
    monkeypatch.setattr(dsse, "MAX_SET_LINES", 2)
    store.add_line(path, "one")
    store.add_line(path, "two")
    with pytest.raises(CertificateRefused, match="in 3 lines") as caught:
        store.add_line(path, "three")
    assert (caught.value.refusal_code, path.read_bytes()) == ("SET_SIZE", b"one\ntwo\n")
