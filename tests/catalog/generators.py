"""A small generator that runs as ``video_generation_pipeline`` says, and generators that each break a promise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from pytest_frt.contracts.pipeline import Loop

WIDTH, FRAMES, STEPS = 6, 3, 4
Sample = Mapping[str, Tensor]


class Network(nn.Module):
    """Predicts over a latent, a condition and a time; what it may skip is its inner part."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2 * WIDTH, WIDTH)
        self.kept: Tensor | None = None
        self.calls, self.every = 0, 1

    def forward(self, latent: Tensor, cond: Tensor, time: Tensor) -> Tensor:
        if self.kept is None or self.calls % self.every == 0:
            self.kept = self.inner(torch.cat([latent, cond.expand_as(latent)], dim=-1))
        self.calls += 1
        return self.kept * (1 + time)


class Generator(nn.Module):
    """Encodes a prompt, denoises a latent, decodes it; methods are what the faults replace."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.network, self.decoder = nn.Linear(WIDTH, WIDTH), Network(), nn.Linear(WIDTH, WIDTH)

    def begin(self, sample: Sample) -> tuple[Tensor, Tensor]:
        self.network.calls = 0
        return sample["noise"], self.text(sample["prompt"])

    def update(self, latent: Tensor, prediction: Tensor, step: int) -> Tensor:  # noqa: ARG002 (schedulers read it)
        return latent + prediction / STEPS

    def step(self, latent: Tensor, cond: Tensor, index: int) -> Tensor:
        return self.update(latent, self.network(latent, cond, torch.full((1,), index / STEPS)), index)

    def end(self, latent: Tensor) -> Tensor:
        return self.decoder(latent)[0]

    @torch.no_grad()
    def run(self, sample: Sample) -> Tensor:
        latent, cond = self.begin(sample)
        for index in range(STEPS):
            latent = self.step(latent, cond, index)
        return self.end(latent)

    def unskipped(self, sample: Sample) -> Tensor:
        every, self.network.every = self.network.every, 1
        try:
            return self.run(sample)
        finally:
            self.network.every = every


class WritesThePrompt(Generator):
    def step(self, latent: Tensor, cond: Tensor, index: int) -> Tensor:
        answer = super().step(latent, cond, index)
        cond.mul_(2)
        return answer


class DrawsItsLatent(Generator):
    def begin(self, sample: Sample) -> tuple[Tensor, Tensor]:
        noise, cond = super().begin(sample)
        return torch.randn_like(noise), cond


class MovesTheLatent(Generator):
    def step(self, latent: Tensor, cond: Tensor, index: int) -> Tensor:
        return super().step(latent, cond, index) * (1 + 0.001 * index)


class Skips(Generator):
    def __init__(self) -> None:
        super().__init__()
        self.network.every = 2


class DecodesUnsaid(Generator):
    def end(self, latent: Tensor) -> Tensor:
        return super().end(self.decoder(latent))


@dataclass(frozen=True)
class Told:
    """What a generator tells of its stages."""

    model: nn.Module
    modules: Mapping[str, tuple[str, ...]]
    windows: Mapping[str, tuple[str, ...]]
    samples: tuple[Sample, Sample]
    run: Callable[[Sample], Tensor]
    loop: Loop
    update: Callable[[Tensor, Tensor, int], Tensor]
    unskipped: Callable[[Sample], Tensor]
    shapes: Mapping[str, tuple[int, ...]]
    latent: str = "latent"
    skipped: int = 0
    gate: Callable[[Tensor, Tensor], bool] | None = None


def near(most: float) -> Callable[[Tensor, Tensor], bool]:
    """Return a gate that takes an answer within a relative distance."""
    return lambda got, want: bool((got - want).norm() <= most * want.norm())


def told(generator: Generator, **changes: Any) -> Told:
    """Return what a generator tells of its stages, over two requests."""
    draw = torch.Generator().manual_seed(4)
    sizes = {"prompt": (1, 1, WIDTH), "noise": (1, FRAMES, WIDTH)}
    first, second = ({name: torch.randn(size, generator=draw) for name, size in sizes.items()} for _ in range(2))
    plain = Told(
        model=generator,
        modules={
            "condition_encode": ("text",),
            "latent_prepare": (),
            "denoise": ("network.inner",),
            "decode": ("decoder",),
        },
        windows={"prompt": ("prompt",), "noise": ("noise",)},
        samples=(first, second),
        run=generator.run,
        loop=Loop("network", STEPS, ("latent", "time")),
        update=generator.update,
        unskipped=generator.unskipped,
        shapes={"latent": (1, FRAMES, WIDTH), "time": (1,)},
    )
    return replace(plain, **changes)
