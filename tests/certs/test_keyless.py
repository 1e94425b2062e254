"""Keyless signatures against services of our own: what counts, and each thing that must not."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.certs import dsse, keyless, policy, verify
from pytest_frt.cli import main
from pytest_frt.errors import CertificateRefused, MissingExtra
from tests.certs.conftest import World
from tests.certs.sigstore_world import ISSUER, REPOSITORY, SIGNER, Services, b64, fresh, signature

pytest.importorskip("sigstore")

Bundle = dict[str, Any]
ENTRY = """
[[sigstore]]
owner = "{owner}"
issuer = "{issuer}"
source_repository = "{repository}"
build_signer_uri = "{signer}"
trusted_root = {{ path = "trusted_root.json", sha256 = "{sha256}" }}
"""


@pytest.fixture(scope="module")
def services() -> Services:
    return Services()


@pytest.fixture
def folder(tmp_path: Path, services: Services) -> Path:
    (tmp_path / "trusted_root.json").write_bytes(services.trusted_root())
    return tmp_path


def entry(folder: Path, **changes: str) -> str:
    pinned = hashlib.sha256((folder / "trusted_root.json").read_bytes()).hexdigest()
    said = {"owner": "acme-ci", "issuer": ISSUER, "repository": REPOSITORY, "signer": SIGNER, "sha256": pinned}
    return ENTRY.format(**said | changes)


def trust(world: World, folder: Path, *more: str, signers: str = '["acme-ci"]', threshold: int = 1) -> policy.Policy:
    text = world.policy_text.replace('signers = ["alice"]', f"signers = {signers}")
    text = text.replace("threshold = 1", f"threshold = {threshold}") + "".join(more or (entry(folder),))
    return policy.parse(text.encode(), str(folder / "trust.toml"))


def line(bundle: Bundle) -> bytes:
    return json.dumps(bundle).encode()


def outcome(world: World, trusted: policy.Policy, *lines: bytes) -> verify.Outcome:
    (found,) = verify.verify_set(lines, trusted, world.now)
    return found


def test_listed_workflow_counts_as_its_owner(world: World, folder: Path, services: Services) -> None:
    found = outcome(world, trust(world, folder), line(services.sign(world.payload())))
    assert isinstance(found, verify.Accepted), found
    assert found.owners == ("acme-ci",)


def test_policy_may_list_no_key_at_all(world: World, folder: Path, services: Services) -> None:
    text = world.policy_text.split("[[key]]", maxsplit=1)[0] + "[[rule]]" + world.policy_text.split("[[rule]]")[1]
    text = text.replace('["alice"]', '["acme-ci"]') + entry(folder)
    trusted = policy.parse(text.encode(), str(folder / "trust.toml"))
    assert isinstance(outcome(world, trusted, line(services.sign(world.payload()))), verify.Accepted)


def test_key_and_workflow_add_up_to_a_threshold(world: World, folder: Path, services: Services) -> None:
    trusted = trust(world, folder, signers='["alice", "acme-ci"]', threshold=2)
    both = outcome(world, trusted, world.line(), line(services.sign(world.payload())))
    assert isinstance(both, verify.Accepted)
    assert both.owners == ("acme-ci", "alice")
    for one in (world.line(), line(services.sign(world.payload()))):
        alone = outcome(world, trusted, one)
        assert isinstance(alone, verify.Refused)
        assert alone.code == "THRESHOLD"


def test_one_owner_with_key_and_workflow_counts_once(world: World, folder: Path, services: Services) -> None:
    trusted = trust(world, folder, entry(folder, owner="alice"), signers='["alice", "bob"]', threshold=2)
    found = outcome(world, trusted, world.line(), line(services.sign(world.payload())))
    assert isinstance(found, verify.Refused)
    assert found.code == "THRESHOLD"


def test_bundle_that_does_not_count_sinks_no_key(world: World, folder: Path, services: Services) -> None:
    trusted = trust(world, folder, signers='["alice", "acme-ci"]')
    stranger = line(Services().sign(world.payload()))
    found = outcome(world, trusted, stranger, world.line())
    assert isinstance(found, verify.Accepted)
    assert found.owners == ("alice",)
    (folder / "trusted_root.json").write_bytes(b"{}")
    assert isinstance(outcome(world, trusted, line(services.sign(world.payload())), world.line()), verify.Accepted)


@pytest.mark.parametrize(
    "claims",
    [{"_8": "https://other.example.org"}, {"_12": f"{REPOSITORY}-fork"}, {"_9": SIGNER.replace("main", "branch")}],
    ids=["other_issuer", "other_repository", "other_workflow"],
)
def test_another_identity_of_the_same_services_does_not_count(
    world: World, folder: Path, services: Services, claims: dict[str, str]
) -> None:
    found = outcome(world, trust(world, folder), line(services.sign(world.payload(), **claims)))
    assert isinstance(found, verify.Refused)
    assert found.code == "SIG_NONE"


def material(bundle: Bundle) -> Bundle:
    found: Bundle = bundle["verificationMaterial"]
    return found


def log_entry(bundle: Bundle) -> Bundle:
    found: Bundle = material(bundle)["tlogEntries"][0]
    return found


def other_payload(bundle: Bundle) -> None:
    envelope = bundle["dsseEnvelope"]
    spaced = base64.b64decode(envelope["payload"]).replace(b'"seed":7', b'"seed":8')
    envelope["payload"] = b64(spaced)


def other_signature(bundle: Bundle) -> None:
    data = dsse.pae(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    bundle["dsseEnvelope"]["signatures"][0]["sig"] = b64(signature(fresh(), data))


def no_log_entry(bundle: Bundle) -> None:
    material(bundle)["tlogEntries"] = []


def other_log(bundle: Bundle) -> None:
    stranger = Services().sign(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    material(bundle)["tlogEntries"] = material(stranger)["tlogEntries"]


def later_time(bundle: Bundle) -> None:
    log_entry(bundle)["integratedTime"] = str(int(log_entry(bundle)["integratedTime"]) + 3600)


def no_promise(bundle: Bundle) -> None:
    del log_entry(bundle)["inclusionPromise"]


def other_body(bundle: Bundle) -> None:
    log_entry(bundle)["canonicalizedBody"] = b64(b"{}")


def other_root_hash(bundle: Bundle) -> None:
    log_entry(bundle)["inclusionProof"]["rootHash"] = b64(bytes(32))


def torn_checkpoint(bundle: Bundle) -> None:
    log_entry(bundle)["inclusionProof"]["checkpoint"]["envelope"] = "x\n\n"


def other_certificate(bundle: Bundle) -> None:
    stranger = Services().sign(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    material(bundle)["certificate"] = material(stranger)["certificate"]


def torn_certificate(bundle: Bundle) -> None:
    material(bundle)["certificate"] = {"rawBytes": "AAAA"}


def certificate_of_another_type(bundle: Bundle) -> None:
    material(bundle)["certificate"] = 7


def two_entries(bundle: Bundle) -> None:
    material(bundle)["tlogEntries"] *= 2


SPOILED: tuple[Callable[[Bundle], None], ...] = (
    other_payload, other_signature, no_log_entry, other_log, later_time, no_promise, other_body, other_root_hash,
    torn_checkpoint, other_certificate, torn_certificate, certificate_of_another_type, two_entries,
)  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda one: one.__name__)
def test_spoiled_bundle_does_not_count(
    world: World, folder: Path, services: Services, spoil: Callable[[Bundle], None]
) -> None:
    bundle = services.sign(world.payload())
    spoil(bundle)
    found = outcome(world, trust(world, folder), line(bundle))
    assert isinstance(found, verify.Refused)
    assert found.code == "SIG_NONE"


def test_answer_about_another_payload_does_not_count(
    world: World, folder: Path, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted, data = trust(world, folder), line(services.sign(world.payload()))
    envelope = dsse.parse_envelope(data)
    verifier = type("Verifier", (), {"verify_dsse": lambda *_: (dsse.PAYLOAD_TYPE, b"other")})
    monkeypatch.setattr(keyless, "_verifier", lambda *_: verifier())
    assert keyless.signers([envelope], trusted.keyless, trusted.source).signers == ()


@pytest.mark.parametrize("content", [b"{}", b"", None], ids=["changed", "empty", "missing"])
def test_root_that_is_not_the_pinned_file_is_refused(
    world: World, folder: Path, services: Services, content: bytes | None
) -> None:
    trusted = trust(world, folder)
    root = folder / "trusted_root.json"
    root.unlink() if content is None else root.write_bytes(content)
    found = outcome(world, trusted, line(services.sign(world.payload())))
    assert isinstance(found, verify.Refused)
    assert found.code == "TRUSTED_ROOT"


def test_pinned_file_that_is_no_root_is_refused(world: World, folder: Path, services: Services) -> None:
    (folder / "trusted_root.json").write_bytes(b'{"mediaType": "x"}')
    found = outcome(world, trust(world, folder), line(services.sign(world.payload())))
    assert isinstance(found, verify.Refused)
    assert found.code == "TRUSTED_ROOT"


def test_without_the_extra_keys_still_count(
    world: World, folder: Path, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyless, "find_spec", lambda _name: None)
    trusted, bundle = trust(world, folder, signers='["alice", "acme-ci"]'), line(services.sign(world.payload()))
    found = outcome(world, trusted, bundle)
    assert isinstance(found, verify.Refused)
    assert found.code == "KEYLESS_EXTRA"
    assert isinstance(outcome(world, trusted, bundle, world.line()), verify.Accepted)
    with pytest.raises(MissingExtra, match="sigstore"):
        keyless.sign(world.payload())


def test_nothing_is_imported_for_lines_with_keys(world: World, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sigstore", None)
    trusted = trust(world, folder, signers='["alice", "acme-ci"]')
    assert isinstance(outcome(world, trusted, world.line()), verify.Accepted)


def test_command_signs_keyless_what_it_checked(
    world: World, folder: Path, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens: list[str] = []

    def sign(payload: bytes, token: str) -> str:
        tokens.append(token)
        return json.dumps(services.sign(payload))

    monkeypatch.setattr(keyless, "sign", sign)
    statement, token = folder / "x.statement.json", folder / "token"
    statement.write_bytes(world.payload())
    token.write_text("abc\n")
    words = ["sign", "--sigstore", "--identity-token", str(token), str(statement)]
    assert main(words) == 0
    assert tokens == ["abc"]
    (made,) = folder.glob("*.frt.intoto.jsonl")
    assert isinstance(outcome(world, trust(world, folder), made.read_bytes().strip()), verify.Accepted)
    statement.write_bytes(world.spoiled(lambda found: found["predicate"].update(result="FAILED")))
    assert main(words) == CertificateRefused.exit_code
    assert tokens == ["abc"]
