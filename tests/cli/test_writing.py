"""What commands write never replaces what they did not write: nothing at all, and a report only an earlier file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.certs import bundle, files, keys
from pytest_frt.errors import StorageFault, UsageFault
from tests.report import page_world as world

Frt = Callable[..., tuple[int, str, str]]


def link(path: Path) -> None:
    path.symlink_to("nowhere")


def key(path: Path) -> None:
    keys.write_private(path, keys.generate())


TAKEN = {
    "file": Path.touch,
    "folder": Path.mkdir,
    "dangling_link": link,
    "fifo": os.mkfifo,
    "private_key": key,
}


def state(path: Path) -> tuple[int, int, bytes]:
    facts = path.lstat()
    return facts.st_ino, facts.st_mode, path.read_bytes() if path.is_file() else b""


@pytest.mark.parametrize("name", ["x.zip", "x"])
@pytest.mark.parametrize("make", TAKEN.values(), ids=TAKEN)
def test_bundle_replaces_nothing(tmp_path: Path, name: str, make: Callable[[Path], None]) -> None:
    make(tmp_path / name)
    before = state(tmp_path / name)
    with pytest.raises(UsageFault, match="exists and is never overwritten") as caught:
        bundle.write(tmp_path / name, bundle.with_manifest({"a": b"a"}))
    assert caught.value.hint
    assert state(tmp_path / name) == before
    assert [one.name for one in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("make", [make for name, make in TAKEN.items() if name != "file"], ids=[*TAKEN][1:])
def test_page_replaces_a_file_that_is_no_key_and_nothing_else(
    frt: Frt, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    (tmp_path / "run.json").write_text(json.dumps(world.report(tmp_path)))
    make(tmp_path / "page")
    before = state(tmp_path / "page")
    status, _, err = frt("report", "run.json", "-o", "page")
    assert (status, state(tmp_path / "page")) == (4, before)
    assert "is not replaced" in err
    assert "next: " in err


def test_earlier_page_is_replaced_and_the_report_itself_is_not(frt: Frt, tmp_path: Path) -> None:
    text = json.dumps(world.report(tmp_path))
    for name in ("run.json", "run.html"):
        (tmp_path / name).write_text(text)
    (tmp_path / "page.html").write_text("old")
    assert frt("report", "run.json", "-o", "page.html")[0] == 0
    assert (tmp_path / "page.html").read_text().startswith("<!")
    assert frt("report", "run.html")[0] == 4
    assert (tmp_path / "run.html").read_text() == text


def test_name_that_is_too_long_is_a_storage_fault(tmp_path: Path) -> None:
    for check in (files.check_new, files.check_replaceable):
        with pytest.raises(StorageFault, match="name too long"):
            check(tmp_path / ("a" * 300))


def test_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFault, match="No space left"):
        files.write_new(tmp_path / "x", b"x", mode=0o600)
    assert not list(tmp_path.iterdir())
