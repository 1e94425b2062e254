"""A small decoder that runs as ``autoregressive_decode_pipeline`` says, and decoders that each break a promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from pytest_frt.contracts.pipeline import Buckets, DecodeStages

WIDTH, VOCABULARY, PREFIX, LAYERS = 8, 12, 6, 2
Sample = Mapping[str, Tensor]


@dataclass(frozen=True)
class State:
    """A request, what each layer holds of it ``[1, positions, WIDTH]``, and how many tokens are in there."""

    sample: Sample
    layers: tuple[Tensor, ...]
    at: int


class Block(nn.Module):
    """Adds to each position what a layer makes of the mean of all positions up to it."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, h: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        grown = torch.cat([past, h], dim=1)
        count = torch.arange(1, grown.shape[1] + 1)[:, None]
        mean = (grown.cumsum(dim=1) / count)[:, past.shape[1] :]
        return h + self.mix(mean).tanh(), grown


class Decoder(nn.Module):
    """Embeds, sees an image at its first position, runs blocks over a state; methods are what the faults replace."""

    made_of: type[Block] = Block

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.blocks = nn.ModuleList(self.made_of() for _ in range(LAYERS))
        self.eye = nn.Linear(WIDTH, WIDTH)
        self.steps = 0
        self.register_buffer("seen", torch.zeros(1))

    def embedded(self, sample: Sample, first: int, last: int) -> Tensor:
        h = self.embed(sample["ids"][:, first:last])
        if first == 0:
            h = torch.cat([h[:, :1] + self.eye(sample["pixels"]), h[:, 1:]], dim=1)
        return h

    def over(self, sample: Sample, layers: tuple[Tensor, ...], first: int, last: int) -> tuple[Tensor, Any]:
        h, grown = self.embedded(sample, first, last), []
        for block, past in zip(self.blocks, layers, strict=True):
            h, more = block(h, past)
            grown.append(more)
        return self.head(h)[0], tuple(grown)

    def nothing(self) -> tuple[Tensor, ...]:
        return (torch.zeros(1, 0, WIDTH),) * LAYERS

    @torch.no_grad()
    def read(self, sample: Sample) -> State:
        return State(sample, self.over(sample, self.nothing(), 0, PREFIX)[1], PREFIX)

    @torch.no_grad()
    def step(self, state: State, rows: int) -> tuple[Tensor, State]:
        logits, grown = self.over(state.sample, state.layers, state.at, state.at + rows)
        return logits, State(state.sample, grown, state.at + rows)

    @torch.no_grad()
    def whole(self, state: State, rows: int) -> Tensor:
        return Decoder.over(self, state.sample, self.nothing(), 0, state.at + rows)[0][-rows:]


class LosesAPosition(Decoder):
    def read(self, sample: Sample) -> State:
        whole = super().read(sample)
        return replace(whole, layers=tuple(layer[:, 1:] for layer in whole.layers))


class BlanksAPosition(Decoder):
    def read(self, sample: Sample) -> State:
        whole = super().read(sample)
        kept = torch.ones(1, PREFIX, 1)
        kept[:, 2] = 0
        return replace(whole, layers=tuple(layer * kept for layer in whole.layers))


class HoldsNoNumber(Decoder):
    def read(self, sample: Sample) -> State:
        whole = super().read(sample)
        return replace(whole, layers=(whole.layers[0] / 0, *whole.layers[1:]))


class SkipsABlock(Decoder):
    def over(self, sample: Sample, layers: tuple[Tensor, ...], first: int, last: int) -> tuple[Tensor, Any]:
        h = self.embedded(sample, first, last)
        h, more = self.blocks[0](h, layers[0])
        return self.head(h)[0], (more,) * LAYERS


class GrowsTwice(Decoder):
    def step(self, state: State, rows: int) -> tuple[Tensor, State]:
        logits, after = super().step(state, rows)
        return logits, replace(after, layers=tuple(torch.cat([one, one[:, -1:]], dim=1) for one in after.layers))


class LosesOneOfSeveral(Decoder):
    def step(self, state: State, rows: int) -> tuple[Tensor, State]:
        logits, after = super().step(state, rows)
        kept = after.layers[0].shape[1] - (rows > 1)
        return logits, replace(after, layers=tuple(one[:, :kept] for one in after.layers))


class KeepsAWindow(Decoder):
    def step(self, state: State, rows: int) -> tuple[Tensor, State]:
        logits, after = super().step(state, rows)
        return logits, replace(after, layers=tuple(one[:, -PREFIX:] for one in after.layers))


class WritesTheState(Decoder):
    def step(self, state: State, rows: int) -> tuple[Tensor, State]:
        answer = super().step(state, rows)
        state.layers[0].mul_(2)
        return answer


class RewritesThePast(Decoder):
    def step(self, state: State, rows: int) -> tuple[Tensor, State]:
        logits, after = super().step(state, rows)
        return logits, replace(after, layers=tuple(one.roll(1, dims=1) for one in after.layers))


class KeepsACount(Decoder):
    def step(self, state: State, rows: int) -> tuple[Tensor, State]:
        logits, after = super().step(state, rows)
        self.steps += 1
        return logits + 0.001 * (self.steps > 1), after


class WritesABuffer(Decoder):
    def step(self, state: State, rows: int) -> tuple[Tensor, State]:
        self.seen += 1
        return super().step(state, rows)


class ChoosingBlock(Block):
    def forward(self, h: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        chosen = (h @ torch.ones(WIDTH, VOCABULARY)).argmax(dim=-1, keepdim=True)
        return super().forward(h + 0 * chosen, past)


class ChoosesInside(Decoder):
    made_of = ChoosingBlock


class RoutingBlock(Block):
    def forward(self, h: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(h + 0 * h[..., :4].topk(2).values.sum(-1, keepdim=True), past)


class RoutesInside(Decoder):
    made_of = RoutingBlock


class AnswersIds(Decoder):
    def step(self, state: State, rows: int) -> tuple[Tensor, State]:
        logits, after = super().step(state, rows)
        return logits.argmax(dim=-1), after


class SeesForEveryToken(Decoder):
    def embedded(self, sample: Sample, first: int, last: int) -> Tensor:
        return (
            super().embedded(sample, first, last) + 0 * self.eye(sample["pixels"])
            if first
            else super().embedded(sample, first, last)
        )


class SeesTwice(Decoder):
    def read(self, sample: Sample) -> State:
        self.eye(sample["pixels"])
        return super().read(sample)


class SeesNothing(Decoder):
    def embedded(self, sample: Sample, first: int, last: int) -> Tensor:
        return super().embedded({**sample, "pixels": torch.zeros(1, 1, WIDTH)}, first, last)


def captured(decoder: Decoder, *, silent: bool = False, off: float = 0.0) -> Buckets:
    """Return captured row counts of a decoder; a silent one counts no fallback."""
    counted = [0]

    def run(state: State, rows: int) -> tuple[Tensor, State]:
        counted[0] += not silent and rows > 2
        logits, after = decoder.step(state, rows)
        return logits + off * (rows == 2), after

    return Buckets((1, 2), run, lambda: counted[0])


def told(decoder: Decoder, **changes: Any) -> DecodeStages:
    """Return what a decoder tells of its stages, over two requests."""
    generator = torch.Generator().manual_seed(5)
    first, second = (
        {
            "ids": torch.randint(VOCABULARY, (1, 2 * PREFIX), generator=generator),
            "pixels": torch.randn(1, 1, WIDTH, generator=generator),
        }
        for _ in range(2)
    )
    blocks = tuple(f"blocks.{index}" for index in range(LAYERS))
    plain = DecodeStages(
        model=decoder,
        modules={"modality_encode": ("eye",), "prefill": blocks, "decode": blocks, "token_select": ()},
        windows={"tokens": ("ids",), "modality": ("pixels",)},
        samples=(first, second),
        vocabulary=VOCABULARY,
        read=decoder.read,
        step=decoder.step,
        whole=decoder.whole,
        lengths=lambda state: tuple(layer.shape[1] for layer in state.layers),
        held=lambda state: state.layers,
        select=lambda logits: logits.argmax(dim=-1),
        buckets=captured(decoder),
    )
    return replace(plain, **changes)
