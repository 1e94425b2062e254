"""Gates recomputed from their samples and held against the deployer's floors. No verdict of a certificate is believed.

Refusal codes: ``RESULT`` (not PASSED), ``GATE_DUP`` (a gate twice), ``GATE_MISSING`` (a mandatory or demanded gate is
absent), ``GATE_OP`` (wrong direction), ``GATE_SAMPLES`` (too few, or they do not give the stated number),
``GATE_FLOOR`` (judged against a looser floor than is demanded), ``GATE_FAIL`` (the number does not hold),
``GATE_WARN`` (a warn band where the policy takes none).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from operator import itemgetter

from pytest_frt.certs.mandatory import ALTERNATIVES, RULES, GateRule, groups_for
from pytest_frt.contracts.record import GateRow, PlanRecord, Record
from pytest_frt.contracts.verdict import Inconclusive, Invalid, Pass, Refusal, Verdict
from pytest_frt.errors import CertificateRefused, EvidenceError
from pytest_frt.rules.net_win import judge_ratios
from pytest_frt.rules.rows import FRT_NW_1, NET_WIN_ROW, exact, fold


@dataclass(frozen=True, slots=True)
class Floor:
    """A floor somebody demands: ``gate op value`` over at least ``min_n`` samples; ``by`` names the demander."""

    gate: str
    op: str
    value: Decimal
    min_n: int
    by: str


@dataclass(frozen=True, slots=True)
class Demand:
    """Everything the recomputed gates are held against.

    Attributes:
        result: What the certificate says of itself.
        floors: Of policy and rule; the strictest counts, since each must hold.
        allow_warn: Take gates of band ``warn``.
    """

    result: str
    floors: tuple[Floor, ...] = ()
    allow_warn: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """One gate that holds: the number recomputed from its samples and the floor it was judged against."""

    name: str
    value: Decimal
    op: str
    floor: Decimal
    n: int
    band: str


def judge(record: Record, demand: Demand) -> tuple[Judged, ...]:
    """Return the gates of a cell record, recomputed.

    Raises:
        CertificateRefused: the first gate that does not hold, with both numbers.
    """
    random_weights = record.host.weights == "random"
    needed = [floor.gate for floor in demand.floors if floor.gate not in ALTERNATIVES]
    _complete(record.gates, demand, plan=False, random_weights=random_weights)
    if absent := [name for name in needed if name not in {row.name for row in record.gates}]:
        raise CertificateRefused("GATE_MISSING", f"gate {absent[0]} is demanded by the policy and absent")
    return tuple(_judge_row(row, record.attempts, demand) for row in record.gates)


def judge_plan(plan: PlanRecord, demand: Demand) -> tuple[Judged, ...]:
    """Return the end-to-end gates of a plan, recomputed. Floors on gates that only cells have apply to its members.

    Raises:
        CertificateRefused: the first gate that does not hold, with both numbers.
    """
    _complete(plan.gates, demand, plan=True, random_weights=plan.host.weights == "random")
    return tuple(_judge_row(row, plan.attempts, demand) for row in plan.gates)


def _complete(rows: Sequence[GateRow], demand: Demand, *, plan: bool, random_weights: bool) -> None:
    if demand.result != "PASSED":
        raise CertificateRefused("RESULT", f"the certificate says {demand.result} of itself")
    names = [row.name for row in rows]
    stated = frozenset(names)
    if len(stated) != len(names):
        twice = min(name for name in stated if names.count(name) > 1)
        raise CertificateRefused("GATE_DUP", f"gate {twice} is stated more than once")
    for group in groups_for(plan=plan, random_weights=random_weights):
        if not any(stated.issuperset(alternative) for alternative in group):
            wanted = " or ".join(" with ".join(alternative) for alternative in group)
            raise CertificateRefused("GATE_MISSING", f"gate {wanted} is mandatory and absent")


def _judge_row(row: GateRow, attempts: int, demand: Demand) -> Judged:
    samples, value = _recompute(row, attempts)
    own = Decimal(row.floor)
    _hold(row, value, own, "its own floor")
    rule = RULES.get(row.name)
    _check_rule(row, rule, own)
    for floor in demand.floors:
        if floor.gate == row.name:
            _check_floor(row, value, own, floor)
    band = _band(row, rule, samples, own)
    if band != "pass" and not demand.allow_warn:
        raise CertificateRefused(
            "GATE_WARN", f"gate {row.name} is in band {band}", hint="allow_warn = true in the policy takes it"
        )
    return Judged(row.name, value, row.op, own, row.n, band)


def _band(row: GateRow, rule: GateRule | None, samples: Sequence[Decimal], own: Decimal) -> str:
    """Return ``warn`` when the row says so, or when its worst sample is only that good."""
    if rule is None or rule.worst is None:
        return row.band
    worst = min(samples) if row.op == ">=" else max(samples)
    _hold(row, worst, rule.worst, "what the worst sample must reach")
    return row.band if _holds(worst, row.op, own) else "warn"


def _check_rule(row: GateRow, rule: GateRule | None, own: Decimal) -> None:
    """Hold a row against the built-in table: direction, fold, and the limit nothing may undercut."""
    folds = rule.folds if rule else _honest_folds(row.op)
    if rule and rule.op != row.op:
        raise CertificateRefused("GATE_OP", f"gate {row.name} is stated as {row.op}, it is {rule.op}")
    if row.statistic not in folds and (row.n > 1 or FRT_NW_1 in (row.statistic, *folds)):
        raise CertificateRefused(
            "GATE_SAMPLES", f"gate {row.name} folds {row.n} samples by {row.statistic}, it takes {' or '.join(folds)}"
        )
    if rule and row.n < rule.min_n:
        raise CertificateRefused("GATE_SAMPLES", f"gate {row.name} has {row.n} samples, it takes {rule.min_n}")
    if rule and rule.limit is not None:
        _meet(row, own, rule.limit, "the limit of the gate")  # and the number holds its own floor


def _honest_folds(op: str) -> tuple[str, ...]:
    """Folds of a gate the table does not know: the best of several samples is never one of them."""
    return ("median", "min") if op == ">=" else ("median", "max")


def _check_floor(row: GateRow, value: Decimal, own: Decimal, floor: Floor) -> None:
    if floor.op != row.op:
        raise CertificateRefused("GATE_OP", f"gate {row.name} is stated as {row.op}, {floor.by} demands {floor.op}")
    if row.n < floor.min_n:
        raise CertificateRefused(
            "GATE_SAMPLES", f"gate {row.name} has {row.n} samples, {floor.by} demands {floor.min_n}"
        )
    # FRT-NW-1 runs at one fixed margin; a deployer's higher floor is held against the number alone.
    if row.name != NET_WIN_ROW:
        _meet(row, own, floor.value, floor.by)
    _hold(row, value, floor.value, floor.by)


def _holds(value: Decimal, op: str, floor: Decimal) -> bool:
    return value >= floor if op == ">=" else value <= floor


def _hold(row: GateRow, value: Decimal, floor: Decimal, by: str) -> None:
    if not _holds(value, row.op, floor):
        raise CertificateRefused("GATE_FAIL", f"gate {row.name}: {value:f} is not {row.op} {floor:f} ({by}, n={row.n})")


def _meet(row: GateRow, own: Decimal, floor: Decimal, by: str) -> None:
    if not _holds(own, row.op, floor):
        raise CertificateRefused(
            "GATE_FLOOR", f"gate {row.name} was judged against {row.op} {own:f}, looser than {row.op} {floor:f} ({by})"
        )


def _recompute(row: GateRow, attempts: int) -> tuple[list[Decimal], Decimal]:
    """Return the samples and what they fold to; the stated number must be the same."""
    if not row.samples or row.n != len(row.samples):
        raise CertificateRefused("GATE_SAMPLES", f"gate {row.name} states n={row.n} and has {len(row.samples)} samples")
    try:
        if row.statistic == FRT_NW_1:
            samples, value = _net_win(row, attempts)
        else:
            samples = exact(row.samples)
            value = fold(row.statistic, samples)
    except EvidenceError as error:
        raise CertificateRefused("GATE_SAMPLES", f"gate {row.name}: {error.message}") from error
    if value != Decimal(row.measured):
        raise CertificateRefused(
            "GATE_SAMPLES", f"gate {row.name} states {row.measured}, its samples give {value:f} ({row.statistic})"
        )
    return samples, value


def _net_win(row: GateRow, attempts: int) -> tuple[list[Decimal], Decimal]:
    """Judge the unit ratios by FRT-NW-1; return them and their pooled median. Samples are ``process:ratio``."""
    processes: list[list[str]] = []
    for index, units in groupby((sample.partition(":") for sample in row.samples), key=itemgetter(0)):
        if index != str(len(processes)):
            message = f"gate {row.name}: process {index!r} stands in place {len(processes)}, samples are process-major"
            raise CertificateRefused("GATE_SAMPLES", message)
        processes.append([ratio for _, _, ratio in units])
    samples = exact([ratio for units in processes for ratio in units])
    pooled = fold("median", samples)
    verdict = judge_ratios([list(map(float, units)) for units in processes], attempt=attempts)
    if not isinstance(verdict, Pass):
        raise CertificateRefused("GATE_FAIL", f"gate {row.name} at attempt {attempts}: {_said(verdict)}")
    return samples, pooled


def _said(verdict: Verdict) -> str:
    match verdict:
        case Refusal(reason=reason, detail=detail):
            return f"{reason}: {detail}"
        case Invalid(guard=guard, detail=detail):
            return f"{guard}: {detail}"
        case Inconclusive(detail=detail):
            return f"not decided: {detail}"
        case _:
            return str(verdict)
