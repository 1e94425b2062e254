"""What must hold for any bytes: acceptance of exactly those bytes, or a coded refusal. One function an entry point.

``run.py`` drives these with a coverage-guided engine; ``test_corpus.py`` replays what such runs have found.
"""

from __future__ import annotations

import base64
import hashlib
import json
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from pytest_frt.certs import bundle, dsse, index, policy, state, statement, verify
from pytest_frt.certs.codes import CODES
from pytest_frt.certs.policy_types import Policy
from pytest_frt.certs.reading import parse_time
from pytest_frt.certs.strict_json import STATEMENT, parse, serialise
from pytest_frt.errors import CertificateRefused
from tests.certs.vectors import world
from tests.certs.vectors.model import read

T = TypeVar("T")

NOW: Final = parse_time(world.NOW)
POLICY: Final[Policy] = policy.parse(world.POLICY.encode())
BUNDLED: Final = ("A1", "A2", "R4a")
HONEST: Final = world.cell_payload()
HONEST_LINE: Final = world.line(HONEST)


def taken(read: Callable[[bytes], T], data: bytes, codes: Collection[str] = CODES) -> T | None:
    """Return what a reader makes of ``data``, or None after a refusal with one of ``codes``."""
    try:
        return read(data)
    except CertificateRefused as refusal:
        if refusal.refusal_code not in codes:
            raise AssertionError(f"{refusal.refusal_code} is no code of this reader") from refusal
        return None


def judged(lines: Sequence[bytes], trusted: Policy) -> list[verify.Accepted]:
    """Return what a set accepts; every other line was refused with a registered code."""
    outcomes = verify.verify_set(lines, trusted, NOW)
    refused = [outcome.code for outcome in outcomes if isinstance(outcome, verify.Refused)]
    assert set(refused) <= CODES.keys()
    return [outcome for outcome in outcomes if isinstance(outcome, verify.Accepted)]


def envelope(data: bytes) -> None:
    """A line is refused, or gives exactly the payload that a plain JSON reader sees."""
    found = taken(dsse.parse_envelope, data)
    if found is not None:
        document = json.loads(data)
        text = document.get("dsseEnvelope", document)["payload"]
        assert base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True) == found.payload
        assert 0 < len(found.signatures) <= dsse.MAX_SIGNATURES


def signed(data: bytes) -> None:
    """A signed payload is accepted under the digest of exactly its bytes, and says what a plain JSON reader sees."""
    for outcome in judged([world.line(data)], POLICY):
        assert outcome.name == hashlib.sha256(data).hexdigest()
        predicate = json.loads(data)["predicate"]
        assert outcome.certificate.serial == predicate["serial"]
        assert outcome.certificate.result == predicate["result"] == "PASSED"
        assert outcome.owners == ("alice",)


def roundtrip(data: bytes) -> None:
    """What the verifier reads, the signer writes so that the verifier reads the same."""
    certificate = taken(statement.check, data)
    if certificate is None:
        return
    terms: dict[str, Any] = {
        "issuer": certificate.issuer,
        "serial": certificate.serial,
        "issued_at": certificate.issued_at,
        "expires_at": certificate.expires_at,
    }
    if isinstance(certificate, statement.CellCertificate):
        again = statement.parse_payload(statement.build_cell(certificate.record, **terms))
        assert isinstance(again, statement.CellCertificate)
        assert again.record == certificate.record
    else:
        other = statement.parse_payload(statement.build_plan(certificate.plan, **terms))
        assert isinstance(other, statement.PlanCertificate)
        assert other.plan == certificate.plan


def trust(data: bytes) -> None:
    """A policy loads or is refused; one that loads judges the honest certificate without another error."""
    loaded = taken(policy.parse, data)
    if loaded is not None:
        assert loaded.keys
        assert loaded.rules
        judged([HONEST_LINE], loaded)


def whole(data: bytes) -> None:
    """A set of any bytes accepts nothing but payloads that somebody signed."""
    for outcome in judged(taken(dsse.split_set, data) or (), POLICY):
        assert outcome.name in signed_names()


def listed(data: bytes) -> None:
    """A signed index is read or refused, and no index makes anything else accepted than what was signed."""
    found = taken(index.parse_index, data)
    if found is not None:
        assert found.payload_sha256 == hashlib.sha256(data).hexdigest()
        assert list(found.current) == json.loads(data)["predicate"]["current"]
    names = {outcome.name for outcome in judged([HONEST_LINE, world.line(data)], POLICY)}
    assert names <= {hashlib.sha256(HONEST).hexdigest(), hashlib.sha256(data).hexdigest()}


def memory(data: bytes) -> None:
    """A state file is read and written back, or refused as damaged."""
    found = taken(state.parse_memory, data, ("STATE_CORRUPT",))
    assert found is None or state.parse_memory(state.memory_bytes(found)) == found


def dialect(data: bytes) -> None:
    """The strict reader sees what the plain reader sees, and its writer is canonical."""
    value = taken(lambda text: [parse(text, STATEMENT)], data)
    if value is not None:
        assert value == [json.loads(data)]
        text = serialise(value[0])
        assert serialise(parse(text, STATEMENT)) == text


def package(data: bytes) -> None:
    """A bundle is refused, or is exactly the bytes that its files are written as."""
    with tempfile.NamedTemporaryFile(suffix=".zip") as file:
        file.write(data)
        file.flush()
        files = taken(lambda _: bundle.read(Path(file.name)), data)
    assert files is None or bundle.pack(files) == data


TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {
    "dialect": dialect,
    "envelope": envelope,
    "statement": signed,
    "roundtrip": roundtrip,
    "policy": trust,
    "set": whole,
    "index": listed,
    "state": memory,
    "bundle": package,
}


def seeds(target: str) -> Iterator[bytes]:
    """Yield what a target starts from: the published vectors, each cut to what the target reads."""
    for vector in read():
        lines = [line for line in vector.data.split(b"\n") if line]
        match target:
            case "policy":
                yield vector.policy.encode()
            case "set":
                yield vector.data
            case "bundle" if vector.id in BUNDLED:
                yield bundle.pack(bundle.with_manifest({"certs/a.frt.intoto.jsonl": vector.data, "logs/run.txt": b"x"}))
            case "state" if vector.state:
                yield json.dumps(vector.state).encode()
            case "envelope" | "dialect":
                yield from lines
            case "statement" | "roundtrip" | "index":
                yield from _payloads(lines, listed=target == "index")
    if target == "roundtrip":
        yield world.plan_payload(HONEST)


@cache
def signed_names() -> frozenset[str]:
    """Return the names of all payloads of the published vectors."""
    lines = [line for vector in read() for line in vector.data.split(b"\n")]
    return frozenset(
        hashlib.sha256(one).hexdigest() for wanted in (False, True) for one in _payloads(lines, listed=wanted)
    )


def _payloads(lines: list[bytes], *, listed: bool) -> Iterator[bytes]:
    for line in lines:
        try:
            payload = dsse.parse_envelope(line).payload
        except CertificateRefused:
            continue
        if (b"certificate-index" in payload) == listed:
            yield payload
