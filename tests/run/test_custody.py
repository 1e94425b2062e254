"""Files that judgements rest on: every way of changing one shows, and those of the run are put back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.errors import EvidenceError
from pytest_frt.run import leftovers
from pytest_frt.run.custody import Custody, Originals, _stamps


def replaced_by_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()
    (file / "x").write_text("")


def linked_to_a_copy(file: Path) -> None:
    twin = file.with_name("twin")
    twin.write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(twin)


SPOILS: dict[str, Callable[[Path], object]] = {
    "one_byte": lambda file: file.write_bytes(file.read_bytes()[:-1] + b"?"),
    "truncated": lambda file: file.write_bytes(b""),
    "removed": Path.unlink,
    "folder": replaced_by_folder,
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "inputs").write_bytes(b"as drawn")
    return tmp_path / "inputs"


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_change_shows_and_is_undone(file: Path, spoil: Callable[[Path], object]) -> None:
    originals = Originals.of([file])
    assert originals.restore() == ()
    spoil(file)
    assert originals.custody.changed() == (str(file),)
    assert originals.restore() == (str(file),)
    assert file.read_bytes() == b"as drawn"
    assert Custody.of([file]) == originals.custody


def test_checkpoint_that_was_written_shows_though_its_time_was_set_back(file: Path) -> None:
    before, was = _stamps(file.parent), file.stat()
    assert list(before) == [file]
    assert _stamps(file.parent) == before
    file.write_bytes(b"as foxed")
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert _stamps(file.parent) != before


def test_checkpoint_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert _stamps(tmp_path / "none") == {}


def test_same_bytes_written_again_are_no_change(file: Path) -> None:
    custody = Custody.of([file])
    file.write_bytes(b"as drawn")
    assert custody.changed() == ()


def test_file_of_a_run_that_became_a_link_is_put_back(file: Path) -> None:
    originals = Originals.of([file])
    linked_to_a_copy(file)
    assert originals.restore() == (str(file),)
    assert not file.is_symlink()


LEFT: dict[str, Callable[[Path], object]] = {
    "missing": lambda file: None,  # noqa: ARG005 (nothing to do)
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "link": lambda file: file.symlink_to("/etc/hostname"),
    "too_long": lambda file: file.write_bytes(b"x" * 65),
    "latin": lambda file: file.write_bytes(b"\xff"),
}


@pytest.mark.parametrize("leave", LEFT.values(), ids=LEFT)
def test_what_is_no_plain_text_file_is_not_read(
    tmp_path: Path, leave: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "TEXT_CAP", 64)
    leave(tmp_path / "candidate.json")
    with pytest.raises(EvidenceError, match=r"candidate\.json"):
        leftovers.text(tmp_path / "candidate.json")


def test_scores_are_read_once_and_counted(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    for names in (("0", "1"), ("0", "2"), ("0",)):
        save_file({name: torch.ones(2) for name in names}, tmp_path / "scores")
        if names == ("0", "1"):
            assert len(leftovers.scores(tmp_path / "scores", 2)) == 2
            assert not (tmp_path / "scores").exists()
            continue
        with pytest.raises(EvidenceError, match=f"holds {len(names)} scores, needs 2"):
            leftovers.scores(tmp_path / "scores", 2)
    (tmp_path / "scores").write_bytes(b"garbage")
    with pytest.raises(EvidenceError, match="cannot be read"):
        leftovers.scores(tmp_path / "scores", 2)
