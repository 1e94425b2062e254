"""What runs on absent devices would judge, told on a machine without them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pytest_frt.report.lines import INDENT
from pytest_frt.rules.fold import CORRECTNESS_GATES

if TYPE_CHECKING:
    from pytest_frt.cell import Cell
    from pytest_frt.run.config import RunConfig
    from pytest_frt.run.emulation import Elsewhere
    from pytest_frt.run.plan import RunPlan

SHOWN: Final = 8
"""Cells named per device; verbose output and the JSON report name all."""


def gates(plan: RunPlan, settings: RunConfig) -> list[str]:
    """Return the gates of such a run, in order: without timing nothing is judged after the contract."""
    return [gate for gate in plan.gates if settings.timing or gate in CORRECTNESS_GATES]


def json(plan: RunPlan, settings: RunConfig) -> list[dict[str, Any]]:
    """Return it as JSON values, device by device."""
    return [
        {
            "device": device,
            "gates": gates(plan, settings),
            "records": [_record(one) for one in plan.elsewhere if one.key.cell.device == device],
        }
        for device in plan.away
    ]


def _record(one: Elsewhere) -> dict[str, Any]:
    key, cell = one.key, one.key.cell
    return {
        "id": key.id,
        "structure": cell.structure,
        "impl": cell.impl,
        "host": cell.host,
        "scheme": cell.scheme,
        "form": key.form,
        "phase": key.phase,
        "size": key.size,
        "cache": key.cache,
        "kernel": one.kernel,
        "emulated": one.emulated,
    }


def lines(plan: RunPlan, settings: RunConfig, *, verbose: bool) -> Iterator[str]:
    """Yield it for a terminal: one line per device, then one per cell."""
    for device in plan.away:
        found = [one for one in plan.elsewhere if one.key.cell.device == device]
        if not found:
            yield f"a run on {device} would judge nothing of what was selected: the reasons stand above"
            continue
        cells: dict[Cell, list[Elsewhere]] = {}
        for one in found:
            cells.setdefault(one.key.cell, []).append(one)
        by = ", ".join(gates(plan, settings))
        yield f"a run on {device} would judge {len(found)} records of {len(cells)} cells by {by}:"
        shown = list(cells.values())[: None if verbose else SHOWN]
        yield from (f"{INDENT}{_cell(some)}" for some in shown)
        if more := len(cells) - len(shown):
            yield f"{INDENT}and {more} more cells (-v names them)"


def _cell(some: list[Elsewhere]) -> str:
    """Return one cell with its forms, regimes and kernel, and how much of it is emulated here."""
    first, cell = some[0], some[0].key.cell
    regimes = ", ".join(dict.fromkeys(f"{one.key.form} {one.key.phase} {one.key.cache}" for one in some))
    here = sum(one.emulated for one in some)
    told = "none emulated" if not here else "emulated" if here == len(some) else f"{here} of {len(some)} emulated"
    return (
        f"{cell.structure} {cell.impl} {cell.scheme} on {cell.host} ({first.key.size}): {regimes}; "
        f"kernel {first.kernel}; {told} here"
    )
