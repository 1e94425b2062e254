"""One tick of a flow policy: an observation and a noise in, a chunk of actions out, and its score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from pytest_frt.sdk import PhaseSpec, Sample

from . import causal_lm

NOISE: Final = "noise"
TOKENS: Final = "observation.language.tokens"
MASK: Final = "observation.language.attention_mask"
STATE: Final = "observation.state"
KEPT: Final = 4  # an instruction fills at least one part in so many of its window, the rest is padding


@dataclass(frozen=True, slots=True)
class Layout:
    """What the observations of one policy look like.

    Attributes:
        cameras: Key in a batch to the shape ``[channels, height, width]`` of its images.
        tokens: Length of an instruction, padding included.
        vocabulary: Ids are drawn below this.
        state: Numbers of a robot state.
        noise: Shape ``[steps, numbers]`` of a chunk of actions as the policy draws it.
    """

    cameras: Mapping[str, tuple[int, ...]]
    tokens: int
    vocabulary: int
    state: int
    noise: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick that can be repeated.

    Attributes:
        batch: The observation, as the policy takes it.
        noise: ``[1, steps, numbers]`` float32: what the actions are denoised from.
        vocabulary: Ids of the instruction lie below this.
    """

    batch: Mapping[str, Tensor]
    noise: Tensor
    vocabulary: int


def observations(layout: Layout, seed: int, device: str) -> Iterator[dict[str, Tensor]]:
    """Yield endless observations of uniform pixels, ids and states, each with its noise.

    Args:
        layout: Shapes and ranges.
        seed: Fixes the sequence.
        device: torch device string.

    Yields:
        Images float32 ``[1, channels, height, width]`` within 0 and 1; tokens int64 and mask bool ``[1, tokens]``;
        state float32 ``[1, state]`` within -1 and 1; noise float32 ``[1, steps, numbers]``.
    """
    generator = torch.Generator().manual_seed(seed)
    low = layout.tokens // KEPT
    while True:
        length = int(torch.randint(low, layout.tokens + 1, (1,), generator=generator))
        drawn = {key: torch.rand((1, *shape), generator=generator) for key, shape in layout.cameras.items()}
        drawn[TOKENS] = torch.randint(layout.vocabulary, (1, layout.tokens), generator=generator)
        drawn[MASK] = torch.arange(layout.tokens)[None] < length
        drawn[STATE] = torch.rand((1, layout.state), generator=generator).mul_(2).sub_(1)
        drawn[NOISE] = torch.randn((1, *layout.noise), generator=generator)
        yield {name: tensor.to(device) for name, tensor in drawn.items()}


def prepare(model: nn.Module, samples: list[Sample], vocabulary: int) -> Tick:
    """Lay out one tick over the first sample.

    Args:
        model: The policy.
        samples: As `observations` yields them.
        vocabulary: Ids of an instruction lie below this.
    """
    device = next(model.parameters()).device
    batch = {name: tensor.to(device) for name, tensor in samples[0].items()}
    noise = batch.pop(NOISE)
    return Tick(batch, noise, vocabulary)


def fresh(state: Tick, seed: int) -> Tick:
    """Return the tick with other pixels, ids, robot state and noise; the length of the instruction stays."""
    generator = torch.Generator().manual_seed(seed)

    def another(name: str, old: Tensor) -> Tensor:
        if name == MASK:
            return old
        if name == TOKENS:
            return torch.randint(state.vocabulary, old.shape, generator=generator).to(old.device)
        drawn = torch.rand(old.shape, generator=generator)
        return (drawn * 2 - 1 if name == STATE else drawn).to(old)

    batch = {name: another(name, old) for name, old in state.batch.items()}
    noise = torch.randn(state.noise.shape, generator=generator).to(state.noise)
    return Tick(batch, noise, state.vocabulary)


@torch.no_grad()
def run(model: nn.Module, state: Tick) -> Tensor:
    """Run one tick through the policy's own call and return the actions ``[steps, numbers]``."""
    policy: Any = model
    # A copy: a policy may put queues and defaults into the batch it is given.
    actions: Tensor = policy.predict_action_chunk(dict(state.batch), noise=state.noise)
    return actions[0]


def score(model: nn.Module, samples: list[Sample], phase: PhaseSpec, vocabulary: int) -> list[Tensor]:
    """Return how far each sample's actions are from its noise, float32 ``[P, numbers]``.

    Actions begin as the noise and move by what the policy computes: compared as they are, the noise in them would hide
    most of a fault.
    """
    states = [prepare(model, [sample], vocabulary) for sample in samples]
    return [moved(run(model, state), state.noise, phase) for state in states]


def moved(actions: Tensor, noise: Tensor, phase: PhaseSpec) -> Tensor:
    """Return how far actions are from their noise at the scored steps, float32 ``[P, numbers]``.

    Args:
        actions: ``[steps, numbers]``.
        noise: ``[1, steps, numbers]``, as wide as the widest robot's actions.
        phase: Says how many steps are scored.
    """
    way = actions.float() - noise[0, :, : actions.shape[1]].float()
    return way[causal_lm.scored_positions(way[None, :, 0], phase.score_positions)].cpu()


def shorter(sample: Sample) -> Sample:
    """Return an observation with half the room for its instruction: the prefix has fewer rows, the actions as many."""
    half = sample[TOKENS].shape[1] // 2
    return {name: tensor[:, :half] if name in {TOKENS, MASK} else tensor for name, tensor in sample.items()}
