"""Short ways to spoil one thing of the world and call it a vector."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from pytest_frt.certs import dsse
from pytest_frt.certs.keys import SigningKey
from pytest_frt.certs.state import Memory, memory_bytes
from tests.certs.vectors import world
from tests.certs.vectors.model import Vector

Members = dict[str, Any]
PAYLOAD: Final = world.cell_payload()
LINE: Final = world.line(PAYLOAD)
OTHER_TYPE: Final = "application/json"


def vector(name: str, shows: str, expect: str, *lines: bytes, **more: Any) -> Vector:
    """Return a vector over these lines; without any, over the honest one."""
    data = b"".join(line + b"\n" for line in lines or (LINE,))
    return Vector(**({"at": world.NOW, "policy": world.POLICY} | more), id=name, shows=shows, expect=expect, data=data)


def enveloped(spoil: Callable[[Members], object], payload: bytes = PAYLOAD) -> bytes:
    """Return the honest envelope after one change that nobody signed."""
    document = world.envelope(payload)
    spoil(document)
    return world.dumped(document)


def signed(spoil: Callable[[Members], object], *signers: SigningKey) -> bytes:
    """Return a changed statement, signed."""
    return world.line(world.spoiled(spoil, PAYLOAD), *signers)


def predicate(spoil: Callable[[Members], object]) -> bytes:
    """Return a statement with a changed predicate, signed."""
    return signed(lambda statement: spoil(statement["predicate"]))


def stated(**members: object) -> bytes:
    """Return a statement whose predicate says something else, signed."""
    return predicate(lambda found: found.update(members))


def written(old: str, new: str) -> bytes:
    """Return a statement with other text at one place, signed: what no JSON writer would produce."""
    text = PAYLOAD.decode()
    if old not in text:
        raise ValueError(f"the payload does not hold {old!r}")
    return world.line(text.replace(old, new, 1).encode())


def gate(name: str, **members: object) -> bytes:
    """Return a statement with one changed gate, signed."""

    def spoil(found: Members) -> None:
        next(row for row in found["gates"] if row["name"] == name).update(members)

    return predicate(spoil)


def subject(**members: object) -> bytes:
    """Return a statement whose first subject is changed, signed."""
    return signed(lambda statement: statement["subject"][0].update(members))


def resigned(message: bytes) -> bytes:
    """Return the honest envelope with alice's signature over other bytes than the protocol's."""
    document = world.envelope(PAYLOAD)
    document["signatures"] = world.envelope(PAYLOAD)["signatures"]
    raw = world.ALICE.sign(message)
    document["signatures"][0]["sig"] = world.text64(raw)
    return world.dumped(document)


def bundle(line: bytes) -> bytes:
    """Return a sigstore bundle around one envelope, with a plain public key as its material."""
    document = json.loads(line)
    return world.dumped(
        {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {"publicKey": {"hint": document["signatures"][0]["keyid"]}},
            "dsseEnvelope": document,
        }
    )


def pae(payload_type: str) -> bytes:
    return dsse.pae(PAYLOAD, payload_type)


def remembered(**facts: Any) -> Members:
    """Return the document of a state file."""
    document: Members = json.loads(memory_bytes(Memory(**facts)))
    return document
