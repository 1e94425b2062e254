"""``frt export``: a bundle that others accept and we too, and a test-result that nobody here acts on."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pytest_frt.certs import dsse, export, keys, statement, verify
from pytest_frt.cli import main
from pytest_frt.errors import CertificateRefused, UsageFault
from tests.certs.conftest import World

JS = Path(__file__).parent / "oracles" / "js"


@pytest.fixture
def folder(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A certificate of two signers, one of one signer, alice's key, and a policy that trusts her."""
    monkeypatch.chdir(tmp_path)
    other = world.payload(replace(world.record, seed=8))
    Path("one.frt.intoto.jsonl").write_bytes(world.line() + b"\n")
    Path("two.frt.intoto.jsonl").write_bytes(world.line() + b"\n" + world.line(key=world.bob) + b"\n")
    Path("several.frt.intoto.jsonl").write_bytes(world.line() + b"\n" + world.line(other) + b"\n")
    keys.write_private(Path("alice.pem"), world.alice)
    return tmp_path


def frt(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["export", *words])
    return (status, *capsys.readouterr())


def bundle_of(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    status, out, err = frt(capsys, *words, "--sigstore-bundle")
    assert status == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.usefixtures("folder")
def test_bundle_carries_the_same_payload_and_signature(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = bundle_of(capsys, "one.frt.intoto.jsonl")
    line = json.loads(world.line())
    assert bundle["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert bundle["dsseEnvelope"] == line
    assert bundle["verificationMaterial"]["publicKey"] == {"hint": world.alice.public.keyid}
    (outcome,) = world.verify(json.dumps(bundle).encode())
    assert isinstance(outcome, verify.Accepted)
    assert outcome.name == hashlib.sha256(world.payload()).hexdigest()


@pytest.mark.usefixtures("folder")
def test_bundle_reads_as_the_published_message(capsys: pytest.CaptureFixture[str]) -> None:
    models = pytest.importorskip("sigstore_models.bundle.v1")
    read = models.Bundle.from_json(json.dumps(bundle_of(capsys, "one.frt.intoto.jsonl")))
    assert len(read.dsse_envelope.signatures) == 1


@pytest.mark.usefixtures("folder")
def test_one_of_two_signers_is_chosen_by_key_id(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    keyid = world.bob.public.keyid
    bundle = bundle_of(capsys, "two.frt.intoto.jsonl", "--keyid", keyid[:20])
    assert [one["keyid"] for one in bundle["dsseEnvelope"]["signatures"]] == [keyid]
    status, _, err = frt(capsys, "two.frt.intoto.jsonl", "--sigstore-bundle")
    assert status == UsageFault.exit_code
    assert keyid in err


@pytest.mark.usefixtures("folder")
def test_one_of_several_certificates_is_chosen_by_name(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    name = hashlib.sha256(world.payload()).hexdigest()
    bundle = bundle_of(capsys, "several.frt.intoto.jsonl", "--name", name[:16])
    assert base64.b64decode(bundle["dsseEnvelope"]["payload"]) == world.payload()
    for words in ((), ("--name", "zz")):
        assert frt(capsys, "several.frt.intoto.jsonl", "--sigstore-bundle", *words)[0] == UsageFault.exit_code


@pytest.mark.parametrize("form", ["--sigstore-bundle", "--test-result"])
@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, os.mkfifo, lambda path: path.symlink_to("nowhere")])
@pytest.mark.usefixtures("folder")
def test_what_exists_is_never_overwritten(
    form: str, make: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    make(Path("out.json"))
    before = Path("out.json").lstat()
    status, _, err = frt(capsys, "one.frt.intoto.jsonl", form, "-o", "out.json")
    assert (status, Path("out.json").lstat()) == (UsageFault.exit_code, before)
    assert "never overwritten\n  next: " in err
    assert not Path("nowhere").exists()
    assert frt(capsys, "one.frt.intoto.jsonl", form, "-o", "new/out.json")[0] == 0


def test_signature_without_a_key_id_is_told_among_the_others(world: World) -> None:
    plain = json.loads(world.line())
    del plain["signatures"][0]["keyid"]
    envelopes = [dsse.parse_envelope(line) for line in (json.dumps(plain).encode(), world.line(key=world.bob))]
    with pytest.raises(UsageFault) as caught:
        export.choose_signature(envelopes, "")
    assert caught.value.hint.endswith(f"here are (no key id), {world.bob.public.keyid}")
    chosen = export.choose_signature(envelopes[:1], "")
    assert json.loads(export.sigstore_bundle(*chosen))["verificationMaterial"]["publicKey"] == {"hint": ""}


@pytest.mark.skipif(shutil.which("node") is None or not (JS / "node_modules").is_dir(), reason="node packages absent")
@pytest.mark.usefixtures("folder")
def test_javascript_accepts_the_bundle(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    raw = Ed25519PublicKey.from_public_bytes(world.alice.public.raw)
    pem = raw.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    sound = bundle_of(capsys, "one.frt.intoto.jsonl")
    spoiled = json.loads(json.dumps(sound).replace("eyJ", "eyK", 1))
    done = subprocess.run(
        [str(shutil.which("node")), "verify.mjs"],
        cwd=JS,
        input=json.dumps({"key": pem, "bundles": [sound, spoiled]}),
        capture_output=True,
        text=True,
        check=True,
    )
    accepted = [answer["payload"] is not None for answer in json.loads(done.stdout)]
    assert accepted == [True, False]


def derived(world: World, **changes: Any) -> dict[str, Any]:
    certificate = statement.check(world.payload(replace(world.record, **changes)))
    found: dict[str, Any] = json.loads(export.test_result(certificate))
    return found


def test_result_is_about_the_kernel_files_and_names_the_certificate(world: World) -> None:
    found = derived(world)
    assert [one["name"] for one in found["subject"]] == ["kernel/__init__.py"]
    names = {one["name"].partition("/")[0]: one["digest"]["sha256"] for one in found["predicate"]["configuration"]}
    assert names.keys() == {"structure", "certificate"}
    assert names["certificate"] == hashlib.sha256(world.payload()).hexdigest()
    assert found["predicate"]["result"] == "PASSED"
    assert set(found["predicate"]["passedTests"]) == {row.name for row in world.record.gates}
    assert found["predicate"]["failedTests"] == found["predicate"]["warnedTests"] == []


def test_gate_that_only_warned_is_a_warning(world: World) -> None:
    name = "parity.seam.max_abs"
    gates = tuple(replace(row, band="warn") if row.name == name else row for row in world.record.gates)
    predicate = derived(world, gates=gates)["predicate"]
    assert (predicate["result"], predicate["warnedTests"]) == ("WARNED", [name])
    assert name not in predicate["passedTests"]


def test_plan_has_no_result_of_its_own(world: World) -> None:
    with pytest.raises(UsageFault, match="names cells, not files"):
        export.test_result(statement.check(world.plan(world.payload())))


def test_statement_that_no_signer_would_sign_is_not_exported(world: World, tmp_path: Path) -> None:
    path = tmp_path / "x.frt.intoto.jsonl"
    path.write_bytes(world.line(world.spoiled(lambda found: found["predicate"].update(result="FAILED"))))
    assert main(["export", str(path), "--test-result"]) == CertificateRefused.exit_code


@pytest.mark.parametrize("key", [(), ("--key", "alice.pem")], ids=["unsigned", "signed"])
@pytest.mark.usefixtures("folder")
def test_result_is_never_a_certificate(world: World, capsys: pytest.CaptureFixture[str], key: tuple[str, ...]) -> None:
    assert frt(capsys, "one.frt.intoto.jsonl", "--test-result", "-o", "result.json", *key)[0] == 0
    line = Path("result.json").read_bytes().strip()
    (outcome,) = world.verify(line if key else world.line(line))
    assert isinstance(outcome, verify.Refused)
    assert outcome.code == "PREDICATE_TYPE"
    if key:
        assert dsse.signers(dsse.parse_envelope(line), [world.alice.public]) == {world.alice.public}


@pytest.mark.usefixtures("folder")
def test_bundle_is_not_signed_again(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = frt(capsys, "one.frt.intoto.jsonl", "--sigstore-bundle", "--key", "alice.pem")
    assert status == UsageFault.exit_code
    assert "signs a --test-result" in err
