"""The page of one JSON report: everything the template shows, sorted and grouped, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pytest_frt.contracts.verdict import Outcome
from pytest_frt.report.parts import Group, Json, grouped
from pytest_frt.report.record_view import NOT_RUN, PlanView, RecordView, Rules, plan_view, record_view
from pytest_frt.report.table import SEVERITY
from pytest_frt.report.words import EXITS
from pytest_frt.rules.fold import RECORD_GATES

STOPPED: Final = "stopped by "
"""How an item says that the fault of another one stopped it."""
FEW: Final = 3
"""Records that are all shown unfolded."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause and every record that ended by it.

    Attributes:
        outcome: Outcome word.
        title: Gate and reason, or what stopped the records.
        detail: The fault in full; empty where each record has its own sentence.
        records: Who ended so.
    """

    outcome: str
    title: str
    detail: str
    records: tuple[RecordView, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting with its value and where it came from."""

    name: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """Structures by hosts: outcome words with their counts."""

    hosts: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[tuple[str, int], ...], ...]], ...]


@dataclass(frozen=True, slots=True)
class Layers:
    """Linears and norms of one host that are in no seat, grouped by kind and reason."""

    host: str
    size: str
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A report as the template shows it; the raw values stay at hand as ``raw``.

    Attributes:
        raw: The report.
        title: Hosts and device.
        lead: What was certified of what was asked for.
        notices: Why nothing, or which records, cannot be certified; none in the full form on present devices.
        exit: What the exit code says.
        counts: Outcome word to count, worst first.
        matrix: Structures by hosts.
        records: Worst first.
        causes: What kept records from a certificate, each once.
        plans: Plans.
        unsupported: Cells that cannot run here, by reason.
        layers: Per host.
        settings: Every setting with its origin.
    """

    raw: Json
    title: str
    lead: str
    notices: tuple[str, ...]
    exit: str
    counts: tuple[tuple[str, int], ...]
    matrix: Matrix
    records: tuple[RecordView, ...]
    causes: tuple[Cause, ...]
    plans: tuple[PlanView, ...]
    unsupported: tuple[Group, ...]
    layers: tuple[Layers, ...]
    settings: tuple[Setting, ...]

    @property
    def few(self) -> bool:
        """Whether every record is shown unfolded."""
        return len(self.records) <= FEW


def page_of(report: Json) -> Page:
    """Return the page of a report that holds to its schema."""
    rules = Rules({one["name"]: one["value"] for one in report["thresholds"]})
    found = (record_view(index, one, rules, RECORD_GATES) for index, one in enumerate(report["records"], start=1))
    records = tuple(sorted(found, key=lambda one: (_severity(one.outcome), one.id)))
    totals = report["totals"]
    cells = [one["cell"].split("-") for one in report["not_supported"]]
    hosts = sorted({one.host for one in records} | {cell[2] for cell in cells})
    return Page(
        raw=report,
        title=f"{', '.join(hosts) or 'nothing'} on {report['machine'][-1]['name']}",
        lead=f"{totals['certified']} certified of {totals['asked']} asked for and {totals['supported']} supported here",
        notices=tuple(_notices(report)),
        exit=EXITS[report["exit_code"]],
        counts=_counts([*(one.outcome for one in records), *(one["outcome"] for one in report["not_supported"])]),
        matrix=_matrix(records, cells, hosts),
        records=records,
        causes=tuple(_causes(records, report["faults"])),
        plans=tuple(plan_view(index, one, rules) for index, one in enumerate(report["unions"], start=1)),
        unsupported=grouped((one["reason"], one["cell"]) for one in report["not_supported"]),
        layers=tuple(
            Layers(
                one["host"],
                one["size"],
                grouped((f"{layer['kind']}: {layer['reason']}", layer["path"]) for layer in one["not_replaced"]),
            )
            for one in report["hosts"]
        ),
        settings=tuple(_settings(report)),
    )


def _severity(outcome: str) -> int:
    order = [word.value for word in SEVERITY]
    return order.index(outcome) if outcome in order else len(order)


def _notices(report: Json) -> Iterator[str]:
    if report["settings"]["quick"]:
        yield "Quick form: provisional, nothing is certified."
    elif not report["settings"]["timing"]:
        yield "Timing was switched off: nothing is certified."
    for said, count in Counter(one["emulated"]["label"] for one in report["records"] if one.get("emulated")).items():
        yield f"{count} records are {said}. Nothing of them is timed or certified."


def _counts(outcomes: list[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(outcomes).items(), key=lambda pair: _severity(pair[0])))


def _matrix(records: tuple[RecordView, ...], cells: list[list[str]], hosts: list[str]) -> Matrix:
    at: dict[tuple[str, str], list[str]] = {}
    for one in records:
        at.setdefault((one.structure, one.host), []).append(one.outcome)
    for cell in cells:
        at.setdefault((cell[0], cell[2]), []).append(Outcome.NOT_SUPPORTED.value)
    structures = sorted({structure for structure, _ in at})
    rows = tuple((name, tuple(_counts(at.get((name, host), [])) for host in hosts)) for name in structures)
    return Matrix(tuple(hosts), rows)


def _causes(records: tuple[RecordView, ...], faults: list[Json]) -> Iterator[Cause]:
    """Yield each cause once: records that a fault stopped stand below that fault, wherever it was met."""
    stops = {f"{STOPPED}{one['code']}: {one['message'].splitlines()[0]}": one["message"] for one in faults}
    by_subject = {one["subject"]: one for one in faults}
    groups: dict[tuple[str, str, str], list[RecordView]] = {}
    for one in records:
        if one.failed:
            groups.setdefault(_cause(one, by_subject, stops), []).append(one)
    for (outcome, title, detail), found in groups.items():
        sentences = {one.detail for one in found}
        shared = sentences.pop() if len(found) > 1 and len(sentences) == 1 else ""
        yield Cause(outcome, title, detail or shared, tuple(found))
    known = {one.id for one in records}
    for fault in faults:
        if fault["subject"] not in known:
            yield Cause(NOT_RUN, f"{fault['subject']}: {fault['code'].lower()}", fault["message"], ())


def _cause(record: RecordView, by_subject: dict[str, Json], stops: dict[str, str]) -> tuple[str, str, str]:
    fault = by_subject.get(record.id)
    if record.outcome == NOT_RUN and fault:
        return NOT_RUN, fault["code"].lower(), fault["message"]
    because = next((gate.because for gate in record.left if gate.because in stops), "")
    if because:
        return NOT_RUN, because.removeprefix(STOPPED).partition(":")[0].lower(), stops[because]
    return record.outcome, f"{record.gate.replace('_', ' ')}: {record.reason.replace('_', ' ')}", ""


def _settings(report: Json) -> Iterator[Setting]:
    """Yield every option that has an origin, and every other value that came of them."""
    values, origins = report["settings"], report["origins"]
    selection = values["selection"]
    options: dict[str, Any] = {name: values.get(name) for name in origins}
    options |= {"form": values["forms"], "no_timing": not values["timing"]}
    options |= selection["include"]
    options |= {f"exclude_{name}": globs for name, globs in selection["exclude"].items()}
    for name, origin in origins.items():
        yield Setting(name, _text(options.get(name)), origin)


def _text(value: object) -> str:
    if value in (None, [], ""):
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
