"""What a run would do, told without doing it: gates, waivers and processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_frt.rules.net_win import FIRST, QUICK
from pytest_frt.waivers import find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_frt.run.config import RunConfig
    from pytest_frt.run.plan import RecordPlan, RunPlan
    from pytest_frt.waivers import Waiver


def lines(plan: RunPlan, settings: RunConfig, gates: Sequence[str], waivers: Sequence[Waiver]) -> Iterator[str]:
    """Yield the lines below the items of a run that only collects."""
    hosts = Counter(f"{one.host.name} {one.key.size}" for one in plan.records)
    told = ", ".join(f"{name} ({count} records)" for name, count in hosts.items()) or "no host"
    yield f"would judge {len(plan.records)} records and {len(plan.unions)} unions on {told}"
    yield f"gates in order: {', '.join(gates)}"
    yield from _waived(plan, gates, waivers)
    yield from _processes(plan, settings, gates)


def _waived(plan: RunPlan, gates: Sequence[str], waivers: Sequence[Waiver]) -> Iterator[str]:
    for subject in (*(one.id for one in plan.records), *(one.name for one in plan.unions)):
        for gate in gates:
            if waiver := find(waivers, subject, gate):
                yield f"gate {gate} of {subject} may fail until {waiver.expires}: {waiver.owner}, {waiver.url}"


def _processes(plan: RunPlan, settings: RunConfig, gates: Sequence[str]) -> Iterator[str]:
    """Tell the processes that are started at most; records of one impl file on one host share their timing."""
    yield f"one witness process for each of {len({one.host for one in plan.records})} hosts, one candidate per try"
    if "net_win" not in gates or not settings.timing:
        return
    fresh = (QUICK if settings.quick else FIRST).processes
    groups = len({_group(one) for one in plan.records if not one.emulated})
    unions = sum(len(one.records) > 1 for one in plan.unions) if "union" in gates and not settings.quick else 0
    yield (
        f"timing: {groups} groups of records and {unions} unions of several, {fresh} fresh processes each, "
        f"{fresh * (groups + unions)} at most"
    )


def _group(record: RecordPlan) -> tuple[object, ...]:
    return (record.host, record.key.form, record.unit.impl_file, record.unit.kernel_path)
