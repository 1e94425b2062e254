"""A bundle's form: whatever is not exactly what was packed is refused by code, and nothing is written before."""

from __future__ import annotations

import hashlib
import io
import json
import stat
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_frt.certs import bundle
from pytest_frt.errors import CertificateRefused, StorageFault, UsageFault

Files = dict[str, bytes]


def sound() -> Files:
    return bundle.with_manifest({"run/a.txt": b"a", "run/b.txt": b"b"})


def test_pack_of_what_was_read_is_the_file(tmp_path: Path) -> None:
    bundle.write(tmp_path / "x.zip", sound())
    assert bundle.read(tmp_path / "x.zip") == sound()
    bundle.write(tmp_path / "x", sound())
    assert bundle.read(tmp_path / "x") == sound()


def archive(*entries: tuple[zipfile.ZipInfo | str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as out:
        for name, data in (*sound().items(), *entries):
            out.writestr(name, data)
    return buffer.getvalue()


def entry(name: str, mode: int) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.external_attr = mode << 16
    return made


def bomb() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("run/a.txt", b"\0" * (1 << 20))
    return buffer.getvalue()


def twice() -> bytes:
    with pytest.warns(UserWarning, match="Duplicate"):
        return archive(("run/a.txt", b"other"))


def lying_size() -> bytes:
    data = bytearray(bundle.pack(sound()))
    at = data.rfind(b"PK\1\2")
    data[at + 24 : at + 28] = struct.pack("<I", bundle.MAX_FILE_BYTES + 1)
    return bytes(data)


def other_name_inside() -> bytes:
    data = bundle.pack(sound())
    return data.replace(b"run/b.txt", b"run/c.txt", 1) if data.find(b"PK\1\2") > data.find(b"run/b.txt") else b""


def unsorted() -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle, "_ordered", lambda files: dict(reversed(files.items())))
        return bundle.pack(sound())


def comment() -> bytes:
    buffer = io.BytesIO(bundle.pack(sound()))
    with zipfile.ZipFile(buffer, "a") as out:
        out.comment = b"hidden"
    return buffer.getvalue()


def encrypted() -> bytes:
    data = bytearray(bundle.pack(sound()))
    data[6] |= 1
    data[data.find(b"PK\1\2") + 8] |= 1
    return bytes(data)


ZIPS: dict[str, tuple[Callable[[], bytes], str]] = {
    "no_zip": (lambda: b"not a zip file", "BUNDLE_FORM"),
    "empty": (lambda: b"", "BUNDLE_FORM"),
    "truncated": (lambda: bundle.pack(sound())[:-30], "BUNDLE_FORM"),
    "prepended_bytes": (lambda: b"#!/bin/sh\n" + bundle.pack(sound()), "BUNDLE_FORM"),
    "appended_bytes": (lambda: bundle.pack(sound()) + b"x", "BUNDLE_FORM"),
    "comment": (comment, "BUNDLE_FORM"),
    "times": (archive, "BUNDLE_FORM"),
    "compressed_bomb": (bomb, "BUNDLE_FORM"),
    "flipped_byte": (lambda: bundle.pack(sound()).replace(b"run/a.txta", b"run/a.txtz"), "BUNDLE_FORM"),
    "name_in_one_header_only": (other_name_inside, "BUNDLE_FORM"),
    "unsorted": (unsorted, "BUNDLE_FORM"),
    "encrypted": (encrypted, "BUNDLE_FORM"),
    "lying_size": (lying_size, "BUNDLE_SIZE"),
    "duplicate": (twice, "BUNDLE_DUP"),
    "climbing_name": (lambda: archive(("../evil", b"x")), "NAME"),
    "absolute_name": (lambda: archive(("/etc/passwd", b"x")), "NAME"),
    "backslash": (lambda: archive(("run\\..\\evil", b"x")), "NAME"),
    "folder": (lambda: archive(("run/more/", b"")), "NAME"),
    "link": (lambda: archive((entry("run/link", stat.S_IFLNK | 0o777), b"/etc")), "TREE_SYMLINK"),
    "pipe": (lambda: archive((entry("run/pipe", stat.S_IFIFO | 0o644), b"")), "TREE_SPECIAL"),
}


@pytest.mark.parametrize(("data", "code"), ZIPS.values(), ids=ZIPS)
def test_zip_that_was_not_packed_so_is_refused(tmp_path: Path, data: Callable[[], bytes], code: str) -> None:
    file = tmp_path / "x.zip"
    file.write_bytes(data())
    with pytest.raises(CertificateRefused) as caught:
        bundle.read(file)
    assert caught.value.refusal_code == code
    assert [path.name for path in tmp_path.iterdir()] == ["x.zip"]


PACKED = bundle.pack(sound())


@given(at=st.integers(0, len(PACKED)), gone=st.integers(0, 8), put=st.binary(max_size=8))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_spliced_zip_is_refused_by_code_or_is_the_same(tmp_path: Path, at: int, gone: int, put: bytes) -> None:
    data = PACKED[:at] + put + PACKED[at + gone :]
    file = tmp_path / "x.zip"
    file.write_bytes(data)
    found = None
    with suppress(CertificateRefused):
        found = bundle.pack(bundle.read(file))
    assert found == (PACKED if data == PACKED else None)


def manifest(**changes: object) -> Files:
    document = json.loads(sound()[bundle.MANIFEST]) | changes
    return {**sound(), bundle.MANIFEST: json.dumps(document).encode()}


def without(name: str) -> Files:
    return {other: data for other, data in sound().items() if other != name}


OF_A = {"sha256": hashlib.sha256(b"a").hexdigest(), "size": 1}
CONTENTS: dict[str, tuple[Files, str]] = {
    "no_manifest": (without(bundle.MANIFEST), "BUNDLE_MANIFEST"),
    "torn_manifest": ({**sound(), bundle.MANIFEST: b"{"}, "JSON_SYNTAX"),
    "other_schema": (manifest(schema="frt-bundle/2"), "BUNDLE_MANIFEST"),
    "unknown_member": (manifest(extra=1), "BUNDLE_MANIFEST"),
    "lists_itself": (
        manifest(files=json.loads(sound()[bundle.MANIFEST])["files"] | {bundle.MANIFEST: OF_A}),
        "BUNDLE_MANIFEST",
    ),
    "changed_file": ({**sound(), "run/a.txt": b"z"}, "BUNDLE_FILE"),
    "extra_file": ({**sound(), "run/z.txt": b"z"}, "BUNDLE_FILE"),
    "missing_file": (without("run/b.txt"), "BUNDLE_FILE"),
    "wrong_size": (
        manifest(files={"run/a.txt": OF_A | {"size": 2}, "run/b.txt": OF_A}),
        "BUNDLE_FILE",
    ),
    "digest_of_another_kind": (manifest(files={"run/a.txt": OF_A | {"sha256": "f" * 40}, "run/b.txt": OF_A}), "DIGEST"),
}


@pytest.mark.parametrize("suffix", [".zip", ""], ids=["zip", "folder"])
@pytest.mark.parametrize(("files", "code"), CONTENTS.values(), ids=CONTENTS)
def test_contents_that_the_manifest_denies_are_refused(tmp_path: Path, files: Files, code: str, suffix: str) -> None:
    bundle.write(tmp_path / f"x{suffix}", files)
    with pytest.raises(CertificateRefused) as caught:
        bundle.read(tmp_path / f"x{suffix}")
    assert caught.value.refusal_code == code


PLANTED: dict[str, tuple[Callable[[Path], object], str]] = {
    "link": (lambda at: (at / "run/link").symlink_to("/etc"), "TREE_SYMLINK"),
    "linked_folder": (lambda at: (at / "more").symlink_to("/etc", target_is_directory=True), "TREE_SYMLINK"),
    "hidden": (lambda at: (at / ".hidden").write_bytes(b""), "NAME"),
}


@pytest.mark.parametrize(("plant", "code"), PLANTED.values(), ids=PLANTED)
def test_folder_with_something_planted_is_refused(tmp_path: Path, plant: Callable[[Path], object], code: str) -> None:
    bundle.write(tmp_path / "x", sound())
    plant(tmp_path / "x")
    with pytest.raises(CertificateRefused) as caught:
        bundle.read(tmp_path / "x")
    assert caught.value.refusal_code == code


@pytest.mark.parametrize(
    ("cap", "value"), [("MAX_FILES", 1), ("MAX_FILE_BYTES", 0), ("MAX_BYTES", 1)], ids=["files", "file", "total"]
)
def test_caps_hold_when_packing_and_when_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cap: str, value: int
) -> None:
    files = sound()
    for name in ("x.zip", "x"):
        bundle.write(tmp_path / name, files)
    monkeypatch.setattr(bundle, cap, value)
    for name in ("x.zip", "x"):
        with pytest.raises(CertificateRefused) as caught:
            bundle.read(tmp_path / name)
        assert caught.value.refusal_code == "BUNDLE_SIZE"
    with pytest.raises(CertificateRefused, match=r"over|at most"):
        bundle.with_manifest({"a": b"a", "b": b"b"})


def test_folder_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, seen = bundle.write_atomic, iter(range(9))

    def fail(path: Path, data: bytes) -> None:
        if next(seen) == 2:
            raise StorageFault("disk full")
        real(path, data)

    monkeypatch.setattr(bundle, "write_atomic", fail)
    with pytest.raises(StorageFault):
        bundle.write(tmp_path / "x", sound())
    assert not list(tmp_path.iterdir())


def test_folder_is_never_overwritten(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="never overwritten"):
        bundle.write(tmp_path, sound())
