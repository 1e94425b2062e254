"""A bundle at its edges: caps to the last byte, the bytes of a zip file, what counts as a set, what is missing."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import bundle, statement
from pytest_frt.certs.strict_json import Caps
from pytest_frt.errors import CertificateRefused, StorageFault, UsageFault

if TYPE_CHECKING:
    from tests.certs.conftest import World

Files = dict[str, bytes]
CERT, INDEX = "x.frt.intoto.jsonl", "index.intoto.jsonl"


def sound() -> Files:
    return bundle.with_manifest({"run/b.txt": b"bb", "run/a.txt": b"a"})


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def refused(act: Callable[[], object]) -> CertificateRefused:
    with pytest.raises(CertificateRefused) as caught:
        act()
    return caught.value


def zipped(*entries: tuple[str, bytes, Callable[[zipfile.ZipInfo], object]], files: Files | None = None) -> bytes:
    """Return a zip file as ``pack`` writes it, but for what is done to some entries."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as out:
        for name, data, change in (*((n, d, plain) for n, d in (files or {}).items()), *entries):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, (stat.S_IFREG | 0o644) << 16
            change(entry)
            out.writestr(entry, data)
    return buffer.getvalue()


def plain(entry: zipfile.ZipInfo) -> None:
    """Change nothing."""
    assert entry.filename


def test_names_and_caps_that_others_rely_on() -> None:
    assert (bundle.SCHEMA, bundle.MANIFEST, bundle.ZIP_SUFFIX) == ("frt-bundle/1", "manifest.json", ".zip")
    mib = 1024 * 1024
    assert {one: getattr(bundle, one) for one in ("MAX_FILES", "MAX_FILE_BYTES", "MAX_BYTES")} == {
        "MAX_FILES": 4_096,
        "MAX_FILE_BYTES": 128 * mib,
        "MAX_BYTES": 512 * mib,
    }
    assert Caps(size=2 * mib, separators=8 * 4_096) == bundle._MANIFEST_CAPS


def test_the_manifest_says_every_file_and_comes_first() -> None:
    files = sound()
    assert list(files) == ["manifest.json", "run/a.txt", "run/b.txt"]
    assert json.loads(files["manifest.json"]) == {
        "schema": "frt-bundle/1",
        "files": {"run/a.txt": {"sha256": sha(b"a"), "size": 1}, "run/b.txt": {"sha256": sha(b"bb"), "size": 2}},
    }


def test_a_zip_file_is_written_to_the_byte() -> None:
    files = sound()
    data = bundle.pack(dict(reversed(files.items())))
    assert data == zipped(files=files)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            assert (entry.date_time, entry.create_system, entry.compress_type) == ((1980, 1, 1, 0, 0, 0), 3, 0)
            assert entry.external_attr >> 16 == stat.S_IFREG | 0o644


@pytest.mark.parametrize("name", ["deep/er/x.zip", "x.zip"])
def test_a_zip_file_is_new_readable_and_never_replaced(tmp_path: Path, name: str) -> None:
    out, before = tmp_path / name, os.umask(0)
    try:
        bundle.write(out, sound())
    finally:
        os.umask(before)
    assert stat.S_IMODE(out.stat().st_mode) == 0o644
    with pytest.raises(UsageFault, match="never overwritten"):
        bundle.write(out, sound())
    assert bundle.read(out) == sound()


def test_a_folder_is_put_in_place_at_once_and_beside_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[str] = []
    real = Path.rename

    def rename(path: Path, target: Path) -> Path:
        moves.append(path.name)
        assert not target.exists()
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    for name in ("x", "y"):
        bundle.write_folder(tmp_path / name, {"a/b": b"1"})
        assert (tmp_path / name / "a" / "b").read_bytes() == b"1"
    assert all(re.fullmatch(r"\.[xy]\.[0-9a-f]{16}\.part", name) for name in moves)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x", "y"]


def test_a_folder_that_cannot_be_put_in_place_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(*named: Path) -> Path:
        raise OSError(5, "Input/output error", str(named[-1]))

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(StorageFault, match="Input/output error"):
        bundle.write(tmp_path / "x", sound())
    assert list(tmp_path.iterdir()) == []


CAPS: dict[str, tuple[str, int, str]] = {
    "files": ("MAX_FILES", 2, "3 files, a bundle has at most 2"),
    "file": ("MAX_FILE_BYTES", 2, r"c has 3 bytes, over 2"),
    "total": ("MAX_BYTES", 3, "6 bytes in all, over 3"),
}


@pytest.mark.parametrize(("cap", "value", "said"), CAPS.values(), ids=CAPS)
def test_a_cap_holds_to_the_last_unit(monkeypatch: pytest.MonkeyPatch, cap: str, value: int, said: str) -> None:
    monkeypatch.setattr(bundle, cap, value)
    assert bundle.with_manifest({"a": b"1", "b": b"22"})
    found = refused(lambda: bundle.with_manifest({"a": b"1", "b": b"22", "c": b"333"}))
    assert (found.refusal_code, found.message) == ("BUNDLE_SIZE", said)


@pytest.mark.parametrize("form", ["x", "x.zip"])
def test_a_bundle_at_its_caps_is_read_and_one_byte_more_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    files = sound()
    bundle.write(tmp_path / form, files)
    exact = {
        "MAX_FILES": 3,
        "MAX_FILE_BYTES": max(map(len, files.values())),
        "MAX_BYTES": sum(map(len, files.values())),
    }
    for cap, value in exact.items():
        with monkeypatch.context() as patch:
            patch.setattr(bundle, cap, value)
            assert bundle.read(tmp_path / form) == files
            patch.setattr(bundle, cap, value - 1)
            assert refused(lambda: bundle.read(tmp_path / form)).refusal_code == "BUNDLE_SIZE"


def test_a_zip_file_is_read_up_to_the_caps_of_files_and_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.zip"
    monkeypatch.setattr(bundle, "MAX_BYTES", 100)
    monkeypatch.setattr(bundle, "_MANIFEST_CAPS", Caps(size=20))
    for size, code in ((120, "BUNDLE_FORM"), (121, "BUNDLE_SIZE"), (500, "BUNDLE_SIZE")):
        file.write_bytes(b"x" * size)
        assert refused(lambda: bundle.read(file)).refusal_code == code


KINDS: dict[str, tuple[int, str]] = {
    "link": (stat.S_IFLNK, "TREE_SYMLINK"),
    "fifo": (stat.S_IFIFO, "TREE_SPECIAL"),
    "folder": (stat.S_IFDIR, "TREE_SPECIAL"),
    "device": (stat.S_IFCHR, "TREE_SPECIAL"),
    "of no kind": (0, "BUNDLE_FORM"),  # taken as a file, and not as it is written
}


@pytest.mark.parametrize(("kind", "code"), KINDS.values(), ids=KINDS)
def test_an_entry_that_is_no_file_is_refused_by_its_kind(tmp_path: Path, kind: int, code: str) -> None:
    def change(entry: zipfile.ZipInfo) -> None:
        entry.external_attr = (kind | 0o644) << 16

    (tmp_path / "x.zip").write_bytes(zipped(("run/c.txt", b"c", change), files=sound()))
    assert refused(lambda: bundle.read(tmp_path / "x.zip")).refusal_code == code


def test_a_compressed_entry_is_told_as_one(tmp_path: Path) -> None:
    def change(entry: zipfile.ZipInfo) -> None:
        entry.compress_type = zipfile.ZIP_DEFLATED

    for data in (b"c" * 100, b"c"):
        (tmp_path / "x.zip").write_bytes(zipped(("run/c.txt", data, change), files=sound()))
        found = refused(lambda: bundle.read(tmp_path / "x.zip"))
        said = "run/c.txt is compressed or encrypted; a bundle stores its files"
        assert (found.refusal_code, found.message) == ("BUNDLE_FORM", said)


def test_an_encrypted_entry_is_told_as_one(tmp_path: Path) -> None:
    data = bytearray(bundle.pack(sound()))
    data[data.find(b"PK\1\2") + 8] |= 1
    (tmp_path / "x.zip").write_bytes(data)
    assert "is compressed or encrypted" in refused(lambda: bundle.read(tmp_path / "x.zip")).message


def test_lines_are_those_of_sets_and_indexes_with_place_and_number() -> None:
    files = {
        f"b/{CERT}": b"two\n\nthree\n",
        f"a/{INDEX}": b"one\n",
        INDEX: b"six\n",
        f"a/old-{INDEX}": b"no\n",
        f"old-{INDEX}": b"no\n",
        "run.log": b"no\n",
    }
    found = [(one.source, one.data) for one in bundle.lines(files, "x.zip")]
    assert found == [
        (f"x.zip/a/{INDEX}:1", b"one"),
        (f"x.zip/b/{CERT}:1", b"two"),
        (f"x.zip/b/{CERT}:2", b"three"),
        (f"x.zip/{INDEX}:1", b"six"),
    ]


def test_what_a_certificate_names_and_no_file_has_is_missing(world: World) -> None:
    cell = statement.parse_payload(world.payload())
    scales, timing = sha(b"s"), sha(b"timing")
    both = (f"evidence/timing.json ({timing})", f"scales.safetensors ({scales})")
    assert bundle.missing(cell, ()) == both
    assert bundle.missing(cell, {timing}) == both[1:]
    assert bundle.missing(cell, bundle.digests({"x": b"s", "y": b"timing"})) == ()
    bare = statement.parse_payload(world.payload(replace(world.record, calibration=None)))
    assert bundle.missing(bare, ()) == both[:1]
    assert bundle.missing(statement.parse_payload(world.plan(world.payload())), ()) == ()


def test_a_folder_is_walked_in_order_without_what_is_left_out(tmp_path: Path) -> None:
    for name in ("b/z.txt", "b/a.txt", "a/c.part", "c.txt", "a/b/d.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    found = list(bundle.walk(tmp_path, (".part", "z.txt")))
    names = ["c.txt", "a/b/d.txt", "b/a.txt"]
    assert found == [(name, (tmp_path / name, len(name))) for name in names]
    assert [name for name, _ in bundle.walk(tmp_path)] == ["c.txt", "a/c.part", "a/b/d.txt", "b/a.txt", "b/z.txt"]
    (tmp_path / "b" / "z.txt").unlink()
    os.mkfifo(tmp_path / "b" / "z.txt")
    found_special = refused(lambda: list(bundle.walk(tmp_path, ("z.txt",))))
    assert (found_special.refusal_code, "is no regular file" in found_special.message) == ("TREE_SPECIAL", True)


def test_a_folder_that_cannot_be_listed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle.write(tmp_path / "x", sound())
    real = os.scandir

    def scandir(path: str | Path) -> object:
        if Path(path).name == "run":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = refused(lambda: bundle.read(tmp_path / "x"))
    assert (found.refusal_code, found.message) == (
        "SET_FILE",
        f"{tmp_path / 'x' / 'run'} cannot be read: Permission denied",
    )


def stated(**files: object) -> Files:
    """Return the bundle with other things in its manifest."""
    document = json.loads(sound()["manifest.json"])
    listed = {name.replace("_txt", ".txt").replace("run_", "run/"): value for name, value in files.items()}
    return {**sound(), "manifest.json": json.dumps({**document, "files": document["files"] | listed}).encode()}


OF_A = {"sha256": sha(b"a"), "size": 1}
STATED: dict[str, tuple[dict[str, object], str, str]] = {
    "another digest": ({**OF_A, "sha256": "f" * 64}, "BUNDLE_FILE", f"the manifest says 1, {'f' * 64}"),
    "another size": ({**OF_A, "size": 2}, "BUNDLE_FILE", f"the manifest says 2, {sha(b'a')}"),
    "a size below zero": ({**OF_A, "size": -1}, "BUNDLE_MANIFEST", "size is not"),
    "the largest size": ({**OF_A, "size": 128 << 20}, "BUNDLE_FILE", "the manifest says 134217728"),
    "a size beyond": ({**OF_A, "size": (128 << 20) + 1}, "BUNDLE_MANIFEST", "size is not"),
    "an unknown member": ({**OF_A, "note": 1}, "BUNDLE_MANIFEST", "has the unknown member 'note'"),
    "no size": ({"sha256": sha(b"a")}, "BUNDLE_MANIFEST", "has no member 'size'"),
}


@pytest.mark.parametrize(("entry", "code", "said"), STATED.values(), ids=STATED)
def test_what_the_manifest_says_of_a_file_must_be_so(
    tmp_path: Path, entry: dict[str, object], code: str, said: str
) -> None:
    bundle.write(tmp_path / "x", stated(run_a_txt=entry))
    found = refused(lambda: bundle.read(tmp_path / "x"))
    assert found.refusal_code == code
    assert said in found.message
