"""A small policy that runs as ``vla_tick_pipeline`` says, and policies of which each breaks one of its promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from pytest_frt.contracts.pipeline import Loop, TickStages

WIDTH, ACTIONS, STEPS = 6, 4, 3
Sample = Mapping[str, Tensor]


class Body(nn.Module):
    """One step: a velocity from the actions so far, the condition and the time."""

    last = False

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(2 * WIDTH + 1, WIDTH)

    def forward(self, x: Tensor, cond: Tensor, t: Tensor) -> Tensor:
        shape = (*x.shape[:-1], -1)
        return self.proj(torch.cat([x, cond[:, :1].expand(shape), t.expand(*shape[:-1], 1)], dim=-1))


class Policy(nn.Module):
    """Encodes once, denoises in steps; methods are what the faults replace."""

    made_of: type[Body] = Body

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.body, self.readout = nn.Linear(WIDTH, WIDTH), self.made_of(), nn.Linear(WIDTH, WIDTH)
        self.kept: Any = None

    def begin(self, sample: Sample) -> tuple[Tensor, Tensor]:
        return sample["noise"], self.encode(sample["obs"])

    def steps(self, sample: Sample) -> int:  # noqa: ARG002 (the fault reads it)
        return STEPS

    def step(self, x: Tensor, cond: Tensor, index: int) -> Tensor:
        return x + self.body(x, cond, torch.full((1,), index / STEPS)) / STEPS

    def end(self, x: Tensor) -> Tensor:
        return x[0]

    @torch.no_grad()
    def run(self, sample: Sample) -> Tensor:
        x, cond = self.begin(sample)
        for index in range(self.steps(sample)):
            x = self.step(x, cond, index)
        return self.end(x)


class ExtraStep(Policy):
    def steps(self, sample: Sample) -> int:
        return STEPS + int(sample["obs"].sum() > 0)


class AlwaysOneMore(Policy):
    def steps(self, sample: Sample) -> int:  # noqa: ARG002
        return STEPS + 1


class EncodesInTheLoop(Policy):
    def step(self, x: Tensor, cond: Tensor, index: int) -> Tensor:
        return super().step(x, self.encode(cond), index)


class KeepsTheEncoding(Policy):
    def begin(self, sample: Sample) -> tuple[Tensor, Tensor]:
        self.kept = super().begin(sample)[1] if self.kept is None else self.kept
        return sample["noise"], self.kept


class BodyTwice(Policy):
    def end(self, x: Tensor) -> Tensor:
        self.body.proj(torch.zeros(1, 1, 2 * WIDTH + 1))
        return x[0]


class ReadsOutInTheLoop(Policy):
    def step(self, x: Tensor, cond: Tensor, index: int) -> Tensor:
        return super().step(self.readout(x) if index == 1 else x, cond, index)


class GrowingCondition(Policy):
    def step(self, x: Tensor, cond: Tensor, index: int) -> Tensor:
        return super().step(x, torch.cat([cond] * (index + 1), dim=1), index)


class ShapeFollowsWhatIsSeen(Policy):
    def begin(self, sample: Sample) -> tuple[Tensor, Tensor]:
        x, cond = super().begin(sample)
        return x, torch.cat([cond, cond], dim=1) if sample["obs"].sum() > 0 else cond


class DrawsItsOwn(Policy):
    def begin(self, sample: Sample) -> tuple[Tensor, Tensor]:
        return torch.randn(sample["noise"].shape), self.encode(sample["obs"])


class DrawsFromItsOwnGenerator(Policy):
    def begin(self, sample: Sample) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(0)
        x, cond = super().begin(sample)
        return x + torch.randn(x.shape, generator=generator), cond


class SeedsTheGenerator(Policy):
    def begin(self, sample: Sample) -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        return super().begin(sample)


class Counts(Policy):
    def begin(self, sample: Sample) -> tuple[Tensor, Tensor]:
        x, cond = super().begin(sample)
        self.kept = 1 if self.kept is None else self.kept + 1
        return x + self.kept, cond


class IgnoresTheNoise(Policy):
    def begin(self, sample: Sample) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(sample["noise"]), self.encode(sample["obs"])


class WritingBody(Body):
    def forward(self, x: Tensor, cond: Tensor, t: Tensor) -> Tensor:
        return super().forward(x, cond.add_(0), t)


class WritesTheCondition(Policy):
    made_of = WritingBody


class Cache:
    """An object that holds a tensor, as caches do."""

    def __init__(self, keys: Tensor) -> None:
        self.keys = keys


class CachingBody(Body):
    def forward(self, x: Tensor, cond: Any, t: Tensor) -> Tensor:  # type: ignore[override]
        out = super().forward(x, cond.keys, t)
        cond.keys = cond.keys * 2
        return out


class RebindsTheCache(Policy):
    made_of = CachingBody

    def begin(self, sample: Sample) -> tuple[Tensor, Any]:
        x, cond = super().begin(sample)
        return x, Cache(cond)


class HalfAChunk(Policy):
    def end(self, x: Tensor) -> Tensor:
        return x[0, : ACTIONS // 2]


class AnswersTheLastOne(Policy):
    def end(self, x: Tensor) -> Tensor:
        now, self.kept = x[0], x[0] if self.kept is None else self.kept
        answer, self.kept = self.kept, now
        return answer


class OneActionStays(Policy):
    def end(self, x: Tensor) -> Tensor:
        return torch.cat([torch.zeros(1, WIDTH), x[0, 1:]])


class ReadsOutUnsaid(Policy):
    def end(self, x: Tensor) -> Tensor:
        return self.readout(x)[0]


class ReadsOutMoreThanSaid(Policy):
    def end(self, x: Tensor) -> Tensor:
        return (self.readout(x) + nn.functional.linear(x, self.readout.weight, self.readout.bias))[0]


class ReadingBody(Body):
    def forward(self, x: Tensor, cond: Tensor, t: Tensor) -> Tensor:
        return super().forward(x, cond, t) * (1 + 0 * x.sum().item())


class Item(Policy):
    made_of = ReadingBody


class ItemBetweenSteps(Policy):
    def step(self, x: Tensor, cond: Tensor, index: int) -> Tensor:
        return super().step(x, cond, index) if bool((x == x).all()) else x  # noqa: PLR0124 (what hosts write)


class ListingBody(Body):
    def forward(self, x: Tensor, cond: Tensor, t: Tensor) -> Tensor:
        if self.last:
            x.tolist()
        return super().forward(x, cond, t)


class ListInTheLastStep(Policy):
    made_of = ListingBody

    def step(self, x: Tensor, cond: Tensor, index: int) -> Tensor:
        self.body.last = index == STEPS - 1
        return super().step(x, cond, index)


class MadeOfNumbers(Policy):
    def step(self, x: Tensor, cond: Tensor, index: int) -> Tensor:
        return super().step(x + torch.tensor(1.0), cond, index)


class Masks(Policy):
    def step(self, x: Tensor, cond: Tensor, index: int) -> Tensor:
        return super().step(x, cond, index) + x[x > 0].sum()


def told(policy: Policy, **changes: Any) -> TickStages:
    """Return what a policy tells of its stages, over two samples of which the second has a positive sum."""
    generator = torch.Generator().manual_seed(3)
    sizes = {"obs": (1, 1, WIDTH), "noise": (1, ACTIONS, WIDTH)}
    first, second = ({name: torch.randn(size, generator=generator) for name, size in sizes.items()} for _ in range(2))
    first["obs"], second["obs"] = -first["obs"].abs(), second["obs"].abs()
    plain = TickStages(
        model=policy,
        modules={"obs_encode": ("encode",), "action_denoise": ("body.proj",)},
        windows={"observation": ("obs",), "noise": ("noise",)},
        samples=(first, second),
        run=policy.run,
        loop=Loop("body", STEPS, ("x", "t")),
    )
    return replace(plain, **changes)
