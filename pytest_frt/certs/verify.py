"""Verification as numbered steps; the first that fails refuses, with a stable code. No torch, no network.

 1  the policy is alive (``POLICY_EXPIRED``) and not older than one that was used (``POLICY_ROLLBACK``); it was loaded,
    owner-checked and free of weak or repeated keys. The clock is not behind what was seen (``CLOCK_ROLLBACK``); the
    moment of verification is the latest of the clock, the policy's ``min_time`` and what was seen
 2  each line is an envelope of the right form (``JSON_*``, ``ENVELOPE``, ``PAYLOAD_TYPE``, ``SIG_COUNT``, ``B64``)
 3  signatures over the exact payload bytes by keys alive now, or by workflows that the policy lists (``SIG_NONE``,
    ``SIG_REVOKED``, ``TRUSTED_ROOT``, ``KEYLESS_EXTRA``); lines with the same payload are one certificate and their
    signers add up
 4  only now is the payload parsed
 5  statement type, predicate type, schema, ``crit``, names and digests
 6  the deny list (``DENIED``), which always wins
 7  time (``EXPIRED``, ``NOT_YET``, ``LIFETIME``) and the signers' key windows (``KEY_WINDOW``)
 8  a rule for this issuer and cell (``NO_RULE``) with enough distinct owners (``THRESHOLD``); what the policy demands
    to be stated (``SOFTWARE_MISSING``, ``DEVICE_MISSING``, ``HOST_MISSING``), exact weights (``WEIGHTS_BINDING``),
    trained weights (``SYNTHETIC``)
 9  every gate recomputed from its samples and held against the floors of policy and rules (``RESULT``, ``GATE_*``)
12  what is current: the issuer's index (``REVOKED``, and where it is required ``NOT_IN_INDEX``, ``INDEX_EXPIRED``,
    ``INDEX_ROLLBACK``), the rules' lowest serial (``SERIAL_MIN``), and what was seen before (``ROLLBACK``,
    ``EQUIVOCATION``); then a plan: every member is an accepted certificate of the same host, device and software
    (``PLAN_MEMBER``)

Steps 10, 11, 13 and 14 compare a certificate with the live process and with the files it names, copy and load those;
``runtime`` and ``tree`` do. Step 15 writes what was accepted to the state file, after everything else; ``state_file``
does. Messages of steps 2 and 3 show numbers only, since no text of an unverified line is authentic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from pytest_frt.certs import keyless, store
from pytest_frt.certs.authority import (
    authorise,
    authorise_index,
    deny,
    deny_payload,
    in_time,
    index_in_time,
    serial_floor,
    stated,
)
from pytest_frt.certs.composition import compose
from pytest_frt.certs.dsse import Envelope, parse_envelope, signers
from pytest_frt.certs.gates import Demand, Judged, judge, judge_plan
from pytest_frt.certs.index import Index, parse_statement
from pytest_frt.certs.outcomes import Accepted, Line, Outcome, Refused, Verdict
from pytest_frt.certs.policy_types import Policy, Rule, Signer
from pytest_frt.certs.reading import time_text
from pytest_frt.certs.standing import Held, Indexes
from pytest_frt.certs.state import Memory, equivocation, place_of
from pytest_frt.certs.statement import CellCertificate, Certificate
from pytest_frt.errors import CertificateRefused

__all__ = ["Accepted", "Line", "Outcome", "Refused", "Verdict", "activable", "verdict_on"]
__all__ += ["verify_lines", "verify_paths", "verify_set"]


@dataclass(frozen=True, slots=True)
class _Passed:
    """A certificate that passed steps 1 to 9, with the signers and rules that let it in."""

    source: str
    certificate: Certificate
    keys: tuple[Signer, ...]
    rules: tuple[Rule, ...]
    gates: tuple[Judged, ...]


_Judged: TypeAlias = _Passed | Held | Refused


def verify_paths(
    paths: Iterable[str | Path], policy: Policy, now: datetime, *, audit: bool = False, state: Memory | None = None
) -> list[Outcome]:
    """Verify every certificate in files and, recursively, directories; indexes among them are read along.

    Args:
        paths: Files and directories.
        policy: Loaded policy.
        now: The present moment (UTC).
        audit: ``now`` is a moment somebody asks about, not a clock: neither the policy's ``min_time`` nor what was
            seen before lifts it.
        state: What was accepted before (``state_file.read``); None keeps no memory. It is compared, never changed.

    Raises:
        UsageFault: a path is missing or unreadable.
    """
    return list(verdict_on(paths, policy, now, audit=audit, state=state).outcomes)


def verdict_on(
    paths: Iterable[str | Path], policy: Policy, now: datetime, *, audit: bool = False, state: Memory | None = None
) -> Verdict:
    """Verify like :func:`verify_paths`, and tell also what is to be remembered when nothing was accepted."""
    lines: list[Line] = []
    faults: list[Outcome] = []
    for found in store.read(paths):
        if isinstance(found, store.BadSet):
            faults.append(Refused(str(found.path), "", found.code, found.message))
        else:
            lines += [Line(f"{found.path}:{number}", line) for number, line in enumerate(found.lines, start=1)]
    verdict = _verdict(lines, policy, now, audit=audit, state=state)
    return replace(verdict, outcomes=(*faults, *verdict.outcomes))


def verify_set(
    lines: Sequence[bytes | str], policy: Policy, now: datetime, *, audit: bool = False, state: Memory | None = None
) -> tuple[Outcome, ...]:
    """Verify the lines of one certificate set; see :func:`verify_paths`."""
    data = [line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line for line in lines]
    sources = [Line(f"line {number}", line) for number, line in enumerate(data, start=1)]
    return tuple(verify_lines(sources, policy, now, audit=audit, state=state))


def verify_lines(
    lines: Sequence[Line], policy: Policy, now: datetime, *, audit: bool = False, state: Memory | None = None
) -> list[Outcome]:
    """Verify lines from anywhere together; plans and indexes find their certificates among all of them.

    An index that stands gives no outcome of its own; one that does not is ``Refused``.
    """
    return list(_verdict(lines, policy, now, audit=audit, state=state).outcomes)


def _verdict(lines: Sequence[Line], policy: Policy, now: datetime, *, audit: bool, state: Memory | None) -> Verdict:
    try:
        moment = _moment(policy, now, state, audit=audit)  # (1)
    except CertificateRefused as refusal:
        refused = (Refused(line.source, "", refusal.refusal_code, refusal.message) for line in lines)
        return Verdict(tuple(refused), in_force=False)
    outcomes: list[Outcome] = []
    envelopes: dict[str, list[tuple[str, Envelope]]] = {}
    for line in lines:
        try:
            envelope = parse_envelope(line.data)  # (2)
        except CertificateRefused as refusal:
            outcomes.append(Refused(line.source, "", refusal.refusal_code, refusal.message))
        else:
            envelopes.setdefault(envelope.name, []).append((line.source, envelope))
    judged = [_verify_payload(name, found, policy, moment) for name, found in envelopes.items()]
    current, standing = _current(judged, policy, moment, state)  # (12)
    return Verdict(tuple(compose([*outcomes, *current], policy)), standing)


def activable(outcomes: Iterable[Outcome]) -> tuple[Accepted, ...]:
    """Return what a runtime may act on."""
    return tuple(outcome for outcome in outcomes if isinstance(outcome, Accepted) and outcome.activates)


def _moment(policy: Policy, now: datetime, memory: Memory | None, *, audit: bool) -> datetime:
    moment = now if audit else max(now, policy.min_time)
    if memory is not None:
        memory.check_policy(policy)
        if not audit:
            memory.check_clock(now, policy)
            moment = max(moment, memory.last_seen)
    if moment > policy.expires:
        message = f"{policy.source} expired at {time_text(policy.expires)}, it is {time_text(moment)}"
        raise CertificateRefused("POLICY_EXPIRED", message)
    return moment


def _verify_payload(name: str, found: Sequence[tuple[str, Envelope]], policy: Policy, now: datetime) -> _Judged:
    source, title = found[0][0], ""
    try:
        live = _live_signers([envelope for _, envelope in found], policy, now)  # (3)
        statement = parse_statement(found[0][1].payload, name)  # (4), (5)
        title = statement.title
        if isinstance(statement, Index):
            return _verify_index(source, statement, live, policy, now)
        return _verify_certificate(source, statement, live, policy, now)
    except CertificateRefused as refusal:
        return Refused(source, name, refusal.refusal_code, refusal.message, title)


def _live_signers(envelopes: Sequence[Envelope], policy: Policy, now: datetime) -> tuple[Signer, ...]:
    by_public = {key.public: key for key in policy.keys}
    publics = {public for envelope in envelopes for public in signers(envelope, by_public)}
    workflows = keyless.signers(envelopes, policy.keyless, policy.source)
    if not publics and not workflows.signers:
        raise workflows.refusal or CertificateRefused("SIG_NONE", f"no key of {policy.source} signed these bytes")
    denied = {entry.value for entry in policy.deny if entry.kind == "key"}
    signed = sorted((by_public[public] for public in publics), key=lambda key: key.public)
    alive = (key for key in signed if key.alive(now) and key.public.text not in denied)
    live: tuple[Signer, ...] = (*alive, *workflows.signers)
    if not live:
        dead = ", ".join(f"{key.owner} ({key.status}, until {time_text(key.valid_until)})" for key in signed)
        raise CertificateRefused("SIG_REVOKED", f"signed only by keys that do not count at {time_text(now)}: {dead}")
    return live


def _in_window(live: Sequence[Signer], issued: datetime) -> tuple[Signer, ...]:
    current = tuple(key for key in live if key.covers(issued))
    if not current:
        raise CertificateRefused(
            "KEY_WINDOW", f"issued {time_text(issued)}, outside the window of every key that signed"
        )
    return current


def _verify_index(source: str, index: Index, live: Sequence[Signer], policy: Policy, now: datetime) -> Held:
    deny_payload(index.payload_sha256, policy)  # (6)
    index_in_time(index, policy, now)  # (7)
    owners = frozenset(key.owner for key in _in_window(live, index.issued_at))
    authorise_index(index, owners, policy)  # (8)
    return Held(source, index, owners)


def _verify_certificate(
    source: str, certificate: Certificate, live: Sequence[Signer], policy: Policy, now: datetime
) -> _Passed:
    deny(certificate, policy)  # (6)
    in_time(certificate, policy, now)  # (7)
    keys = _in_window(live, certificate.issued_at)
    rules = authorise(certificate, frozenset(key.owner for key in keys), policy)  # (8)
    stated(certificate, policy)
    floors = (*policy.floors, *(floor for rule in rules for floor in rule.floors))
    demand = Demand(certificate.result, floors, policy.allow_warn)
    if isinstance(certificate, CellCertificate):  # (9)
        gates = judge(certificate.record, demand)
    else:
        gates = judge_plan(certificate.plan, demand)
    return _Passed(source, certificate, keys, rules, gates)


def _current(
    judged: Sequence[_Judged], policy: Policy, now: datetime, memory: Memory | None
) -> tuple[list[Outcome], tuple[Index, ...]]:
    indexes = Indexes([one for one in judged if isinstance(one, Held)], policy, memory, now)
    twins = {} if memory is None else _twins(judged)
    outcomes: list[Outcome] = []
    standing: list[Index] = []
    for one in judged:
        if isinstance(one, Refused):
            outcomes.append(one)
            continue
        statement = one.index if isinstance(one, Held) else one.certificate
        try:
            if isinstance(one, Held):
                indexes.check_standing(one)
                standing.append(one.index)
            else:
                outcomes.append(_accept(one, policy, indexes, memory, twins))
        except CertificateRefused as refusal:
            name = statement.payload_sha256
            outcomes.append(Refused(one.source, name, refusal.refusal_code, refusal.message, statement.title))
    return outcomes, tuple(standing)


def _accept(
    one: _Passed, policy: Policy, indexes: Indexes, memory: Memory | None, twins: Mapping[str, str]
) -> Accepted:
    certificate = one.certificate
    index = indexes.check(certificate, one.keys, one.rules)
    serial_floor(certificate, one.rules)
    if memory is not None:
        memory.check_certificate(certificate, policy.pinned)
    if twin := twins.get(certificate.payload_sha256):
        raise equivocation(f"serial {certificate.serial} of {certificate.title}", certificate.payload_sha256, twin)
    ruled = frozenset(owner for rule in one.rules for owner in rule.signers)
    counted = sorted({key.owner for key in one.keys} & ruled)
    return Accepted(
        one.source, certificate, tuple(counted), one.gates, activates=policy.composition == "cell", index=index
    )


def _twins(judged: Sequence[_Judged]) -> dict[str, str]:
    """Return payload digest to that of another certificate of the same place and serial."""
    places: dict[tuple[str, int], set[str]] = {}
    for one in judged:
        if isinstance(one, _Passed):
            at = (place_of(one.certificate), one.certificate.serial)
            places.setdefault(at, set()).add(one.certificate.payload_sha256)
    pairs = [sorted(names) for names in places.values() if len(names) > 1]
    return {name: names[0] if name != names[0] else names[1] for names in pairs for name in names}
