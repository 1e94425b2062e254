"""What ``frt sign --sigstore`` makes of an answer; asking the services themselves needs a network and is not run."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from pytest_frt.certs import dsse, keyless
from pytest_frt.cli import main
from pytest_frt.errors import CertificateRefused, UsageFault
from tests.certs.conftest import World
from tests.certs.sigstore_world import Services

sigstore = pytest.importorskip("sigstore.models")
errors = importlib.import_module("sigstore.errors")


def test_line_is_the_bundle_around_exactly_our_bytes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = sigstore.Bundle.from_json(json.dumps(Services().sign(world.payload())))
    monkeypatch.setattr(keyless, "_asked", lambda *_: bundle)
    line = keyless.sign(world.payload())
    assert "\n" not in line
    envelope = dsse.parse_envelope(line.encode())
    assert envelope.payload == world.payload()
    assert envelope.bundle == line.encode()


def test_bundle_around_other_bytes_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    other = sigstore.Bundle.from_json(json.dumps(Services().sign(world.payload() + b" ")))
    monkeypatch.setattr(keyless, "_asked", lambda *_: other)
    with pytest.raises(CertificateRefused, match="another payload"):
        keyless.sign(world.payload())


@pytest.mark.parametrize("fault", [errors.VerificationError, OSError], ids=["service", "network"])
def test_services_that_fail_are_one_message(
    world: World, monkeypatch: pytest.MonkeyPatch, fault: Callable[[str], Exception]
) -> None:
    def fail(*_: object) -> None:
        raise fault("out of reach")

    monkeypatch.setattr(keyless, "_asked", fail)
    with pytest.raises(UsageFault, match="out of reach") as caught:
        keyless.sign(world.payload())
    assert "--key" in caught.value.hint


class Issuer:
    """A login in a browser, answered at once."""

    def __init__(self, url: str) -> None:
        self.url = url

    def identity_token(self) -> str:
        return f"login at {self.url}"


@pytest.mark.parametrize(
    ("token", "ambient", "identity"),
    [("given", "ambient", "token given"), ("", "ambient", "token ambient"), ("", None, "login at https://oidc")],
    ids=["given", "of_the_job", "login"],
)
def test_identity_is_the_nearest_at_hand(
    world: World, monkeypatch: pytest.MonkeyPatch, token: str, ambient: str | None, identity: str
) -> None:
    asked: list[tuple[object, ...]] = []

    @contextmanager
    def signer(who: str) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(sign_dsse=lambda statement: asked.append((who, statement._contents)) or "bundle")

    trust = SimpleNamespace(signing_config=SimpleNamespace(get_oidc_url=lambda: "https://oidc"))
    monkeypatch.setattr("sigstore.models.ClientTrustConfig.production", lambda: trust)
    monkeypatch.setattr("sigstore.oidc.detect_credential", lambda: ambient)
    monkeypatch.setattr("sigstore.oidc.IdentityToken", "token {}".format)
    monkeypatch.setattr("sigstore.oidc.Issuer", Issuer)
    context = SimpleNamespace(signer=signer)
    monkeypatch.setattr("sigstore.sign.SigningContext.from_trust_config", lambda given: given is trust and context)
    assert keyless._asked(world.payload(), token) == "bundle"
    assert asked == [(identity, world.payload())]


def test_names_that_signing_uses_exist() -> None:
    for module, names in {
        "sigstore.models": (
            "ClientTrustConfig.production",
            "ClientTrustConfig.signing_config",
            "SigningConfig.get_oidc_url",
        ),
        "sigstore.oidc": ("detect_credential", "IdentityToken", "Issuer.identity_token"),
        "sigstore.sign": ("SigningContext.from_trust_config", "SigningContext.signer", "Signer.sign_dsse"),
        "sigstore.dsse": ("Statement",),
    }.items():
        for name in names:
            found = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)


def test_one_way_to_sign_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["sign", "x.statement.json"])
    assert caught.value.code == UsageFault.exit_code
    assert "--sigstore" in capsys.readouterr().err
