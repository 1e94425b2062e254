"""``[[sigstore]]`` entries of a policy: read strictly, shown, and never one workflow under two owners."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_frt.certs import dsse, keyless, verify
from pytest_frt.cli import main
from pytest_frt.errors import CertificateRefused
from tests.certs.conftest import World
from tests.certs.sigstore_world import ISSUER, SIGNER, Services
from tests.certs.test_keyless import entry, line, outcome, trust


@pytest.fixture(scope="module")
def services() -> Services:
    return Services()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "trusted_root.json").write_bytes(b"{}")
    return tmp_path


MALFORMED: dict[str, tuple[str, str, str]] = {
    "unknown_member": ('owner = "acme-ci"', 'owner = "acme-ci"\nanyone = true', "POLICY_SCHEMA"),
    "no_uri": (f'issuer = "{ISSUER}"', 'issuer = "token.example.org"', "POLICY_SCHEMA"),
    "blank_in_uri": (f'issuer = "{ISSUER}"', f'issuer = "{ISSUER} x"', "POLICY_SCHEMA"),
    "look_alike_uri": (f'issuer = "{ISSUER}"', f'issuer = "{ISSUER.replace("o", chr(0x43E))}"', "POLICY_SCHEMA"),
    "short_digest": ('sha256 = "', 'sha256 = "0', "DIGEST"),
    "no_root": ('path = "trusted_root.json", ', "", "POLICY_SCHEMA"),
    "owner_missing": ('owner = "acme-ci"\n', "", "POLICY_SCHEMA"),
}


@pytest.mark.parametrize(("old", "new", "code"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_entry_is_refused(world: World, folder: Path, old: str, new: str, code: str) -> None:
    assert old in entry(folder)
    with pytest.raises(CertificateRefused) as caught:
        trust(world, folder, entry(folder).replace(old, new))
    assert caught.value.refusal_code == code


def test_one_workflow_under_two_owners_is_refused(world: World, folder: Path) -> None:
    with pytest.raises(CertificateRefused) as caught:
        trust(world, folder, entry(folder), entry(folder, owner="alice"))
    assert caught.value.refusal_code == "POLICY_DUPKEY"


def test_one_owner_may_list_a_workflow_with_two_roots(world: World, folder: Path) -> None:
    assert len(trust(world, folder, entry(folder), entry(folder, sha256="f" * 64)).keyless) == 2


def test_policy_is_shown_with_its_workflows(world: World, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "trust.toml"
    file.write_text(world.policy_text + entry(folder))
    file.chmod(0o600)
    assert main(["trust", "show", "--trust", str(file)]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "acme-ci" in line)
    assert row.split() == ["acme-ci", ISSUER, SIGNER]


@pytest.mark.parametrize(("less", "code"), [(1, "TRUSTED_ROOT"), (0, "")], ids=["over_the_cap", "at_the_cap"])
def test_cap_of_the_root(
    world: World, folder: Path, services: Services, monkeypatch: pytest.MonkeyPatch, less: int, code: str
) -> None:
    root = services.trusted_root()
    (folder / "trusted_root.json").write_bytes(root)
    monkeypatch.setattr(keyless, "MAX_ROOT_BYTES", len(root) - less)
    found = outcome(world, trust(world, folder), line(services.sign(world.payload())))
    assert getattr(found, "code", "") == code


def test_broken_root_of_one_workflow_sinks_no_other(world: World, folder: Path, services: Services) -> None:
    (folder / "trusted_root.json").write_bytes(services.trusted_root())
    trusted = trust(
        world, folder, entry(folder, owner="other", sha256="f" * 64), entry(folder, signer="https://x.example")
    )
    found = keyless.signers(
        [dsse.parse_envelope(line(services.sign(world.payload())))], trusted.keyless, trusted.source
    )
    assert (found.signers, getattr(found.refusal, "refusal_code", "")) == ((), "TRUSTED_ROOT")
    trusted = trust(
        world, folder, entry(folder, owner="other", signer="https://x.example", sha256="f" * 64), entry(folder)
    )
    assert isinstance(outcome(world, trusted, line(services.sign(world.payload()))), verify.Accepted)


def test_lines_with_keys_are_none_of_its_business(world: World, folder: Path) -> None:
    trusted = trust(world, folder, entry(folder, sha256="f" * 64))
    found = keyless.signers([dsse.parse_envelope(world.line())], trusted.keyless, trusted.source)
    assert found == keyless.KeylessFound((), None)


def test_stranger_among_the_bundles_of_a_certificate_sinks_no_other(
    world: World, folder: Path, services: Services
) -> None:
    (folder / "trusted_root.json").write_bytes(services.trusted_root())
    bundles = [line(one.sign(world.payload())) for one in (Services(), services)]
    assert isinstance(outcome(world, trust(world, folder), *bundles), verify.Accepted)
