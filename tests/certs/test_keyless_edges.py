"""Keyless signatures at the edges: a root as long as one may be, and answers about another type of payload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import dsse, keyless, verify
from tests.certs.sigstore_world import Services
from tests.certs.test_keyless import line, outcome, trust

if TYPE_CHECKING:
    from tests.certs.conftest import World

CAP = 1024 * 1024


@pytest.mark.parametrize(("size", "code"), [(CAP, ""), (CAP + 1, "TRUSTED_ROOT")], ids=["at_the_cap", "over_the_cap"])
def test_trusted_root_has_a_mebibyte(world: World, tmp_path: Path, size: int, code: str) -> None:
    services = Services()
    (tmp_path / "trusted_root.json").write_bytes(services.trusted_root().ljust(size))
    found = outcome(world, trust(world, tmp_path), line(services.sign(world.payload())))
    assert getattr(found, "code", "") == code
    assert isinstance(found, verify.Refused if code else verify.Accepted)


@pytest.mark.parametrize(
    ("kind", "counts"), [(dsse.PAYLOAD_TYPE, True), ("application/json", False), ("", False)], ids=repr
)
def test_signature_counts_for_our_payload_type_alone(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    counts: bool,  # noqa: FBT001
) -> None:
    (tmp_path / "trusted_root.json").write_bytes(b"{}")
    trusted = trust(world, tmp_path)
    envelope = dsse.parse_envelope(line(Services().sign(world.payload())))
    verifier = type("Verifier", (), {"verify_dsse": lambda *_: (kind, envelope.payload)})
    monkeypatch.setattr(keyless, "_verifier", lambda *_: verifier())
    found = keyless.signers([envelope], trusted.keyless, trusted.source)
    assert [one.owner for one in found.signers] == ["acme-ci"] * counts
    assert found.refusal is None
