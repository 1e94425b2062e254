"""One tick of a flow policy: an observation and a noise in, a chunk of actions out, and its score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from pytest_frt.sdk import PhaseSpec, Sample

from . import causal_lm
from .spec import flat, phase_named

NOISE: Final = "noise"
TOKENS: Final = "observation.language.tokens"
MASK: Final = "observation.language.attention_mask"
STATE: Final = "observation.state"
KEPT: Final = 4  # an instruction fills at least one part in so many of its window, the rest is padding
SIGLIP: Final = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "patch_size",
    "image_size",
    "hidden_act",
    "layer_norm_eps",
)


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
        noise: ``[1, steps, numbers]``: what the actions are denoised from.
    """

    batch: Mapping[str, Tensor]
    noise: Tensor


def layout_of(config: Any, vocabulary: int) -> Layout:  # noqa: ANN401 (an unstubbed library)
    """Return the layout that the configuration of a policy asks for.

    Args:
        config: The configuration.
        vocabulary: Ids of an instruction are drawn below this.
    """
    return Layout(
        cameras={key: tuple(feature.shape) for key, feature in config.image_features.items()},
        tokens=config.tokenizer_max_length,
        vocabulary=vocabulary,
        state=config.max_state_dim,
        noise=(config.chunk_size, config.max_action_dim),
    )


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
    shapes = {**layout.cameras, TOKENS: (layout.tokens,), STATE: (layout.state,), NOISE: layout.noise}
    while True:
        length = int(torch.randint(low, layout.tokens + 1, (1,), generator=generator))
        drawn = {name: _drawn(name, (1, *shape), layout.vocabulary, generator) for name, shape in shapes.items()}
        drawn[MASK] = torch.arange(layout.tokens)[None] < length
        yield {name: tensor.to(device) for name, tensor in drawn.items()}


def prepare(model: nn.Module, samples: list[Sample]) -> Tick:
    """Lay out one tick over the first sample.

    Args:
        model: The policy.
        samples: As `observations` yields them.
    """
    device = next(model.parameters()).device
    batch = {name: tensor.to(device) for name, tensor in samples[0].items()}
    noise = batch.pop(NOISE)
    return Tick(batch, noise)


def fresh(state: Tick, vocabulary: int, seed: int) -> Tick:
    """Return the tick with other pixels, ids, robot state and noise; the length of the instruction stays.

    Args:
        state: The tick.
        vocabulary: Ids of the instruction are drawn below this.
        seed: Fixes what is drawn.
    """
    generator = torch.Generator().manual_seed(seed)

    def another(name: str, old: Tensor) -> Tensor:
        return old if name == MASK else _drawn(name, tuple(old.shape), vocabulary, generator).to(old)

    batch = {name: another(name, old) for name, old in state.batch.items()}
    return Tick(batch, another(NOISE, state.noise))


def _drawn(name: str, shape: tuple[int, ...], vocabulary: int, generator: torch.Generator) -> Tensor:
    if name == TOKENS:
        return torch.randint(vocabulary, shape, generator=generator)
    if name == NOISE:
        return torch.randn(shape, generator=generator)
    drawn = torch.rand(shape, generator=generator)
    return drawn.mul_(2).sub_(1) if name == STATE else drawn


@torch.no_grad()
def run(model: nn.Module, state: Tick) -> Tensor:
    """Run one tick through the policy's own call and return the actions ``[steps, numbers]``."""
    policy: Any = model
    # A copy: a policy may put queues and defaults into the batch it is given.
    actions: Tensor = policy.predict_action_chunk(dict(state.batch), noise=state.noise)
    return actions[0]


def score(model: nn.Module, samples: list[Sample], phase: PhaseSpec) -> list[Tensor]:
    """Return how far each sample's actions are from its noise, float32 ``[P, numbers]``.

    Actions begin as the noise and move by what the policy computes: compared as they are, the noise in them would hide
    most of a fault.
    """
    states = [prepare(model, [sample]) for sample in samples]
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


@dataclass(frozen=True, slots=True)
class Policy:
    """What the program of a host defines beside `run` where the host is a policy that reads `observations`.

    Attributes:
        phases: Those of its host.yaml, by name.
        settings: Names of its own settings that decide what its seats compute.
        vision: Path of its tower, a SigLIP one.
        prefix: Path of the decoder that reads the instruction.
        expert: Path of the decoder that denoises the actions.
    """

    phases: Mapping[str, PhaseSpec]
    settings: tuple[str, ...]
    vision: str
    prefix: str
    expert: str

    def prepare(self, model: nn.Module, samples: list[Sample], phase: str) -> Tick:
        """Lay out one tick over the first sample."""
        phase_named(self.phases, phase)
        return prepare(model, samples)

    def fresh(self, model: nn.Module, state: Tick, seed: int) -> Tick:
        """Return the tick with other pixels, ids, robot state and noise."""
        return fresh(state, _config(model, self.prefix).vocab_size, seed)

    def score(self, model: nn.Module, samples: list[Sample], phase: str) -> list[Tensor]:
        """Return how far the actions are from their noise, float32 ``[P, numbers]`` per sample."""
        return score(model, samples, phase_named(self.phases, phase))

    def shorter(self, sample: Sample, phase: str) -> Sample:
        """Return an observation with less room for its instruction."""
        phase_named(self.phases, phase)
        return shorter(sample)

    def projection(self, model: nn.Module) -> dict[str, str | int | float | bool | None]:
        """Return the settings that decide what the seats compute: the policy's, and those of each part by its name."""
        vision = _config(model, self.vision)
        plain = {name: getattr(model.config, name) for name in self.settings}
        plain |= {f"vision.{name}": getattr(vision, name) for name in SIGLIP}
        for part, path in (("prefix", self.prefix), ("expert", self.expert)):
            plain |= {f"{part}.{name}": value for name, value in causal_lm.projection(_config(model, path)).items()}
        return flat(plain)


def _config(model: nn.Module, path: str) -> Any:  # noqa: ANN401 (an unstubbed library)
    return model.get_submodule(path).config
