"""Step 12, plans: every member is an accepted certificate of the plan's own host, device and software."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_frt.certs.outcomes import Accepted, Outcome, Refused
from pytest_frt.certs.policy_types import Policy
from pytest_frt.certs.statement import CellCertificate, PlanCertificate
from pytest_frt.contracts.host import HostFacts
from pytest_frt.errors import CertificateRefused


def compose(outcomes: Sequence[Outcome], policy: Policy) -> list[Outcome]:
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
    places = Places()
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
        if both := places.meeting(taken):
            where = f"at {both[0]}" if both[0] == both[1] else f"one inside the other: at {both[0]} and at {both[1]}"
            raise CertificateRefused("PLAN_MEMBER", f"two members of the plan sit {where}")
        places.add(taken)


class Places:
    """Dotted module paths that are taken; the empty one is the whole model."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._within: dict[str, str] = {}

    def add(self, places: Iterable[str]) -> None:
        """Take places."""
        for place in places:
            self._taken.add(place)
            for outer in _around(place):
                self._within[outer] = min(place, self._within.get(outer, place))

    def meeting(self, places: Iterable[str]) -> tuple[str, str] | None:
        """Return a taken place and the first of ``places`` that is the same, or one inside the other; None without."""
        for place in sorted(places):
            taken = next((outer for outer in _around(place) if outer in self._taken), self._within.get(place))
            if taken is not None:
                return taken, place
        return None


def _around(place: str) -> Iterator[str]:
    """Yield a place, every module it lies in, and the model."""
    yield place
    while place:
        place = place.rpartition(".")[0]
        yield place


def _same_host(cell: HostFacts, plan: HostFacts) -> bool:
    """Report whether a cell was certified on the plan's host; the plan may replace classes that the cell does not."""
    shared = cell.module_source.items() & plan.module_source.items()
    return len(shared) == len(cell.module_source) and replace(cell, module_source=plan.module_source) == plan
