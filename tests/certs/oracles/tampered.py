"""One honest envelope and ways to tamper with it, for verifiers that are not ours."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final

from pytest_frt.certs import dsse
from tests.certs.vectors import world

PAYLOAD: Final = world.cell_payload()
LINE: Final = dsse.sign(PAYLOAD, world.ALICE)


def _payload(envelope: dict[str, Any]) -> None:
    changed = PAYLOAD.replace(b'"result":"PASSED"', b'"result":"FAILED"')
    envelope["payload"] = base64.b64encode(changed).decode()


def _bit(envelope: dict[str, Any]) -> None:
    raw = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
    raw[5] ^= 1
    envelope["signatures"][0]["sig"] = base64.b64encode(raw).decode()


def _stranger(envelope: dict[str, Any]) -> None:
    own = envelope["signatures"][0]["keyid"]
    envelope["signatures"] = world.envelope(PAYLOAD, (world.MALLORY,))["signatures"]
    envelope["signatures"][0]["keyid"] = own


def _without_pae(envelope: dict[str, Any]) -> None:
    envelope["signatures"][0]["sig"] = base64.b64encode(world.ALICE.sign(PAYLOAD)).decode()


TAMPERED: Final[dict[str, Callable[[dict[str, Any]], object]]] = {
    "payload": _payload,
    "payload_type": lambda envelope: envelope.update(payloadType="application/json"),
    "bit_of_the_signature": _bit,
    "unknown_key_under_a_trusted_keyid": _stranger,
    "signed_without_encoding": _without_pae,
    "no_signature": lambda envelope: envelope.update(signatures=[]),
}


def honest() -> dict[str, Any]:
    """Return the honest envelope; a fresh one, since some readers take their argument apart."""
    envelope: dict[str, Any] = json.loads(LINE)
    return envelope


def spoiled(name: str) -> dict[str, Any]:
    """Return the honest envelope after one tampering."""
    envelope = honest()
    TAMPERED[name](envelope)
    return envelope
