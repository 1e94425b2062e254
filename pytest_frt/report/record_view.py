"""One record, and one plan of records, as the page shows them."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from pytest_frt.report.charts import Curve, Strip, curve, strip
from pytest_frt.report.parts import Gate, Group, Json, Number, SeatStrip, grouped, host_strip, seat_strips

NOT_RUN: Final = "NOT_RUN"
WIN: Final = ("pooled_median", "interval_low", "interval_high")
ELSEWHERE: Final = ("seam.", "process_median")
"""Numbers of a gate that a chart shows already."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Thresholds by name, as the report states them."""

    values: dict[str, float]

    def __getitem__(self, name: str) -> float:
        """Return one threshold."""
        return self.values[name]


@dataclass(frozen=True, slots=True)
class RecordView:
    """One record.

    Attributes:
        anchor: Its id on the page.
        id: Record key id.
        name: Short name: structure, impl and scheme.
        place: Host, device, form, phase, size and cache.
        structure: Catalog name.
        host: Host name.
        outcome: Outcome word.
        gate: Gate that decided; empty when every gate passed.
        reason: Stable word; empty when every gate passed.
        detail: Sentence for people.
        band: ``warn`` when a gate only reached warn.
        correct: Every correctness gate holds.
        emulated: How it is marked where a CPU was judged in the place of its device; else empty.
        gates: In the order they were judged.
        parity: Number nearest to its limit; None when parity was not judged.
        win: Pooled ratio with its interval, as text; empty when nothing was timed.
        hosted: The host's own outputs on held-out samples; None when they were not compared.
        seats: Strips, worst first.
        refused: Refused seats by reason.
        survivors: Count of seats that stand.
        strip: Unit ratios.
        curves: Controls over time.
        clocks: Text of what the processes took.
        rerun: Command that judges it again.
        file: Certificate or statement; empty when nothing is stated.
    """

    anchor: str
    id: str
    name: str
    place: str
    structure: str
    host: str
    outcome: str
    gate: str
    reason: str
    detail: str
    band: str
    correct: bool
    emulated: str
    gates: tuple[Gate, ...]
    parity: Number | None
    win: str
    hosted: SeatStrip | None
    seats: tuple[SeatStrip, ...]
    refused: tuple[Group, ...]
    survivors: int
    strip: Strip | None
    curves: tuple[Curve, ...]
    clocks: str
    rerun: str
    file: str

    @property
    def left(self) -> tuple[Gate, ...]:
        """Gates that were not run, all for one cause."""
        return tuple(gate for gate in self.gates if gate.word == NOT_RUN)

    @property
    def judged(self) -> tuple[Gate, ...]:
        """Gates that were run."""
        return tuple(gate for gate in self.gates if gate.word != NOT_RUN)

    @property
    def host_numbers(self) -> tuple[Number, ...]:
        """Numbers that no chart of seats or processes shows."""
        return tuple(n for gate in self.judged for n in gate.numbers if not n.metric.startswith(ELSEWHERE))

    @property
    def failed(self) -> bool:
        """Whether it ended in anything but a certificate."""
        return self.outcome != "CERTIFIED"


def record_view(index: int, record: Json, rules: Rules, order: tuple[str, ...]) -> RecordView:
    """Return one record of a report as the page shows it.

    Args:
        index: Its place in the report.
        record: Its JSON values.
        rules: Thresholds.
        order: Gate names, in order.
    """
    key, cell = record["key"], record["key"]["cell"]
    gates = tuple(Gate.of(name, record["gates"][name]) for name in order if name in record["gates"])
    by_name = {gate.name: gate for gate in gates}
    parity, timed = by_name.get("parity"), by_name.get("net_win")
    compared = [number for number in (parity.numbers if parity else ()) if number.share is not None]
    refused = [(gate.name, one) for gate in gates for one in gate.refused]
    drawn = strip_of(record["gates"].get("net_win", {}).get("ratios", ()), timed, rules)
    return RecordView(
        anchor=f"record-{index}",
        id=record["id"],
        name=f"{cell['structure']} / {cell['impl']} / {cell['scheme']}",
        place=f"{cell['host']} on {cell['device']}, {key['form']} {key['phase']}, {key['size']} size, {key['cache']}",
        structure=cell["structure"],
        host=cell["host"],
        **{name: record[name] for name in ("outcome", "gate", "reason", "detail", "band", "correct", "rerun")},
        emulated=(record.get("emulated") or {}).get("label", ""),
        gates=gates,
        parity=max(compared, key=lambda number: number.share or 0.0, default=None),
        win=f"{drawn.pooled:.3f}x [{drawn.low:.3f}, {drawn.high:.3f}]" if drawn else "",
        hosted=host_strip(parity.numbers if parity else ()),
        seats=seat_strips(record, parity.refused if parity else ()),
        refused=grouped((f"{name}: {one.reason}", f"{one.at}: {one.detail}") for name, one in refused),
        survivors=_survivors(record, gates),
        strip=drawn,
        curves=_curves(record["traces"], rules),
        clocks=_clocks(record),
        file=record["file"] or "",
    )


def _survivors(record: Json, gates: tuple[Gate, ...]) -> int:
    """Return how many seats the last gate that was run left in."""
    run = [gate.name for gate in gates if gate.word != NOT_RUN]
    return len(record["gates"][run[-1]]["survivors"]) if run else 0


def strip_of(ratios: Any, timed: Gate | None, rules: Rules) -> Strip | None:  # noqa: ANN401 (JSON)
    """Return the ratio plot of what was timed; its pooled median and interval are those that the verdict stated."""
    found = [timed.number(name) for name in WIN] if timed else []
    stated = [float(number.value) for number in found if number]
    said = (stated[0], stated[1], stated[2]) if len(stated) == len(WIN) else None
    return strip(ratios, rules["net_win_margin"], rules["interval_confidence"], said=said)


def _curves(traces: list[Json], rules: Rules) -> tuple[Curve, ...]:
    guard = rules["guard_low"], rules["guard_high"]
    seconds = [value for trace in traces for value in trace["canary_s"] if value is not None]
    middle = median(seconds) if seconds else 1.0
    relative = [[None if value is None else value / middle for value in trace["canary_s"]] for trace in traces]
    found = (
        curve("Canary ratio: a fixed kernel timed in both arms", [t["canary"] for t in traces], guard=guard),
        curve("Null arm: the base against a second base", [t["null"] for t in traces], guard=guard),
        curve("Clock: seconds of the canary over their median", relative),
    )
    return tuple(one for one in found if one)


def _clocks(record: Json) -> str:
    traces = record["traces"]
    base = [t["base_s"] for t in traces if t["base_s"] is not None]
    candidate = [t["candidate_s"] for t in traces if t["candidate_s"] is not None]
    if not base or not candidate:
        return ""
    said = f"Median of the base {_ms(base)}, of the candidate {_ms(candidate)}"
    if alone := record["witness_s"]:
        said += f", of the base in {len(alone)} processes that never loaded the implementation {_ms(alone)}"
    steal = [t["steal"] for t in traces if t["steal"] is not None]
    pressure = [t["pressure"] for t in traces if t["pressure"] is not None]
    load = f"; stolen time {median(steal):.1%}, waiting for a CPU {median(pressure):.0%}" if steal and pressure else ""
    return f"{said}{load}."


def _ms(seconds: list[float]) -> str:
    return f"{1000 * median(seconds):.3f} ms"


@dataclass(frozen=True, slots=True)
class PlanView:
    """One plan: records that were attached together.

    Attributes:
        anchor: Its id on the page.
        id: Union name.
        outcome: Outcome word.
        reason: Stable word; empty when it stands.
        detail: Sentence for people.
        members: Record key id, count of seats and speed alone, as text.
        dropped: Record key id and why it was left out.
        numbers: What the union gate compared.
        comparison: What it shows against the compiled host.
        strip: Unit ratios of what was timed together.
        rerun: Command that judges it again.
        file: Certificate or statement; empty when nothing is stated.
    """

    anchor: str
    id: str
    outcome: str
    reason: str
    detail: str
    members: tuple[tuple[str, int, str], ...]
    dropped: tuple[tuple[str, str], ...]
    numbers: tuple[Number, ...]
    comparison: tuple[Number, ...]
    strip: Strip | None
    rerun: str
    file: str


def plan_view(index: int, union: Json, rules: Rules) -> PlanView:
    """Return one plan of a report as the page shows it; arguments as in :func:`record_view`."""
    result = union["result"]
    gate = Gate.of("union", result)
    compared = Gate.of("comparison", {"verdict": {"type": "Pass", "gate": "union", "measured": result["comparison"]}})
    return PlanView(
        anchor=f"plan-{index}",
        **{name: union[name] for name in ("id", "outcome", "reason", "detail", "rerun")},
        members=tuple((m["record"], len(m["seats"]), f"{m['speed']:.3f}x") for m in result["members"]),
        dropped=tuple(result["dropped"].items()),
        numbers=tuple(number for number in gate.numbers if not number.metric.startswith(ELSEWHERE)),
        comparison=compared.numbers,
        strip=strip_of(result["ratios"], gate, rules),
        file=union["file"] or "",
    )
