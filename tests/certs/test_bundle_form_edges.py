"""The form of a bundle at its edges: names, order, empty files, files that change, and headers that contradict."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_frt.certs import bundle
from pytest_frt.errors import CertificateRefused

UNORDERED = {"z.txt": b"a", "a.txt": b"z", "m.txt": b"m"}


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", ".hidden", "run//a", ""])
def test_a_bundle_of_names_that_a_reader_refuses_is_not_made(name: str) -> None:
    with pytest.raises(CertificateRefused) as caught:
        bundle.with_manifest({"a.txt": b"a", name: b"x"})
    assert caught.value.refusal_code == "NAME"


def test_the_manifest_comes_first_and_the_others_by_name_whatever_they_hold() -> None:
    files = bundle.with_manifest(UNORDERED)
    assert list(files) == ["manifest.json", "a.txt", "m.txt", "z.txt"]
    assert bundle.pack(files) == bundle.pack(dict(sorted(files.items())))
    assert bundle.pack(files).index(b"manifest.json") < bundle.pack(files).index(b"a.txt")


@pytest.mark.parametrize("form", ["x", "x.zip"])
def test_empty_files_are_files(tmp_path: Path, form: str) -> None:
    files = bundle.with_manifest({"a.txt": b"", "b.txt": b"b"})
    bundle.write(tmp_path / form, files)
    assert bundle.read(tmp_path / form) == files


def test_a_file_that_grows_while_a_folder_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle.write(tmp_path / "x", bundle.with_manifest({"a.txt": b"a"}))
    real = bundle.walk

    def growing(path: Path) -> Iterator[tuple[str, tuple[Path, int]]]:
        yield from real(path)
        with (path / "a.txt").open("ab") as file:
            file.write(b"more")

    monkeypatch.setattr(bundle, "walk", growing)
    with pytest.raises(CertificateRefused, match=r"a\.txt has 2 bytes") as caught:
        bundle.read(tmp_path / "x")
    assert caught.value.refusal_code == "BUNDLE_FILE"


def test_what_is_left_out_of_a_walk_ends_it_for_no_other(tmp_path: Path) -> None:
    for name in ("a.txt", "b.part", "c.txt", "d/e.part", "d/f.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [name for name, _ in bundle.walk(tmp_path, (".part",))] == ["a.txt", "c.txt", "d/f.txt"]


# Offset in an entry of the central directory, the number there as it is packed, and what is put in its place.
HEADERS = {
    "method": (10, "<H", 0, 8),  # deflated, and as long as what it holds
    "packed length": (20, "<I", 1, 2),
    "length": (24, "<I", 1, 2),
}


@pytest.mark.parametrize(("at", "kind", "packed", "put"), HEADERS.values(), ids=HEADERS)
def test_an_entry_whose_header_says_compressed_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, kind: str, packed: int, put: int
) -> None:
    data = bytearray(bundle.pack(bundle.with_manifest({"z.txt": b"z"})))
    entry = data.rfind(b"PK\1\2")
    assert struct.unpack_from(kind, data, entry + at) == (packed,)
    struct.pack_into(kind, data, entry + at, put)
    (tmp_path / "x.zip").write_bytes(data)
    monkeypatch.setattr("zipfile.ZipFile.read", lambda *_: pytest.fail("an entry was opened"))
    with pytest.raises(CertificateRefused, match=r"^z\.txt is compressed or encrypted") as caught:
        bundle.read(tmp_path / "x.zip")
    assert caught.value.refusal_code == "BUNDLE_FORM"
