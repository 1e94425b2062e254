"""A file that is none, or too large, is an error at once: no waiting, no endless reading."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.errors import SpecError
from pytest_frt.spec.digest import file_digest
from pytest_frt.spec.literals import read_impl
from pytest_frt.spec.plain import read_plain


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 42)


NO_FILES: dict[str, tuple[Callable[[Path], object], int]] = {
    "pipe": (os.mkfifo, errno.EINVAL),
    "folder": (Path.mkdir, errno.EINVAL),
    "device": (lambda path: path.symlink_to("/dev/zero"), errno.EINVAL),
    "sparse_giant": (sparse, errno.EFBIG),
    "missing": (lambda _: None, errno.ENOENT),
}


@pytest.mark.parametrize(("make", "code"), NO_FILES.values(), ids=NO_FILES)
def test_what_is_no_plain_file_is_an_error(tmp_path: Path, make: Callable[[Path], object], code: int) -> None:
    make(tmp_path / "x")
    with pytest.raises(OSError, match="x") as caught:
        read_plain(tmp_path / "x")
    assert caught.value.errno == code


def test_plain_file_of_the_cap_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    assert read_plain(tmp_path / "x", cap=5) == b"12345"
    with pytest.raises(OSError, match="larger than the cap of 4 bytes"):
        read_plain(tmp_path / "x", cap=4)


def test_digest_of_a_pipe_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        file_digest(tmp_path / "pipe")


@pytest.mark.parametrize("text", [b"\0", b"x = " + b"(" * 5000, b"-" * 200_000 + b"1"], ids=["nul", "deep", "chain"])
def test_source_that_breaks_the_parser_is_a_fault_of_the_file(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "x.py").write_bytes(text)
    with pytest.raises(SpecError, match=r"x\.py.*not readable as Python"):
        read_impl(tmp_path / "x.py")
