"""Checks of ``vla_tick_pipeline``: each runs ticks of the host and says what it saw."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from pytest_frt.catalog._shared import loops, watch  # type: ignore[import-not-found]
from pytest_frt.catalog._shared.findings import Broken, Finding, Holds, NotShown  # type: ignore[import-not-found]

ENCODE, DENOISE, READOUT = "obs_encode", "action_denoise", "readout"
NOISE = "noise"


class Blocker(Protocol):
    """Something in a step that a graph cannot capture, and that is known."""

    @property
    def op(self) -> str:
        """Name of the operation."""

    @property
    def per_step(self) -> int:
        """How often a step runs it."""


class Host(loops.Host, Protocol):  # type: ignore[misc]
    """What these checks may look at; see ``TickStages`` of the contracts."""

    @property
    def blockers(self) -> tuple[Blocker, ...]:
        """What stands between the loop and its capture."""


def stage_seam_exists(host: Host) -> Finding:
    """Count the calls of each stage's modules, by where they are in the order of a tick."""
    return loops.seams(host, ENCODE, DENOISE, READOUT)


def hot_loop_fixed_shape_fixed_steps(host: Host) -> Finding:
    """Note the shapes of each call of the loop, over two observations."""
    return loops.fixed(host, DENOISE)


def noise_single_hoistable_site(host: Host) -> Finding:
    """Repeat a tick under another state of the random generators, and with another noise."""
    return loops.explicit_noise(host, NOISE, DENOISE)


def condition_read_only_in_loop(host: Host) -> Finding:
    """Hold the condition after each step to what it was, by version counters and by bytes."""
    return loops.unwritten(host)


def action_chunk_cadence(host: Host) -> Finding:
    """Run two observations by turns: a chunk that is queued or kept answers the wrong one."""
    first, second = host.samples
    noise = first[host.windows[NOISE][0]]
    one, other = host.run(first), host.run({**second, **{name: first[name] for name in host.windows[NOISE]}})
    again = host.run(first)
    counts = {"actions": one.shape[0], "steps_of_noise": noise.shape[-2]}
    if one.shape[0] != noise.shape[-2]:
        return Broken("chunk", f"a tick answers {one.shape[0]} actions to noise for {noise.shape[-2]}", counts)
    if differing := int((one != again).any(dim=-1).sum()):
        return Broken("left_over", "a tick depends on the one before it", {"differing": differing})
    if kept := int((one == other).all(dim=-1).sum()):
        return Broken("stale", f"{kept} actions are the same for another observation", {"kept": kept, **counts})
    return Holds(f"{one.shape[0]} actions, all of the tick's own observation", counts)


def readout_cost_reported_when_present(host: Host) -> Finding:
    """List what computes after the last step."""
    return loops.cost_after(host, DENOISE, READOUT)


def capture_blockers_enumerated(host: Host) -> Finding:
    """List what each step runs that a graph cannot capture, and hold it to what is declared."""
    seen = watch.watch(host.model, host.modules[DENOISE], partial(host.run, host.samples[0]), host.loop, ops=True)
    found = [seen.marked(watch.BLOCKS, *span) for span in loops.spans(seen)]
    if len(found) < 2:  # noqa: PLR2004 (what lies between two steps needs two of them)
        return NotShown(f"{len(found)} steps: what is run between two of them cannot be seen")
    if not seen.marked(watch.COMPUTES, *seen.bounds(watch.STEP)):
        return NotShown("no operation of the loop computes: they are out of sight, as in a compiled or captured loop")
    declared = {one.op: one.per_step for one in host.blockers}
    for step, counts in enumerate(found, start=1):
        last = step == len(found)  # what follows the last step is no part of the loop
        for op in sorted({*counts, *declared}):
            runs, wanted = int(counts.get(op, 0)), declared.get(op, 0)
            if runs > wanted or (runs < wanted and not last):
                numbers = {"runs": runs, "declared": wanted, "step": step}
                return Broken("undeclared", f"{op}: {runs} in step {step}, {wanted} declared", numbers)
    per_step = {op: float(count) for op, count in declared.items()}
    return Holds(f"{len(declared)} declared and found in each of {len(found)} steps, no others", per_step)
