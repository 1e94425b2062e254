"""Files lie where people look for them, survive a full disk, and give no trust."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import dsse, store, verify
from pytest_frt.certs.statement import parse_payload
from pytest_frt.contracts.record import FileDigest
from pytest_frt.errors import CertificateRefused, StorageFault, UsageFault

if TYPE_CHECKING:
    from tests.certs.conftest import World


def test_layout(world: World, tmp_path: Path) -> None:
    payload = world.payload()
    digest = hashlib.sha256(payload).hexdigest()
    statement = store.write_statement(tmp_path, payload)
    certificate = store.write_certificate(tmp_path, dsse.sign(payload, world.alice))
    assert statement == tmp_path / "toy" / "cpu" / f"{world.record.key.id}.{digest[:12]}.statement.json"
    assert certificate.name == f"{world.record.key.id}.{digest[:12]}.frt.intoto.jsonl"
    assert hashlib.sha256(statement.read_bytes()).hexdigest() == digest
    assert store.beside(statement, parse_payload(payload)) == certificate


def test_a_second_signer_adds_a_line_and_a_repeat_adds_none(world: World, tmp_path: Path) -> None:
    payload = world.payload()
    for key in (world.alice, world.bob, world.alice):
        path = store.write_certificate(tmp_path, dsse.sign(payload, key))
    (found,) = store.read(tmp_path)
    assert isinstance(found, store.SetFile)
    assert (found.path, len(found.lines)) == (path, 2)


def test_reads_directories_files_and_lists(world: World, tmp_path: Path) -> None:
    member = world.payload()
    cell = store.write_certificate(tmp_path, dsse.sign(member, world.alice))
    plan = store.write_certificate(tmp_path, dsse.sign(world.plan(member), world.alice))
    store.write_statement(tmp_path, member)
    both = store.read(tmp_path)
    assert [found.path for found in both] == sorted([cell, plan])
    assert store.read([cell, plan]) == (*store.read(cell), *store.read(plan))
    outcomes = verify.verify_paths([str(tmp_path)], world.policy(), world.now)
    assert [outcome.activates for outcome in outcomes] == [True, True]
    (alone,) = verify.verify_paths([plan], world.policy(), world.now)
    assert alone.code == "PLAN_MEMBER"


def test_one_bad_file_hides_no_other(world: World, tmp_path: Path) -> None:
    store.write_certificate(tmp_path, dsse.sign(world.payload(), world.alice))
    os.mkfifo(tmp_path / f"pipe{store.CERTIFICATE_SUFFIX}")
    (tmp_path / f"flood{store.CERTIFICATE_SUFFIX}").write_bytes(b"{}\n" * 3000)
    (tmp_path / f"noise{store.CERTIFICATE_SUFFIX}").write_bytes(b"\xff\n")
    outcomes = verify.verify_paths([tmp_path], world.policy(), world.now)
    codes = [outcome.code for outcome in outcomes if isinstance(outcome, verify.Refused)]
    assert codes == ["SET_SIZE", "SET_FILE", "JSON_UTF8"]
    assert len(outcomes) == 4


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="cannot be read"):
        store.read(tmp_path / "absent.frt.intoto.jsonl")


@pytest.mark.parametrize("step", ["fsync", "replace", "open"])
def test_a_full_disk_leaves_what_was_there(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = store.write_certificate(tmp_path, dsse.sign(world.payload(), world.alice))
    before = path.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    target = "pathlib.Path.replace" if step == "replace" else f"os.{step}"
    real_open = os.open
    with monkeypatch.context() as patch:
        if step == "open":
            patch.setattr(
                target, lambda p, flags, *a, **k: full() if flags & os.O_CREAT else real_open(p, flags, *a, **k)
            )
        else:
            patch.setattr(target, full)
        with pytest.raises(StorageFault, match="No space left"):
            store.write_certificate(tmp_path, dsse.sign(world.payload(), world.bob))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_artefacts_are_found_by_digest_and_compared(tmp_path: Path) -> None:
    path = store.write_artefact(tmp_path, "toy", "cpu", b"scales")
    wanted = FileDigest("scales.safetensors", hashlib.sha256(b"scales").hexdigest())
    assert path.name == f"{wanted.sha256}.safetensors"
    assert store.read_artefact([tmp_path], wanted) == b"scales"
    assert store.read_artefact(path.with_name("x.frt.intoto.jsonl"), wanted) == b"scales"
    path.write_bytes(b"Scales")
    for spoiled in (wanted, FileDigest("other.safetensors", "a" * 64)):
        with pytest.raises(CertificateRefused) as caught:
            store.read_artefact(tmp_path, spoiled)
        assert caught.value.refusal_code == "ARTEFACT"


@pytest.mark.parametrize("decoy", ["0/junk{name}", "0/{name}", "00/{name}/folder"], ids=["suffix", "name", "folder"])
def test_another_file_does_not_hide_the_good_artefact(tmp_path: Path, decoy: str) -> None:
    path = store.write_artefact(tmp_path, "toy", "cpu", b"scales")
    other = tmp_path / decoy.format(name=path.name)
    other.parent.mkdir(parents=True)
    other.write_bytes(b"other")
    wanted = FileDigest("scales.safetensors", hashlib.sha256(b"scales").hexdigest())
    assert store.read_artefact([tmp_path], wanted) == b"scales"
    path.unlink()
    with pytest.raises(CertificateRefused, match="is nowhere as" if "junk" in decoy or "folder" in decoy else "has"):
        store.read_artefact([tmp_path], wanted)


def test_a_store_that_stops_at_the_first_file_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = store._files
    monkeypatch.setattr(store, "_files", lambda *given: list(files(*given))[:1])
    with pytest.raises(CertificateRefused):
        test_another_file_does_not_hide_the_good_artefact(tmp_path, "0/{name}")
