"""Publishing at its edges: repeated lines, unreadable sets, two signers of one index, what a failure undoes."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.certs import dsse, publish, store
from pytest_frt.certs.dsse import MAX_SET_LINES
from pytest_frt.errors import CertificateRefused, StorageFault
from tests.certs.conftest import World
from tests.certs.releases import Publisher, listing
from tests.hub import VARIANT


@pytest.fixture
def mine(world: World, tmp_path: Path) -> Publisher:
    made = Publisher(world, tmp_path)
    made.certify(made.build())
    return made


def lay(mine: Publisher) -> tuple[str, ...]:
    return publish.write_shipment(mine.project, publish.plan_shipment(mine.project, [mine.out]))


def sets(folder: Path) -> list[Path]:
    return sorted(folder.rglob(f"*{store.CERTIFICATE_SUFFIX}"))


def by_bob(mine: Publisher, file: Path) -> bytes:
    payload = base64.b64decode(json.loads(file.read_bytes().splitlines()[0])["payload"])
    return mine.world.line(payload, mine.world.bob) + b"\n"


def test_line_that_lies_in_two_files_is_published_once(mine: Publisher) -> None:
    (file,) = sets(mine.out)
    file.with_name(f"copy{store.CERTIFICATE_SUFFIX}").write_bytes(file.read_bytes())
    lay(mine)
    (published,) = sets(mine.project)
    assert published.read_bytes() == file.read_bytes()


@pytest.mark.parametrize(("where", "code"), [("out", "SET_FILE"), ("project", "TREE_SPECIAL")])
def test_set_that_cannot_be_read_is_refused(mine: Publisher, where: str, code: str) -> None:
    lay(mine)
    folder = mine.out if where == "out" else mine.project / publish.FOLDER
    os.mkfifo(folder / f"pipe{store.CERTIFICATE_SUFFIX}")
    with pytest.raises(CertificateRefused, match="pipe") as caught:
        lay(mine)
    assert caught.value.refusal_code == code


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo], ids=["file", "fifo"])
def test_certificates_that_are_no_folder_are_refused(mine: Publisher, make: Callable[[Path], None]) -> None:
    make(mine.project / publish.FOLDER)
    before = sorted(mine.project.rglob("*"))
    with pytest.raises(CertificateRefused, match="is no folder") as caught:
        lay(mine)
    assert caught.value.refusal_code == "TREE_SPECIAL"
    assert sorted(mine.project.rglob("*")) == before


@pytest.mark.parametrize("taken", ["folder", "certificate", "artefact"])
def test_place_that_is_taken_by_another_kind_leaves_everything_as_it_was(mine: Publisher, taken: str) -> None:
    artefact, certificate = map(Path, publish.plan_shipment(mine.project, [mine.out]).files)
    places = {"folder": certificate.parent, "certificate": certificate, "artefact": artefact}
    path = mine.project / publish.FOLDER / places[taken]
    path.mkdir(parents=True)
    if taken == "folder":
        path.rmdir()
        path.touch()
    before = sorted(mine.project.rglob("*"))
    with pytest.raises(StorageFault):
        lay(mine)
    assert sorted(mine.project.rglob("*")) == before


def test_refused_line_is_named_by_file_and_number(mine: Publisher) -> None:
    (file,) = sets(mine.out)
    (mine.project / "build" / VARIANT / "inner.py").write_bytes(b"VALUE = 9\n")
    with pytest.raises(CertificateRefused) as caught:
        lay(mine)
    assert caught.value.message.startswith(f"{file}:1 certifies {VARIANT} ")


def test_certificate_without_scales_needs_no_artefact(mine: Publisher) -> None:
    for path in mine.out.rglob("*"):
        if path.is_file():
            path.unlink()
    mine.certify(mine.project / "build" / VARIANT, calibration=None)
    next(mine.out.rglob("*.safetensors")).unlink()
    assert [Path(name).suffix for name in lay(mine)] == [".jsonl"]


def test_two_signers_of_one_index_are_both_kept(mine: Publisher) -> None:
    mine.index(1, "a" * 64)
    file = mine.out / store.INDEX_NAME
    lay(mine)
    file.write_bytes(by_bob(mine, file))
    assert lay(mine) == (store.INDEX_NAME,)
    lines = (mine.project / publish.FOLDER / store.INDEX_NAME).read_bytes().splitlines()
    keyids = {json.loads(line)["signatures"][0]["keyid"] for line in lines}
    assert keyids == {mine.world.alice.public.keyid, mine.world.bob.public.keyid}


def test_failure_puts_a_changed_set_back(mine: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(mine)
    before = listing(mine.project)
    (file,) = sets(mine.out)
    file.write_bytes(by_bob(mine, file))
    mine.index(1, "a" * 64)
    real = publish.write_atomic

    def write(path: Path, data: bytes) -> None:
        if path.name == store.INDEX_NAME:
            raise StorageFault("disk full")
        real(path, data)

    monkeypatch.setattr(publish, "write_atomic", write)
    with pytest.raises(StorageFault):
        lay(mine)
    assert listing(mine.project) == before


def test_published_set_that_cannot_be_read_is_to_be_removed(mine: Publisher) -> None:
    lay(mine)
    full = mine.project / publish.FOLDER / f"full{store.CERTIFICATE_SUFFIX}"
    full.write_bytes(b"\n" * (MAX_SET_LINES + 1))
    with pytest.raises(CertificateRefused, match=f"^{full}: ") as caught:
        lay(mine)
    assert (caught.value.refusal_code, caught.value.hint) == ("SET_SIZE", "remove the file")


def test_line_without_an_end_in_a_set_at_its_cap_is_kept_whole(
    mine: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(mine)
    (published,) = sets(mine.project)
    (ours,), theirs = published.read_bytes().splitlines(), by_bob(mine, published).rstrip()
    published.write_bytes(theirs)
    monkeypatch.setattr(publish, "MAX_SET_BYTES", len(theirs))
    lay(mine)
    assert published.read_bytes().splitlines() == [theirs, ours]


def test_set_that_holds_everything_stays_as_it_lies(mine: Publisher) -> None:
    lay(mine)
    (published,) = sets(mine.project)
    published.write_bytes(both := published.read_bytes() + by_bob(mine, published))
    assert lay(mine) == ()
    assert published.read_bytes() == both


def test_publishing_into_a_full_set_says_how_many_lines_it_would_hold(
    mine: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(mine)
    (published,) = sets(mine.project)
    published.write_bytes(theirs := by_bob(mine, published))
    monkeypatch.setattr(dsse, "MAX_SET_LINES", 1)
    with pytest.raises(CertificateRefused, match=f"^{published} would hold .* in 2 lines") as caught:
        lay(mine)
    assert caught.value.refusal_code == "SET_SIZE"
    assert published.read_bytes() == theirs
