"""Raw timing on disk: every pair of every judged record and union, with the verdict they came to, to be judged again.

``<out>/evidence/<record key id or union name>/net_win.<digest12>.json`` holds one ``Pairs`` as sorted JSON: what was
timed, the kind of output the guards read, the digest of the timing and the verdict. The file's name is for people;
what a certificate binds is the digest of its bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_frt.certs.files import write_atomic
from pytest_frt.contracts.record import FileDigest
from pytest_frt.contracts.timing import TimingEvidence
from pytest_frt.contracts.verdict import Verdict
from pytest_frt.errors import EvidenceError
from pytest_frt.gates import net_win
from pytest_frt.spec import codec
from pytest_frt.spec.digest import bytes_digest, canonical_json, json_digest

SCHEMA: Final = "frt-pairs/1"
FOLDER: Final = "evidence"
STEM: Final = "net_win"
BOUND: Final = "evidence/net_win.json"
"""Name under which a certificate binds a collection."""
SHORT: Final = 12
MAX_BYTES: Final = 32 << 20
"""Eighty units of four samples and their null pairs stay below 1 MB."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """One collection of timed pairs and what was said of it.

    Attributes:
        schema: ``SCHEMA``.
        subject: Record key id or union name.
        output: ``values`` or ``distribution``.
        timing_sha256: Digest of the canonical JSON of ``timing``.
        timing: Every pair.
        verdict: The verdict of the gate net_win on exactly this.
    """

    schema: str
    subject: str
    output: str
    timing_sha256: str
    timing: TimingEvidence
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A collection as it was read.

    Attributes:
        pairs: The collection.
        sha256: Digest of the file's bytes.
        timing_sha256: Digest of the canonical JSON of ``timing`` as it stands in the file: fields that a later version
            adds are no change.
    """

    pairs: Pairs
    sha256: str
    timing_sha256: str


@dataclass(frozen=True, slots=True)
class Replayed:
    """A collection judged again.

    Attributes:
        pairs: The collection.
        verdict: What the gate says of it now.
        faults: What differs from what was stored, sentences; empty when nothing does.
    """

    pairs: Pairs
    verdict: Verdict
    faults: tuple[str, ...]


def settled(verdict: Verdict) -> Verdict:
    """Return a verdict as it is read back: a count where a number belongs becomes one, 24 is 24.0."""
    found: Verdict = codec.from_json(Verdict, codec.to_json(verdict))  # type: ignore[arg-type]
    return found


def folder(out: Path, subject: str) -> Path:
    """Return where the collections of one record or union lie."""
    return out / FOLDER / subject


def keep(out: Path, subject: str, timing: TimingEvidence, verdict: Verdict, *, output: str) -> FileDigest:
    """Write one collection.

    Returns:
        Its path below ``out``, and the digest of its bytes.

    Raises:
        StorageFault: the file cannot be written.
        EvidenceError: a number is none, which JSON has no word for.
    """
    try:
        made = Pairs(SCHEMA, subject, output, json_digest(codec.to_json(timing)), timing, settled(verdict))
        data = codec.dumps(made).encode()
    except ValueError as fault:
        raise EvidenceError(f"timing of {subject} holds a number that is none: {fault}") from fault
    digest = bytes_digest(data)
    path = folder(out, subject) / f"{STEM}.{digest[:SHORT]}.json"
    write_atomic(path, data)
    return FileDigest(path.relative_to(out).as_posix(), digest)


def read(path: Path) -> OnDisk:
    """Read one collection.

    Raises:
        EvidenceError: missing, too large, or no collection.
    """
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= MAX_BYTES else b""
    except OSError as fault:
        raise EvidenceError(f"{path} cannot be read: {fault.strerror}", hint="name a file that a run kept") from fault
    if not data:
        raise EvidenceError(f"{path} has {size} bytes, a collection has 1 to {MAX_BYTES}")
    try:
        pairs = codec.loads(Pairs, data)
    except EvidenceError as fault:
        raise EvidenceError(f"{path} holds no timed pairs: {fault.message}") from fault
    if pairs.schema != SCHEMA:
        raise EvidenceError(f"{path} has schema {pairs.schema!r}, this version reads {SCHEMA!r}")
    return OnDisk(pairs, bytes_digest(data), json_digest(json.loads(data)["timing"]))


def bound(out: Path, subject: str, digest: str) -> Pairs | None:
    """Return the collection of a record or union whose bytes have a digest; None when none has."""
    for path in sorted(folder(out, subject).glob(f"{STEM}.*.json")):
        try:
            found = read(path)
        except EvidenceError:  # another file of the folder is none
            continue
        if found.sha256 == digest and found.pairs.subject == subject:
            return found.pairs
    return None


def replay(found: OnDisk) -> Replayed:
    """Judge a collection again, offline; the verdict must be the stored one, byte for byte as canonical JSON."""
    pairs = found.pairs
    verdict = net_win.judge(pairs.timing, output=pairs.output)
    faults = []
    if found.timing_sha256 != pairs.timing_sha256:
        have, stored = found.timing_sha256[:SHORT], pairs.timing_sha256[:SHORT]
        faults.append(f"its timing has sha256 {have}, stored with the verdict is {stored}")
    now, then = (canonical_json(codec.to_json(settled(one))) for one in (verdict, pairs.verdict))
    if now != then:
        at = next(
            (place for place, (a, b) in enumerate(zip(now, then, strict=False)) if a != b), min(len(now), len(then))
        )
        faults.append(f"the verdict differs from byte {at}: {_around(now, at)} now, {_around(then, at)} stored")
    return Replayed(pairs, verdict, tuple(faults))


def _around(text: bytes, at: int) -> str:
    return repr(text[max(0, at - 20) : at + 20].decode("utf-8", "replace"))
