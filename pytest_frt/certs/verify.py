"""Verification as numbered steps; the first that fails refuses, with a stable code. No torch, no network.

 1  the policy is alive (``POLICY_EXPIRED``); it was loaded, owner-checked and free of weak or repeated keys
 2  each line is an envelope of the right form (``JSON_*``, ``ENVELOPE``, ``PAYLOAD_TYPE``, ``SIG_COUNT``, ``B64``)
 3  signatures over the exact payload bytes by keys alive now (``SIG_NONE``, ``SIG_REVOKED``); lines with the same
    payload are one certificate and their signers add up
 4  only now is the payload parsed
 5  statement type, predicate type, schema, ``crit``, names and digests
 6  the deny list (``DENIED``), which always wins
 7  time (``EXPIRED``, ``NOT_YET``, ``LIFETIME``) and the signers' key windows (``KEY_WINDOW``)
 8  a rule for this issuer and cell (``NO_RULE``) with enough distinct owners (``THRESHOLD``); what the policy demands
    to be stated (``SOFTWARE_MISSING``, ``DEVICE_MISSING``, ``HOST_MISSING``), exact weights (``WEIGHTS_BINDING``),
    trained weights (``SYNTHETIC``)
 9  every gate recomputed from its samples and held against the floors of policy and rules (``RESULT``, ``GATE_*``)
12  a plan: every member is an accepted certificate of the same host, device and software (``PLAN_MEMBER``)

Steps 10 and 11 compare a certificate with the live process and with the files it names; ``runtime`` and ``tree`` do.
Messages of steps 2 and 3 show numbers only, since no text of an unverified line is authentic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from pytest_frt.certs import store
from pytest_frt.certs.authority import authorise, deny, in_time, stated
from pytest_frt.certs.dsse import Envelope, parse_envelope, signers
from pytest_frt.certs.gates import Demand, Judged, judge, judge_plan
from pytest_frt.certs.policy_types import Policy, TrustedKey
from pytest_frt.certs.reading import time_text
from pytest_frt.certs.statement import CellCertificate, Certificate, PlanCertificate, parse_payload
from pytest_frt.contracts.host import HostFacts
from pytest_frt.errors import CertificateRefused


@dataclass(frozen=True, slots=True)
class Accepted:
    """A certificate that passed every step.

    Attributes:
        source: ``file:line`` of its first line.
        certificate: The parsed certificate.
        owners: Key owners whose signatures counted, sorted.
        gates: Recomputed gates.
        activates: The policy's composition lets a runtime act on it: a plan or a member of one, or any cell when the
            policy composes by cell.
    """

    source: str
    certificate: Certificate
    owners: tuple[str, ...]
    gates: tuple[Judged, ...]
    activates: bool

    @property
    def name(self) -> str:
        """The certificate's name, its payload sha256."""
        return self.certificate.payload_sha256


@dataclass(frozen=True, slots=True)
class Refused:
    """A certificate or line that failed.

    Attributes:
        source: ``file:line``.
        name: Payload sha256, or empty when the line is no envelope.
        code: Stable refusal code.
        message: What differs.
        title: Record key or plan name; empty as long as nothing is verified.
    """

    source: str
    name: str
    code: str
    message: str
    title: str = ""


Outcome: TypeAlias = Accepted | Refused


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a certificate set and where it stands."""

    source: str
    data: bytes


def verify_paths(paths: Iterable[str | Path], policy: Policy, now: datetime, *, audit: bool = False) -> list[Outcome]:
    """Verify every certificate in files and, recursively, directories.

    Args:
        paths: Files and directories.
        policy: Loaded policy.
        now: The present moment (UTC).
        audit: ``now`` is a moment somebody asks about, not a clock: the policy's ``min_time`` does not lift it.

    Raises:
        UsageFault: a path is missing or unreadable.
    """
    lines: list[Line] = []
    faults: list[Outcome] = []
    for found in store.read(paths):
        if isinstance(found, store.BadSet):
            faults.append(Refused(str(found.path), "", found.code, found.message))
        else:
            lines += [Line(f"{found.path}:{number}", line) for number, line in enumerate(found.lines, start=1)]
    return [*faults, *verify_lines(lines, policy, now, audit=audit)]


def verify_set(
    lines: Sequence[bytes | str], policy: Policy, now: datetime, *, audit: bool = False
) -> tuple[Outcome, ...]:
    """Verify the lines of one certificate set; see :func:`verify_paths`."""
    data = [line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line for line in lines]
    sources = [Line(f"line {number}", line) for number, line in enumerate(data, start=1)]
    return tuple(verify_lines(sources, policy, now, audit=audit))


def verify_lines(lines: Sequence[Line], policy: Policy, now: datetime, *, audit: bool = False) -> list[Outcome]:
    """Verify lines from anywhere together; plans find their members among all of them."""
    moment = now if audit else max(now, policy.min_time)
    outcomes: list[Outcome] = []
    if moment > policy.expires:  # (1)
        message = f"{policy.source} expired at {time_text(policy.expires)}, it is {time_text(moment)}"
        return [Refused(line.source, "", "POLICY_EXPIRED", message) for line in lines]
    envelopes: dict[str, list[tuple[str, Envelope]]] = {}
    for line in lines:
        try:
            envelope = parse_envelope(line.data)  # (2)
        except CertificateRefused as refusal:
            outcomes.append(Refused(line.source, "", refusal.refusal_code, refusal.message))
        else:
            envelopes.setdefault(envelope.name, []).append((line.source, envelope))
    for name, found in envelopes.items():
        outcomes.append(_verify_payload(name, found, policy, moment))
    return _compose(outcomes, policy)  # (12)


def activable(outcomes: Iterable[Outcome]) -> tuple[Accepted, ...]:
    """Return what a runtime may act on."""
    return tuple(outcome for outcome in outcomes if isinstance(outcome, Accepted) and outcome.activates)


def _verify_payload(name: str, found: Sequence[tuple[str, Envelope]], policy: Policy, now: datetime) -> Outcome:
    source, title = found[0][0], ""
    try:
        live = _live_signers([envelope for _, envelope in found], policy, now)  # (3)
        certificate = parse_payload(found[0][1].payload)  # (4), (5)
        title = certificate.title
        return _verify_certificate(source, certificate, live, policy, now)
    except CertificateRefused as refusal:
        return Refused(source, name, refusal.refusal_code, refusal.message, title)


def _live_signers(envelopes: Sequence[Envelope], policy: Policy, now: datetime) -> tuple[TrustedKey, ...]:
    by_public = {key.public: key for key in policy.keys}
    publics = {public for envelope in envelopes for public in signers(envelope, by_public)}
    if not publics:
        raise CertificateRefused("SIG_NONE", f"no key of {policy.source} signed these bytes")
    denied = {entry.value for entry in policy.deny if entry.kind == "key"}
    signed = sorted((by_public[public] for public in publics), key=lambda key: key.public)
    live = tuple(key for key in signed if key.alive(now) and key.public.text not in denied)
    if not live:
        dead = ", ".join(f"{key.owner} ({key.status}, until {time_text(key.valid_until)})" for key in signed)
        raise CertificateRefused("SIG_REVOKED", f"signed only by keys that do not count at {time_text(now)}: {dead}")
    return live


def _verify_certificate(
    source: str, certificate: Certificate, live: Sequence[TrustedKey], policy: Policy, now: datetime
) -> Accepted:
    deny(certificate, policy)  # (6)
    in_time(certificate, policy, now)  # (7)
    current = [key for key in live if key.covers(certificate.issued_at)]
    if not current:
        raise CertificateRefused(
            "KEY_WINDOW", f"issued {time_text(certificate.issued_at)}, outside the window of every key that signed"
        )
    owners = frozenset(key.owner for key in current)
    rules = authorise(certificate, owners, policy)  # (8)
    stated(certificate, policy)
    floors = (*policy.floors, *(floor for rule in rules for floor in rule.floors))
    demand = Demand(certificate.result, floors, policy.allow_warn)
    if isinstance(certificate, CellCertificate):  # (9)
        gates = judge(certificate.record, demand)
    else:
        gates = judge_plan(certificate.plan, demand)
    counted = owners & frozenset(owner for rule in rules for owner in rule.signers)
    return Accepted(source, certificate, tuple(sorted(counted)), gates, activates=policy.composition == "cell")


def _compose(outcomes: Sequence[Outcome], policy: Policy) -> list[Outcome]:
    """Accept plans whose members are all accepted, and mark what the policy's composition lets a runtime act on."""
    cells = {
        outcome.name: outcome.certificate
        for outcome in outcomes
        if isinstance(outcome, Accepted) and isinstance(outcome.certificate, CellCertificate)
    }
    judged = [_check_plan(outcome, cells) for outcome in outcomes]
    plans = [
        outcome.certificate.plan
        for outcome in judged
        if isinstance(outcome, Accepted) and isinstance(outcome.certificate, PlanCertificate)
    ]
    planned = {member for plan in plans for member in plan.members}
    return [_activate(outcome, planned, policy) for outcome in judged]


def _activate(outcome: Outcome, planned: set[str], policy: Policy) -> Outcome:
    if isinstance(outcome, Refused) or policy.composition == "cell":
        return outcome
    is_plan = isinstance(outcome.certificate, PlanCertificate)
    return replace(outcome, activates=is_plan or outcome.name in planned)


def _check_plan(outcome: Outcome, cells: Mapping[str, CellCertificate]) -> Outcome:
    if isinstance(outcome, Refused) or not isinstance(outcome.certificate, PlanCertificate):
        return outcome
    try:
        _check_members(outcome.certificate, cells)
    except CertificateRefused as refusal:
        title = outcome.certificate.title
        return Refused(outcome.source, outcome.name, refusal.refusal_code, refusal.message, title)
    return outcome


def _check_members(certificate: PlanCertificate, cells: Mapping[str, CellCertificate]) -> None:
    plan = certificate.plan
    places: set[str] = set()
    for key, member in zip(plan.keys, plan.members, strict=True):
        cell = cells.get(member)
        if cell is None:
            raise CertificateRefused(
                "PLAN_MEMBER", f"member {member[:12]} ({key}) is not among the accepted certificates"
            )
        record = cell.record
        same = (record.key.id == key, _same_host(record.host, plan.host), record.device == plan.device)
        if not all(same) or any(plan.software.get(name) != text for name, text in record.software.items()):
            raise CertificateRefused(
                "PLAN_MEMBER", f"member {member[:12]} ({key}) has another key, host, device or software"
            )
        taken = {place for seat in record.seats for place in seat.facts.seat.places}
        if both := sorted(taken & places):
            raise CertificateRefused("PLAN_MEMBER", f"two members of the plan sit at {both[0]}")
        places |= taken


def _same_host(cell: HostFacts, plan: HostFacts) -> bool:
    """Report whether a cell was certified on the plan's host; the plan may replace classes that the cell does not."""
    shared = cell.module_source.items() & plan.module_source.items()
    return len(shared) == len(cell.module_source) and replace(cell, module_source=plan.module_source) == plan
