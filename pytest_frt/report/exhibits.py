"""The parts of a JSON report that no gate compares: thresholds, layers in no seat, seat numbers, files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_frt.report.collected import Collected
from pytest_frt.rules import bands, net_win, thresholds
from pytest_frt.run.plan import RecordPlan
from pytest_frt.run.results import GateResult
from pytest_frt.run.shown import Bound, Shown
from pytest_frt.spec import codec

if TYPE_CHECKING:
    from pytest_frt.report.ending import Ending

RULES = "rules"
"""Origin of what no scheme, structure or host may change."""
SPENDS = "exact group-sequential sign test: a true ratio at the margin passes at most once in 200 first attempts"
STARTS = "a win that few starts of the process show is no win of the implementation"


def gate(result: GateResult) -> dict[str, Any]:
    """Return a gate's result; what only a page shows stands elsewhere in the report, once."""
    found: dict[str, Any] = codec.to_json(replace(result, shown=None))
    found.pop("shown")
    return found


def of_record(gates: Mapping[str, GateResult]) -> dict[str, Any]:
    """Return the seat numbers and the clock's traces of one record."""
    parity, timed = _shown(gates.get("parity")), _shown(gates.get("net_win"))
    return {
        "seats": [codec.to_json(seat) for seat in parity.seats],
        "traces": [codec.to_json(trace) for trace in timed.traces],
        "witness_s": list(timed.witness_s),
    }


def _shown(result: GateResult | None) -> Shown:
    return (result.shown if result else None) or Shown()


def hosts(collected: Collected, plans: Mapping[str, RecordPlan]) -> list[dict[str, Any]]:
    """Return every host that was looked at, with the linears and norms that are in no seat of any structure."""
    found: dict[tuple[str, str], Shown] = {}
    for name, gates in collected.gates.items():
        first = gates.get("null_control")
        if first and first.shown:
            key = plans[name].key
            found.setdefault((key.cell.host, key.size), first.shown)
    return [
        {"host": host, "size": size, "not_replaced": [codec.to_json(one) for one in shown.not_replaced]}
        for (host, size), shown in found.items()
    ]


def certificates(ending: Ending) -> list[dict[str, Any]]:
    """Return every file that was written, with its digest."""
    return [
        {
            "subject": name,
            "file": str(path),
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "signed": bool(ending.keyid),
        }
        for name, path in ending.files.items()
    ]


def limits(collected: Collected) -> list[dict[str, Any]]:
    """Return every threshold of this run with origin and reason: the rules', then schemes' and structures'."""
    declared = [
        bound
        for gates in collected.gates.values()
        for result in gates.values()
        for bound in (result.shown.bounds if result.shown else ())
    ]
    return [codec.to_json(one) for one in dict.fromkeys([*_constants(), *_bands(), *_rule(), *declared])]


def _constants() -> Iterator[Bound]:
    for name, one in vars(thresholds).items():
        if isinstance(one, thresholds.Threshold):
            yield Bound(name.lower(), "", one.value, f"{RULES}/thresholds", one.because)


def _bands() -> Iterator[Bound]:
    for kind, some in bands.BANDS.items():
        for one in some:
            origin = f"{RULES}/bands, {kind}"
            yield Bound(f"host.{one.metric}.median", one.op, one.passing, origin, one.because)
            yield Bound(f"host.{one.metric}.worst", one.op, one.warning, origin, one.because)


def _rule() -> Iterator[Bound]:
    for rule in net_win.BY_ATTEMPT.values():
        origin = f"{RULES}/net_win, {rule.name}"
        for look, bound in zip(rule.looks, rule.bounds, strict=True):
            yield Bound(f"wins of {look * rule.processes} units", ">=", float(bound), origin, SPENDS)
        yield Bound("process_medians_over", ">=", float(rule.medians), origin, STARTS)
