"""Certificates of earlier releases still verify, with their files, and a changed byte is still refused."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.certs import policy, store, tree, verify
from pytest_frt.certs.reading import parse_time
from pytest_frt.certs.statement import CellCertificate
from pytest_frt.contracts.record import Record

ROOT = Path(__file__).resolve().parent
RELEASES = sorted(path.parent for path in ROOT.glob("*/expected.json"))
# Release to refusal code, for those that a later release refuses on purpose; the changelog says why.
REFUSED: dict[str, str] = {}
ROLES = ("kernel", "impl", "structure", "reference")
HERE = [folder for folder in RELEASES if folder.name not in REFUSED]


def expected(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "expected.json").read_text(encoding="ascii"))
    return found


def outcomes(folder: Path, certs: Path) -> list[verify.Outcome]:
    # A clone's files may be writable by a group, which the reader of a policy file refuses.
    trusted = policy.parse((folder / "frt-trust.toml").read_bytes())
    return list(verify.verify_paths([certs], trusted, parse_time(expected(folder)["now"])))


def record_of(folder: Path) -> Record:
    for outcome in verify.activable(outcomes(folder, folder / "certs")):
        if isinstance(outcome.certificate, CellCertificate):
            return outcome.certificate.record
    raise AssertionError(f"{folder.name} certifies no cell")


def test_this_release_has_its_folder() -> None:
    assert version("pytest-frt") in {folder.name for folder in RELEASES}


@pytest.mark.parametrize("folder", RELEASES, ids=lambda folder: folder.name)
def test_every_certificate_is_accepted_and_acted_on_unless_refused_on_purpose(folder: Path) -> None:
    found = verify.activable(outcomes(folder, folder / "certs"))
    if folder.name in REFUSED:
        codes = {one.code for one in outcomes(folder, folder / "certs") if isinstance(one, verify.Refused)}
        assert (found, REFUSED[folder.name] in codes) == ((), True)
        return
    assert {one.name: one.certificate.title for one in found} == expected(folder)["accepted"]
    assert {one.owners for one in found} == {tuple(expected(folder)["owners"])}
    assert len(found) == len(outcomes(folder, folder / "certs"))


@pytest.mark.parametrize("folder", HERE, ids=lambda folder: folder.name)
def test_certified_files_are_copied(folder: Path, tmp_path: Path) -> None:
    record = record_of(folder)
    for role in ROLES:
        digest = record.kernel.tree_digest if role == tree.KERNEL else ""
        files = tree.role_files(record.subjects, role)
        copy = tree.copy_verified(folder / "files" / role, files, tmp_path / role, role=role, tree=digest)
        assert {path.name for path in copy.iterdir()} == {path.name for path in (folder / "files" / role).iterdir()}
    assert record.calibration is not None
    assert store.read_artefact(folder / "certs", record.calibration.artefact)


@pytest.mark.parametrize("folder", HERE, ids=lambda folder: folder.name)
def test_a_changed_byte_of_a_certificate_is_refused(folder: Path, tmp_path: Path) -> None:
    certs = shutil.copytree(folder / "certs", tmp_path / "certs")
    for path in certs.rglob("*.frt.intoto.jsonl"):
        data = bytearray(path.read_bytes())
        data[200] = data[200] % 26 + ord("A") if data[200] % 26 + ord("A") != data[200] else ord("a")
        path.write_bytes(data)
    assert verify.activable(outcomes(folder, certs)) == ()
