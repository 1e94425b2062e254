"""Checks of ``video_generation_pipeline``: each answers requests of the host and says what it saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import torch
from pytest_frt.catalog._shared import loops, watch  # type: ignore[import-not-found]
from pytest_frt.catalog._shared.findings import Broken, Finding, Holds, NotShown  # type: ignore[import-not-found]
from torch import Tensor

DENOISE, DECODE = "denoise", "decode"
NOISE = "noise"


class Host(loops.Host, Protocol):  # type: ignore[misc]
    """What these checks may look at: what every loop tells, and what a scheduler and a skipped step are.

    ``modules["denoise"]`` are the modules that compute in every step that is not skipped.
    """

    @property
    def latent(self) -> str:
        """Argument of a step that carries the latent."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shapes that are declared for the moving arguments of a step."""

    @property
    def skipped(self) -> int:
        """Steps of a request that are answered by what an earlier one left; 0 where none is."""

    @property
    def gate(self) -> Callable[[Tensor, Tensor], bool] | None:
        """Whether an answer with skipped steps may stand for that without; None where no step is skipped."""

    @property
    def unskipped(self) -> Callable[[Mapping[str, Tensor]], Tensor]:
        """Answer a sample with every step computed."""

    def update(self, latent: Tensor, prediction: Tensor, step: int, /) -> Tensor:
        """Return the next latent, from a latent and what the network predicts over it."""


def fixed_shape_contract_is_declared(host: Host) -> Finding:
    """Note the shapes of each call of the loop, over two requests, and hold them to what is declared."""
    stages = ("condition_encode", "latent_prepare", DENOISE, DECODE)
    paths = (host.loop.path, *(path for stage in stages for path in host.modules.get(stage, ())))
    if gone := watch.missing(host.model, paths):
        return Broken("no_such_module", f"the host has no module {', '.join(gone)}")
    if undeclared := [name for name in host.loop.moving if name not in host.shapes]:
        return Broken("undeclared", f"no shape is declared for {', '.join(undeclared)}")
    met: dict[str, tuple[int, ...]] = {}

    def enter(arguments: dict[str, Any]) -> None:
        met.update({name: tuple(arguments[name].shape) for name in host.loop.moving})

    with watch.on_calls(host.model.get_submodule(host.loop.path), host.loop.method, enter, lambda _answer: None):
        host.run(host.samples[0])
    for name, shape in met.items():
        if shape != tuple(host.shapes[name]):
            return Broken("shape", f"{name} is {shape}, {tuple(host.shapes[name])} is declared")
    return loops.fixed(host, DENOISE)


def condition_is_read_only_in_denoise(host: Host) -> Finding:
    """Hold the condition after each step to what it was, by version counters and by bytes."""
    return loops.unwritten(host)


def initial_latent_or_noise_is_explicit(host: Host) -> Finding:
    """Repeat a request under another state of the random generators, and with another noise."""
    return loops.explicit_noise(host, NOISE, DENOISE)


def scheduler_update_is_explicit(host: Host) -> Finding:
    """Make each latent anew from the one before it and its prediction."""
    latents: list[Tensor] = []
    predictions: list[Tensor] = []
    module = host.model.get_submodule(host.loop.path)
    with watch.on_calls(
        module,
        host.loop.method,
        lambda given: latents.append(given[host.latent].clone()),
        lambda answer: predictions.append(answer.clone()),
    ):
        host.run(host.samples[0])
    if len(latents) < 2:  # noqa: PLR2004 (an update lies between two steps)
        return NotShown(f"{len(latents)} steps: no update lies between them")
    for step, (old, new) in enumerate(pairwise(latents)):
        differing = int((host.update(old, predictions[step], step) != new).sum())
        if differing:
            numbers = {"step": step + 1, "differing": differing}
            return Broken("hidden_update", f"step {step + 1} is followed by another latent than its update", numbers)
    return Holds(f"{len(latents) - 1} updates follow from latent and prediction", {"updates": len(latents) - 1})


def skipped_step_cache_has_a_quality_gate(host: Host) -> Finding:
    """Count the steps in which the network computes; where some are skipped, try the gate on right and wrong ones."""
    paths = host.modules[DENOISE]
    seen = watch.watch(host.model, paths, partial(host.run, host.samples[0]), host.loop)
    steps = len(seen.at(watch.ENTER, watch.STEP))
    idle = max(steps - len(seen.at(watch.ENTER, path)) for path in paths)
    counts = {"steps": steps, "skipped": idle, "declared": host.skipped}
    if idle != host.skipped:
        return Broken("undeclared", f"{idle} of {steps} steps are skipped, {host.skipped} declared", counts)
    if not idle:
        return Holds(f"the network computes in each of {steps} steps", counts)
    if host.gate is None:
        return Broken("no_gate", f"{idle} of {steps} steps are skipped and nothing judges the answer", counts)
    want, other = (host.unskipped(sample) for sample in host.samples)
    if host.gate(torch.full_like(want, torch.nan), want) or host.gate(other, want):
        return Broken("gate_takes_all", "the gate takes NaN, or the answer to another request", counts)
    if not host.gate(seen.answer, want):
        return Broken("quality", "the gate refuses the answer with skipped steps", counts)
    return Holds(f"{idle} of {steps} steps are skipped, and the gate takes the answer", counts)


def decode_cost_is_reported_when_present(host: Host) -> Finding:
    """List what computes after the last step."""
    return loops.cost_after(host, DENOISE, DECODE)
