"""Attach: a lookup. Verify, match, verify bytes while copying, bind, smoke, then swap all seats or none.

It holds no timer and no tolerance, opens no socket, and executes nothing a certificate names before that certificate
was accepted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

from torch import nn

from pytest_frt.certs import policy as trust_file
from pytest_frt.certs.policy import Policy
from pytest_frt.certs.statement import CellCertificate, PlanCertificate
from pytest_frt.certs.verify import Accepted, Outcome, Refused, verify_paths
from pytest_frt.registry import Registry
from pytest_frt.runtime.facts import LiveProcess
from pytest_frt.runtime.handle import FileDecision, Handle, SeatDecision
from pytest_frt.runtime.lookup import seek
from pytest_frt.runtime.match import Reject, Wish
from pytest_frt.runtime.memory import Kept, StateChoice, state_place
from pytest_frt.runtime.prepare import Scene, clash, fits, prepare
from pytest_frt.runtime.sources import Places
from pytest_frt.seat import swap
from pytest_frt.seat.bind import BoundSeat

PLAN: Final = "plan"
Refusal: TypeAlias = tuple[CellCertificate, Reject]
"""The member of a set that is refused, and why."""


@dataclass(frozen=True, slots=True)
class Set:
    """Certificates that may only be activated together: a plan's members, or one cell.

    Attributes:
        name: Payload sha256 of the plan or cell.
        plan: True for a plan.
        cells: The members.
    """

    name: str
    plan: bool
    cells: tuple[CellCertificate, ...]

    @property
    def places(self) -> frozenset[str]:
        """Every module path its seats replace."""
        return frozenset(place for cell in self.cells for seat in cell.record.seats for place in seat.facts.seat.places)


def attach(  # noqa: PLR0913 (a name and a default for each)
    model: nn.Module,
    *,
    certificates: str | Path | Sequence[str | Path],
    trust: str | Path | Policy,
    strict: bool = False,
    allow_warn: bool = False,
    now: datetime | None = None,
    form: str = "eager",
    phase: str = "",
    kernels: Mapping[str, str | Path] | None = None,
    host: str | Path | None = None,
    state: StateChoice = None,
) -> Handle:
    """Activate on ``model`` exactly what its certificates prove, and nothing else.

    What is refused leaves the host's own module in place, and ``handle.explain()`` says why.

    Args:
        model: The host, loaded and in evaluation mode.
        certificates: Files, directories, projects or kernel repos, ``owner/name@revision`` of a release in the kernel
            client's cache, or ``dist:NAME`` of an installed distribution; calibration artefacts lie beside them.
        trust: Trust policy (``frt trust init`` writes one), or one loaded before.
        strict: Calls outside the certified form raise ``GuardRefused`` instead of running the host.
        allow_warn: Also accept gates that reached only their warning band.
        now: The present moment; None reads the clock.
        form: Deployment form: certificates of other forms are refused.
        phase: Row regime; empty takes any.
        kernels: Kernel repo id to a local build, for kernels that are not part of this distribution and do not lie
            beside their certificates.
        host: Folder of a host entry that is not installed.
        state: File that remembers what was activated, so that older policies, indexes and certificates are refused.
            None keeps one per policy file below ``$XDG_STATE_HOME/pytest-frt`` (``~/.local/state``), and none for a
            policy that is no file. False neither reads nor writes one.

    Returns:
        The handle; inactive when nothing was accepted.

    Raises:
        CertificateRefused: the trust policy or the state file cannot be used, or was overtaken by another process.
        UsageFault: a path is missing or unreadable.
        StorageFault: the state file cannot be written; nothing was activated.
        SwapRefused: a seat is taken, in training mode or compiled in place; the model is as it was.
    """
    policy = trust if isinstance(trust, Policy) else trust_file.load(trust)
    policy = replace(policy, allow_warn=policy.allow_warn or allow_warn)
    sought = seek(certificates, os.environ)
    kept = Kept(state_place(state, trust), policy, now or datetime.now(UTC))
    outcomes = verify_paths(sought.paths, policy, kept.moment, state=kept.read())
    sets = sorted(_sets(outcomes, policy), key=lambda one: (_issued(one), one.name), reverse=True)
    registry = Registry.load() if host is None else Registry.load().with_host(host)
    builds = sought.builds(outcomes, {repo: Path(path) for repo, path in (kernels or {}).items()})
    root = getattr(model, "_orig_mod", model)  # torch.compile wraps the model; seats go into what it wraps
    scene = Scene(root, LiveProcess(root), Places(registry, builds, sought.paths), Wish(form, phase))
    chosen = _Chosen(single=policy.composition == PLAN)
    for one in sets:
        chosen.consider(one, scene)
    kept.commit(chosen.among(outcomes))
    attachment = swap.attach(root, chosen.bound, strict=strict) if chosen.bound else None
    return Handle(attachment, chosen.seats, _unread(outcomes), chosen.plan, sought.labels)


def _sets(outcomes: Iterable[Outcome], policy: Policy) -> Iterator[Set]:
    accepted = [one for one in outcomes if isinstance(one, Accepted)]
    cells = {one.name: one.certificate for one in accepted if isinstance(one.certificate, CellCertificate)}
    if policy.composition != PLAN:
        yield from (Set(name, plan=False, cells=(cell,)) for name, cell in cells.items())
        return
    for one in accepted:
        if isinstance(one.certificate, PlanCertificate) and one.activates:
            yield Set(one.name, plan=True, cells=tuple(cells[member] for member in one.certificate.plan.members))


def _issued(one: Set) -> datetime:
    return max(cell.issued_at for cell in one.cells)


def _unread(outcomes: Iterable[Outcome]) -> Iterator[FileDecision]:
    """Yield what never reached a seat: refused lines, and cells that no accepted plan names."""
    for one in outcomes:
        if isinstance(one, Refused):
            yield FileDecision(one.source, one.title, one.code, one.message)
        elif not one.activates:
            reason = "the policy activates plans, and no accepted plan names this cell"
            yield FileDecision(one.source, one.certificate.title, "NO_PLAN", reason)


class _Chosen:
    """What was accepted so far, and a decision for every seat that was looked at.

    Args:
        single: Only one set may be activated: two plans together are a third, and nobody certified it.
    """

    def __init__(self, *, single: bool) -> None:
        self.bound: tuple[BoundSeat, ...] = ()
        self.seats: list[SeatDecision] = []
        self.plan = ""
        self._single = single
        self._taken: dict[str, str] = {}
        self._names: set[str] = set()

    def consider(self, one: Set, scene: Scene) -> None:
        """Accept a set whole, or note for each of its seats why not."""
        refusal = self._obstacle(one) or _misfit(one, scene)
        bound: tuple[BoundSeat, ...] = ()
        if refusal is None:
            refusal, bound = _bind(one, scene)
        if refusal is None:
            self.bound += bound
            self._taken |= dict.fromkeys(one.places, one.name)
            self._names |= {one.name, *(cell.payload_sha256 for cell in one.cells)}
            self.plan = one.name if one.plan else ""
        self.seats += _decisions(one, refusal)

    def among(self, outcomes: Iterable[Outcome]) -> list[Accepted]:
        """Return the certificates that are to be active: those of each set that was accepted, plans included."""
        return [one for one in outcomes if isinstance(one, Accepted) and one.name in self._names]

    def _obstacle(self, one: Set) -> Refusal | None:
        both = sorted(one.places & self._taken.keys())
        if both:
            other = self._taken[both[0]]
            return one.cells[0], Reject("OVERLAP", f"{both[0]} runs on a certificate that was issued later: {other}")
        if self._single and self._taken:
            other = next(iter(self._taken.values()))
            return one.cells[0], Reject("OVERLAP", f"another plan was activated: {other}")
        return None


def _misfit(one: Set, scene: Scene) -> Refusal | None:
    """Return the first member that does not hold here: all are asked before any is bound."""
    misfit = next(((cell, reject) for cell in one.cells if (reject := fits(cell, scene)) is not None), None)
    return misfit or clash(one.cells, scene)


def _bind(one: Set, scene: Scene) -> tuple[Refusal | None, tuple[BoundSeat, ...]]:
    bound: tuple[BoundSeat, ...] = ()
    for cell in one.cells:
        found = prepare(cell, scene)
        if isinstance(found, Reject):
            return (cell, found), ()
        bound += found
    return None, bound


def _decisions(one: Set, refusal: Refusal | None) -> Iterator[SeatDecision]:
    for cell in one.cells:
        record = cell.record
        for seat in record.seats:
            code, reason, hint = _why(cell, seat.facts.id, one, refusal)
            yield SeatDecision(seat.facts.id, record.key.id, cell.payload_sha256, code, reason, hint)
        for at, reason in record.refused.items():
            yield SeatDecision(at, record.key.id, cell.payload_sha256, "NOT_CERTIFIED", reason)


def _why(cell: CellCertificate, seat: str, one: Set, refusal: Refusal | None) -> tuple[str, str, str]:
    if refusal is None:
        return "", "", ""
    culprit, reject = refusal
    if cell is culprit and reject.seat in ("", seat):
        return reject.code, reject.message, reject.hint
    at = f"seat {reject.seat}" if reject.seat else f"{culprit.record.key.id}"
    what = "its plan" if one.plan else "its certificate"
    return reject.code, f"{what} is refused whole, because of {at}", ""
