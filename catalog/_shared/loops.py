"""Checks of pipelines that answer a condition and a noise by a loop of a fixed number of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import Any, Protocol

import torch
from pytest_frt.catalog._shared import watch  # type: ignore[import-not-found]
from pytest_frt.catalog._shared.findings import Broken, Finding, Holds, NotShown  # type: ignore[import-not-found]
from torch import Tensor, nn

Sample = Mapping[str, Tensor]


class Host(Protocol):
    """What these checks may look at; see ``TickStages`` of the contracts."""

    @property
    def model(self) -> nn.Module:
        """The host."""

    @property
    def modules(self) -> Mapping[str, tuple[str, ...]]:
        """Stage to modules that are called whenever it runs."""

    @property
    def windows(self) -> Mapping[str, tuple[str, ...]]:
        """Input or noise window to the names that a sample has for it."""

    @property
    def samples(self) -> tuple[Sample, Sample]:
        """Two observations that differ, each with its noise."""

    @property
    def loop(self) -> watch.Loop:
        """The call of one step."""

    def run(self, sample: Sample, /) -> Tensor:
        """Answer a sample from nothing."""


def seams(host: Host, before: str, within: str, after: str) -> Finding:
    """Check that modules of three stages are there, and called before, within and after the loop.

    Args:
        host: The host.
        before: Stage whose modules are called before the loop, and never in it.
        within: Stage whose modules are called once per step.
        after: Stage whose modules are called once, after the loop; may be absent.
    """
    paths = [path for stage in (before, within, after) for path in host.modules.get(stage, ())]
    if gone := watch.missing(host.model, (*paths, host.loop.path)):
        return Broken("no_such_module", f"the host has no module {', '.join(gone)}")
    calls: list[dict[str, float]] = []
    for sample in host.samples:
        seen = watch.watch(host.model, paths, partial(host.run, sample), host.loop)
        if fault := _misplaced(host, seen, before, within, after):
            return fault
        calls.append({path: len(seen.at(watch.ENTER, path)) for path in (*paths, watch.STEP)})
    if moved := [path for path in paths if calls[0][path] != calls[1][path]]:
        return Broken("moving_cadence", f"{moved[0]}: other calls for another observation", calls[1])
    most = {
        f"calls of {stage}": max(calls[0][path] for path in host.modules[stage])
        for stage in (before, within, after)
        if host.modules.get(stage)
    }
    return Holds(f"{len(paths)} modules are called at their cadence, over 2 observations", most)


def _misplaced(host: Host, seen: watch.Watched, before: str, within: str, after: str) -> Broken | None:
    """Return what is wrong with where in the order modules are called."""
    steps = len(seen.at(watch.ENTER, watch.STEP))
    if not steps:
        return Broken("loop_never_ran", f"{host.loop.path}.{host.loop.method} is not called", {"steps": 0})
    first, last = seen.bounds(watch.STEP, *host.modules.get(within, ()))
    for stage in (before, within, after):
        for path in host.modules.get(stage, ()):
            at = seen.at(watch.ENTER, path)
            wanted = {within: steps, after: 1}.get(stage, max(len(at), 1))
            counts = {"calls": len(at), "wanted": wanted}
            if len(at) != wanted:
                return Broken("off_cadence", f"{path} of {stage}: {len(at)} calls, needs {wanted}", counts)
            if (stage == before and at[-1] > first) or (stage == after and at[0] < last):
                return Broken("in_the_loop", f"{path} of {stage} is called between the steps of {within}", counts)
    return None


def fixed(host: Host, within: str) -> Finding:
    """Check that each step is called with the same shapes, as many times as declared, whatever is observed."""
    forms: dict[str, set[tuple[str, ...]]] = {}
    for sample in host.samples:
        seen = watch.watch(host.model, host.modules.get(within, ()), partial(host.run, sample), host.loop)
        steps = len(seen.at(watch.ENTER, watch.STEP))
        if steps != host.loop.steps:
            counts = {"steps": steps, "declared": host.loop.steps}
            return Broken("steps", f"the loop makes {steps} steps, {host.loop.steps} are declared", counts)
        for name in (watch.STEP, *host.modules.get(within, ())):
            forms.setdefault(name, set()).update(seen.forms(name))
    for name, met in forms.items():
        if len(met) > 1:
            one, other = sorted(met)[:2]
            changed = next((f"{a} and {b}" for a, b in zip(one, other, strict=False) if a != b), "more tensors")
            return Broken("shape", f"{name} is called with {len(met)} forms: {changed}", {"forms": len(met)})
    return Holds(
        f"{host.loop.steps} steps of one form, over 2 observations", {"steps": host.loop.steps, "modules": len(forms)}
    )


def explicit_noise(host: Host, window: str, within: str) -> Finding:
    """Check that one named tensor is all the noise there is: nothing is drawn, and the answer follows it alone."""
    names = host.windows.get(window, ())
    if len(names) != 1:
        return Broken("sites", f"window {window} is {len(names)} tensors, needs 1", {"sites": len(names)})
    first, second = host.samples
    with torch.random.fork_rng():
        torch.manual_seed(1)
        before = _random_state()
        seen = watch.watch(host.model, host.modules.get(within, ()), partial(host.run, first), host.loop, ops=True)
        moved = not all(map(torch.equal, before, _random_state()))
        torch.manual_seed(2)
        again, other = host.run(first), host.run({**first, names[0]: second[names[0]]})
    if moved or seen.marked(watch.DRAWS):
        return Broken("drawn_inside", f"random numbers are drawn beside {names[0]}", seen.marked(watch.DRAWS))
    if differing := int((again != seen.answer).sum()):
        return Broken("not_repeatable", "the same noise gives another answer", {"differing": differing})
    if torch.equal(other, again):
        return Broken("ignored", f"another {names[0]} gives the same answer")
    changed = int((other != again).sum())
    return Holds(
        f"{names[0]} alone: the same one repeats to the bit, another one changes the answer",
        {"drawn": 0, "changed": changed, "values": again.numel()},
    )


def _random_state() -> list[Tensor]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return [torch.get_rng_state(), *cuda]


def unwritten(host: Host) -> Finding:
    """Check that what each step is given beside its moving arguments is left as it was, bit for bit."""
    kept: list[tuple[str, Tensor, Tensor, int]] = []
    faults: list[Broken] = []
    given: dict[str, Any] = {}
    steps = rebound = 0

    def enter(arguments: dict[str, Any]) -> None:
        nonlocal given, steps
        steps += 1
        given = {name: value for name, value in arguments.items() if name not in host.loop.moving}
        for at, tensor in watch.tensors(given) if not kept else ():
            kept.append((at, tensor, tensor.clone(), _version(tensor)))

    def leave(_answer: object) -> None:
        nonlocal rebound
        held = dict(watch.tensors(given))
        for at, tensor, bits, version in kept:
            now = held.get(at)
            rebound += now is not tensor
            if _version(tensor) != version:
                faults.append(Broken("written", f"step {steps} writes {at} in place", {"step": steps}))
            elif now is None or not _same(now, bits):
                faults.append(Broken("changed", f"step {steps} leaves another {at}", {"step": steps}))

    with watch.on_calls(host.model.get_submodule(host.loop.path), host.loop.method, enter, leave):
        host.run(host.samples[0])
    if faults:
        return faults[0]
    if not kept:
        return NotShown(f"no tensor but {', '.join(host.loop.moving)} is handed to a step")
    return Holds(
        f"{len(kept)} tensors of the condition are the same after each of {steps} steps",
        {"tensors": len(kept), "steps": steps, "rebound": rebound},
    )


def _version(tensor: Tensor) -> int:
    """Return how often a tensor was written; tensors of inference mode do not count, and are judged by their bytes."""
    return 0 if tensor.is_inference() else tensor._version  # noqa: SLF001 (its public name is none)


def _same(one: Tensor, other: Tensor) -> bool:
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    one, other = (tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (one, other))
    return torch.equal(one, other)


def cost_after(host: Host, within: str, after: str) -> Finding:
    """Check that whatever computes after the loop is the stage that says so, and state what that costs."""
    paths = (*host.modules.get(within, ()), *host.modules.get(after, ()))
    seen = watch.watch(host.model, paths, partial(host.run, host.samples[0]), host.loop, ops=True)
    _, end = seen.bounds(watch.STEP, *host.modules.get(within, ()))
    rest = seen.marked(watch.COMPUTES, end)
    stated: dict[str, float] = {}
    for path in host.modules.get(after, ()):
        for first, last in zip(seen.at(watch.ENTER, path), seen.at(watch.LEAVE, path), strict=True):
            for name, count in seen.marked(watch.COMPUTES, first, last).items():
                stated[name] = stated.get(name, 0) + count
    hidden = {name: count - stated.get(name, 0) for name, count in rest.items() if count > stated.get(name, 0)}
    if hidden:
        return Broken("unreported", f"{', '.join(hidden)} run after the last step and in no {after}", hidden)
    if not host.modules.get(after):
        return Holds(f"no {after}, and nothing computes after the last step", {"computing": 0})
    return Holds(f"the cost of {after} is stated", {**stated, **_seconds(host, host.modules[after])})


def _seconds(host: Host, paths: Sequence[str]) -> dict[str, float]:
    """Return how long the modules of a stage take, and the whole answer: one run, for orientation."""
    spent, depth = 0.0, 0

    def enter(_arguments: dict[str, Any]) -> None:
        nonlocal spent, depth
        spent -= 0 if depth else perf_counter()
        depth += 1

    def leave(_answer: object) -> None:
        nonlocal spent, depth
        depth -= 1
        spent += 0 if depth else perf_counter()

    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(watch.on_calls(host.model.get_submodule(path), "forward", enter, leave))
        start = perf_counter()
        host.run(host.samples[0])
        whole = perf_counter() - start
    return {"stage_s": spent, "whole_s": whole}


def spans(seen: watch.Watched) -> list[tuple[int, int]]:
    """Return where each step begins and where the next one does; the last ends where it is left."""
    starts = seen.at(watch.ENTER, watch.STEP)
    return [*pairwise(starts), (starts[-1], seen.at(watch.LEAVE, watch.STEP)[-1])]
