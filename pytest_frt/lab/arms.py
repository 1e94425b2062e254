"""The host of a timing process with its arms bound, its inputs prepared, and the switch between arms."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.errors import EvidenceError
from pytest_frt.lab import hosting
from pytest_frt.lab.units import bind, load_unit
from pytest_frt.seat import swap
from pytest_frt.spec import codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from pytest_frt.contracts.host import Sample
    from pytest_frt.contracts.job import TimingJob, UnitRef
    from pytest_frt.seat.bind import BoundSeat

BASE: Final = "base"
COMPILED: Final = "compiled"


@dataclass(slots=True)
class Stage:
    """One built host. In eager form all arms share one; a compiled arm has its own, since its graph is built around it.

    Attributes:
        host: Built host.
        attached: Arm attached now, ``base`` for none.
        states: Prepared inputs by instance and phase.
    """

    host: hosting.Hosting
    attached: str = BASE
    attachment: swap.Attachment | None = None
    states: dict[tuple[int, str], list[Any]] = field(default_factory=dict)


class Arms:
    """Binds every arm of a job on its host, in a given order, and switches between them.

    Instance 0 of the prepared inputs is the base's; instance 1 is that of the other arms and of the
    second base of a null pair.

    Args:
        job: The timing job.
        order: Every arm name of the job once, ``base`` included: the order in which things are built.
    """

    def __init__(self, job: TimingJob, order: Sequence[str]) -> None:
        self._job = job
        self._shared = COMPILED not in {job.form, job.base_form}
        self._stages: dict[str, Stage] = {}
        self._bound: dict[str, list[BoundSeat]] = {BASE: []}
        self._parts: dict[tuple[UnitRef, str], tuple[BoundSeat, ...]] = {}
        self._current = BASE
        self._drawn: list[Sample] = []
        for name in order:
            self._build(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Every arm, in build order."""
        return tuple(self._stages)

    def seats(self, arm: str) -> int:
        """Return how many seats an arm attaches."""
        return len(self._bound[arm])

    def switch(self, arm: str, cycle: str = "") -> None:
        """Make ``arm`` the one that runs next.

        Args:
            arm: Arm name.
            cycle: Arm to attach and detach on the way, the full cycle of a null pair; empty for none.
        """
        if cycle:
            stage = self._stages[cycle]
            was = stage.attached
            self._put(stage, BASE if was == cycle else cycle)
            self._put(stage, was if was == cycle else BASE)
        stage = self._stages[arm]
        if self._shared:
            self._put(stage, arm)
        self._current = arm

    def calls(self, instance: int, phase: str, state: int, content: int, count: int) -> list[Callable[[], Tensor]]:
        """Return executions of the current arm, ready to be timed, each on values that no other one sees.

        Args:
            instance: Prepared instance of the inputs.
            phase: Row regime.
            state: Which prepared input gives the shapes and what does not change.
            content: Draws the values of the first execution; each further one has the next number.
            count: How many.
        """
        stage = self._stages[self._current]
        program, model, prepared = stage.host.program, stage.host.model, stage.states[instance, phase][state]
        return [partial(program.run, model, program.fresh(model, prepared, content + turn)) for turn in range(count)]

    def _stage(self) -> Stage:
        if self._shared and self._stages:
            return next(iter(self._stages.values()))
        stage = Stage(hosting.build(replace(self._job.host, threads=1)))
        if not hasattr(stage.host.program, "fresh"):
            raise EvidenceError(
                f"host {stage.host.spec.name} defines no fresh(model, state, seed)",
                hint="timed executions need values that no earlier one saw",
            )
        if not self._drawn:
            self._drawn = hosting.split(stage.host, self._job.host, timing=self._job.states).timing
        return stage

    def _build(self, name: str) -> None:
        stage = self._stages[name] = self._stage()
        self._bound[name] = [seat for unit in self._job.arms.get(name, ()) for seat in self._bind(stage, unit, name)]
        for instance in self._instances(name):
            for phase in self._job.phases:
                if (instance, phase) not in stage.states:
                    stage.states[instance, phase] = self._prepared(stage, phase)
        form = self._job.base_form if name == BASE else self._job.form
        if not self._shared:
            self._put(stage, name)
        if form == COMPILED:
            for phase in self._job.phases:
                stage.host.program.compile(stage.host.model, phase)

    def _instances(self, name: str) -> Iterable[int]:
        """Instances an arm needs: a base with no other arm beside it is its own null pair."""
        if not self._shared or len(self._job.arms) == 1:
            return (0, 1)
        return (0,) if name == BASE else (1,)

    def _prepared(self, stage: Stage, phase: str) -> list[Any]:
        """Return inputs that share no memory with those of another instance."""
        for (_, other), states in stage.states.items():
            if other == phase:
                return copy.deepcopy(states)
        program, model = stage.host.program, stage.host.model
        return [program.prepare(model, [sample], phase) for sample in self._drawn]

    def _bind(self, stage: Stage, unit: UnitRef, arm: str) -> tuple[BoundSeat, ...]:
        scales = self._job.scales.get(arm, "")
        if self._shared and (unit, scales) in self._parts:
            return self._parts[unit, scales]
        seats = codec.loads(tuple[SeatFacts, ...], Path(self._job.seats).read_bytes())
        done = bind(stage.host.model, load_unit(unit), seats, scales, tuple)
        if done.refused:
            first = done.refused[0]
            raise EvidenceError(
                f"arm {arm}: {unit.id} refuses {len(done.refused)} seats that the candidate had bound, "
                f"first {first.at}: {first.reason}, {first.detail}",
                hint="bind must decide by what it is given, not by process or history",
            )
        self._parts[unit, scales] = done.bound
        return done.bound

    def _put(self, stage: Stage, arm: str) -> None:
        if stage.attached == arm:
            return
        if stage.attachment is not None:
            stage.attachment.detach()
            stage.attachment = None
        if arm != BASE:
            stage.attachment = swap.attach(stage.host.model, self._bound[arm])
        stage.attached = arm
