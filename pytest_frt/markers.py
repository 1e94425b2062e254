"""Markers for people who write entries: what a test is about, and what it needs of the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest

from pytest_frt.errors import FrtError
from pytest_frt.options import nearest

if TYPE_CHECKING:
    from pytest_frt.fixtures.cells import LiveCell
    from pytest_frt.fixtures.specs import CellSpec

FRT: Final = "frt"
GATE: Final = "frt_gate"
REQUIRES: Final = "frt_requires"
PLAIN: Final = ("held_out", "lifecycle", "adversary")
NEEDS: Final = ("sm", "dtype", "mem", "isa")
SESSION: Final = "frt-session"


def fault(mark: pytest.Mark) -> str:
    """Return what is wrong with a marker's arguments, with the nearest word; empty when nothing is."""
    if mark.name == GATE:
        from pytest_frt.rules.fold import PLAN_GATES, RECORD_GATES

        gates = (*RECORD_GATES, *PLAN_GATES)
        if len(mark.args) != 1 or mark.kwargs:
            return f"{GATE} takes one gate: {', '.join(gates)}"
        return (
            ""
            if mark.args[0] in gates
            else f"{GATE}: no gate is called {mark.args[0]!r}: {nearest(str(mark.args[0]), gates)}"
        )
    if mark.name in PLAIN:
        return f"{mark.name} takes no argument" if mark.args or mark.kwargs else ""
    if mark.name not in {FRT, REQUIRES}:
        return ""
    known = _words(mark.name)
    if mark.args:
        return f"{mark.name} takes keywords only: {', '.join(known)}"
    return next(
        (f"{mark.name} has no argument {word!r}: {nearest(word, known)}" for word in mark.kwargs if word not in known),
        "",
    )


def _words(name: str) -> tuple[str, ...]:
    if name == REQUIRES:
        return NEEDS
    from pytest_frt.fixtures.specs import WORDS

    return WORDS


def live(words: Mapping[str, Any] | CellSpec, folder: Path) -> LiveCell:
    """Return the cell in this process.

    Args:
        words: What an ``frt`` marker says, or a cell that was resolved from it.
        folder: Where relative paths start.
    """
    from pytest_frt.fixtures.cells import LiveCell
    from pytest_frt.fixtures.specs import CellSpec

    return LiveCell(words if isinstance(words, CellSpec) else CellSpec.of(words, folder))


def apart(config: pytest.Config) -> None:
    """Skip a test that would load impl code into a process that judges and may sign."""
    if config.pluginmanager.has_plugin(SESSION):
        pytest.skip("NOT_RUN: a process that judges loads no impl code: run these tests without --frt-* selection")


def parametrise(metafunc: pytest.Metafunc) -> None:
    """Check the markers of a test, and run ``frt_cell`` over the cells they say, else over those of this run.

    Raises:
        pytest.Collector.CollectError: a typo; the message names the nearest word.
    """
    marks = list(metafunc.definition.iter_markers())
    for mark in marks:
        if said := fault(mark):
            raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {said}")
    if "frt_cell" not in metafunc.fixturenames or _own_parameters(marks):
        return
    if mine := [mark for mark in marks if mark.name == FRT]:
        try:
            specs = list(_specs(mine, Path(metafunc.definition.path).parent))
        except FrtError as wrong:
            raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {wrong.diagnostics()}") from wrong
        metafunc.parametrize("frt_cell", specs, ids=[spec.id for spec in specs], indirect=True)
        return
    session = metafunc.config.pluginmanager.get_plugin(SESSION)
    cells = dict.fromkeys(record.key.cell for record in session.plan.records) if session else {}
    metafunc.parametrize("frt_cell", list(cells), ids=[cell.id for cell in cells], indirect=True)


def _own_parameters(marks: list[pytest.Mark]) -> bool:
    names = (mark.args[0] for mark in marks if mark.name == "parametrize" and mark.args)
    return any("frt_cell" in (name.replace(",", " ").split() if isinstance(name, str) else name) for name in names)


def _specs(marks: list[pytest.Mark], folder: Path) -> Iterator[CellSpec]:
    from pytest_frt.fixtures.specs import CellSpec
    from pytest_frt.registry import Registry

    registry = Registry.load()
    for mark in marks:
        yield from CellSpec.of(mark.kwargs, folder).each(registry)


def skip_unmet(mark: pytest.Mark) -> None:
    """Skip a test whose needs this machine does not meet."""
    from pytest_frt.fixtures.needs import unmet

    if reason := unmet(mark.kwargs):
        not_supported(reason)


def not_supported(reason: str) -> NoReturn:
    """Skip a test, where it stands, because this machine cannot run it."""
    raise pytest.skip.Exception(f"NOT_SUPPORTED: {reason}", _use_item_location=True)
