"""Vectors on limits, one a cap, and on memory: state file and publisher's index."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from typing import Any, Final

from pytest_frt.certs import dsse, statement, strict_json
from pytest_frt.certs.index import Revoked, build_index
from pytest_frt.certs.reading import parse_time
from pytest_frt.certs.state import Seen, place_of
from tests.certs.vectors import world
from tests.certs.vectors.make import (
    LINE,
    PAYLOAD,
    Members,
    enveloped,
    predicate,
    remembered,
    signed,
    stated,
    subject,
    vector,
)
from tests.certs.vectors.model import ACCEPT, Vector
from tests.certs.vectors.world import policy

NAME: Final = hashlib.sha256(PAYLOAD).hexdigest()
OTHER: Final = "f" * 64
INDEX_REQUIRED: Final = policy(("deny = []", "deny = []\nindex = { required = true }"))


def caps() -> Iterator[Vector]:
    """Yield group C: one step over each cap, and one at it where that is accepted."""
    limit, inner = strict_json.ENVELOPE, strict_json.STATEMENT
    yield vector("C1", "an envelope over 512 KiB", "JSON_SIZE", LINE + b" " * (limit.size + 1 - len(LINE)))
    yield vector("C1b", "an envelope of exactly 512 KiB", ACCEPT, LINE + b" " * (limit.size - len(LINE)))
    yield vector("C2", "a statement over 256 KiB", "JSON_SIZE", world.line(_padded(inner.size + 1)))
    yield vector("C2b", "a statement of exactly 256 KiB", ACCEPT, world.line(_padded(inner.size)))
    yield vector("C3", "a statement nested deeper than 24", "JSON_DEPTH", _nested(inner.depth - 1))
    yield vector("C3b", "a statement nested 24 deep", ACCEPT, _nested(inner.depth - 2))
    yield vector("C3c", "an envelope nested 100,000 deep", "JSON_DEPTH", b'{"x":' + b"[" * 100_000)
    yield vector("C4", "over 20,000 separators", "JSON_TOKENS", stated(moonPhase=[1] * (inner.separators + 1)))
    yield vector("C4b", "an envelope with over 20,000 separators", "JSON_TOKENS", b"[" + b"," * 20_001 + b"]")
    yield vector("C5", "17 signatures", "SIG_COUNT", enveloped(lambda document: _repeat(document, 17)))
    yield vector("C5b", "16 signatures", ACCEPT, enveloped(lambda document: _repeat(document, dsse.MAX_SIGNATURES)))
    yield vector(
        "C6", "1,025 subjects", "SCHEMA", signed(lambda found: fill_subjects(found, statement.MAX_SUBJECTS + 1))
    )
    yield vector("C7", "a string of 4,097 characters", "JSON_STRING", stated(moonPhase="x" * (inner.string + 1)))
    yield vector("C7b", "a string of 4,096 characters", ACCEPT, stated(moonPhase="x" * inner.string))
    yield vector("C7c", "a name of 4,097 characters", "JSON_STRING", stated(**{"x" * (inner.string + 1): "full"}))
    yield _whole("C8", "a set over 16 MiB", LINE + b"\n" * 1 + b" " * dsse.MAX_SET_BYTES)
    yield _whole("C9", "a set of over 2,048 lines", b"{}\n" * (dsse.MAX_SET_LINES + 1))
    yield vector("C10", "a compressed line", "JSON_NUL", gzip.compress(LINE[:1] * 1024, mtime=0).replace(b"\n", b""))
    yield vector("C11", "a decimal of 16 digits before the point", "DECIMAL", _measured("1" * 16))
    yield vector("C11b", "a decimal of 13 digits behind the point", "DECIMAL", _measured("0." + "1" * 13))
    yield vector(
        "C12",
        "an identifier of five segments",
        "NAME",
        predicate(lambda found: found["kernel"].update(repo="acme/a/b/c/d")),
    )
    yield vector("C13", "a file name of 256 characters", "NAME", subject(name="kernel/" + "a/" * 3 + "b" * 243))


def memory() -> Iterator[Vector]:
    """Yield group R without the index."""
    pin = f'allow_rollback = [{{ payload = "{NAME}", reason = "the newer one is slow here" }}]'
    yield vector("R0", "the same certificate again", ACCEPT, state=_seen(42, NAME))
    yield vector("R1", "a lower serial than was seen", "ROLLBACK", state=_seen(43, OTHER))
    yield vector(
        "R1b",
        "a lower serial than was seen, pinned",
        ACCEPT,
        state=_seen(43, OTHER),
        policy=policy(("deny = []", f"deny = []\n{pin}")),
    )
    yield vector("R2", "the serial that was seen, another payload", "EQUIVOCATION", state=_seen(42, OTHER))
    yield vector(
        "R3",
        "a serial below min_serial of the rule",
        "SERIAL_MIN",
        policy=policy(("threshold = 1", "threshold = 1\nmin_serial = 43")),
    )
    yield vector(
        "R3b",
        "a serial of exactly min_serial",
        ACCEPT,
        policy=policy(("threshold = 1", "threshold = 1\nmin_serial = 42")),
    )


def indexes() -> Iterator[Vector]:
    """Yield group R with an index: a policy that demands one, and what the publisher's index says."""
    newer = remembered(indexes={"acme": Seen(4, OTHER)})
    yield _indexed("R4a", "listed", ACCEPT, current=[NAME])
    yield vector("R4b", "no index where one is required", "NOT_IN_INDEX", policy=INDEX_REQUIRED)
    yield _indexed("R4", "not listed", "NOT_IN_INDEX", current=[OTHER])
    yield _indexed("R5", "revoked", "REVOKED", current=[], revoked=[Revoked("payload", NAME, "out-of-bounds read")])
    yield _indexed(
        "R5b",
        "its kernel tree is revoked",
        "REVOKED",
        current=[NAME],
        revoked=[Revoked("tree", world.RECORD.kernel.tree_digest, "out-of-bounds read")],
    )
    yield _indexed(
        "R6", "the index has expired", "INDEX_EXPIRED", current=[NAME], expires=parse_time("2026-11-30T23:59:59Z")
    )
    yield _indexed("R7", "a lower index version than was seen", "INDEX_ROLLBACK", current=[NAME], state=newer)


def _seen(serial: int, payload: str) -> Members:
    place = place_of(statement.parse_payload(PAYLOAD))
    return remembered(certificates={place: Seen(serial, payload)})


def _indexed(name: str, shows: str, expect: str, *, state: Members | None = None, **index: Any) -> Vector:
    """Return a vector whose set holds the honest line and an index that alice signed."""
    expires = parse_time("2026-12-14T00:00:00Z")
    terms: dict[str, Any] = {"issuer": "acme", "version": 3, "issued_at": world.ISSUED, "expires": expires}
    told = world.line(build_index(**(terms | index)))
    return vector(name, shows, expect, LINE, told, policy=INDEX_REQUIRED, state=state or {})


def _whole(name: str, shows: str, data: bytes) -> Vector:
    return Vector(id=name, shows=shows, expect="SET_SIZE", at=world.NOW, policy=world.POLICY, data=data)


def _padded(size: int) -> bytes:
    return PAYLOAD + b" " * (size - len(PAYLOAD))


def _nested(levels: int) -> bytes:
    """Return a statement whose predicate holds that many lists inside each other."""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return stated(moonPhase=value)


def _measured(text: str) -> bytes:
    return predicate(lambda found: found["gates"][0].update(measured=text))


def _repeat(document: Members, times: int) -> None:
    document["signatures"] *= times


def fill_subjects(document: Members, count: int) -> None:
    """Fill up with short names: the separators of 1,024 subjects leave room for everything else."""
    missing = count - len(document["subject"])
    document["subject"] += [
        {"name": f"kernel/x{number}.py", "digest": {"sha256": f"{number:064x}"}} for number in range(missing)
    ]
