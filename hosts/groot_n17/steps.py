"""Observations of the policy, laid out as its processor leaves them, and one tick with a noise that is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import torch
from torch import Tensor, nn

from pytest_frt.sdk import FrtError, Sample

from .._shared.library import replaced
from .._shared.ticks import NOISE, Tick

HEAD: Final = 4  # text tokens before the first image
EMBODIMENT: Final = 1  # which of the robots a policy knows is driven
PIXELS, IDS, STATE, GRIDS = "pixel_values", "input_ids", "state", "image_grid_thw"


@dataclass(frozen=True, slots=True)
class Layout:
    """What observations of one size look like.

    Attributes:
        images: How many.
        grid: Patches per side of an image.
        merge: Patches per side that become one token.
        frames: Frames a patch spans; an image is one frame repeated.
        patch: Pixels per side of a patch.
        tokens: Length of an observation, images included.
        markers: Ids that open an image, stand for one merged patch, and close it.
        text: Text ids are drawn below this; the markers lie above.
        state: Numbers of a robot state.
        noise: Shape ``[steps, numbers]`` of a chunk of actions.
    """

    images: int
    grid: int
    merge: int
    frames: int
    patch: int
    tokens: int
    markers: tuple[int, int, int]
    text: int
    state: int
    noise: tuple[int, int]


def layout_of(settings: Any, backbone: Any, *, images: int, tokens: int, grid: int) -> Layout:  # noqa: ANN401
    """Return the layout that two configurations ask for.

    Args:
        settings: Configuration of the model.
        backbone: Configuration of its vision and language model.
        images: Of an observation.
        tokens: Length of an observation, images included.
        grid: Patches per side of an image.
    """
    vision = backbone.vision_config
    markers = (backbone.vision_start_token_id, backbone.image_token_id, backbone.vision_end_token_id)
    return Layout(
        images=images,
        grid=grid,
        merge=vision.spatial_merge_size,
        frames=vision.temporal_patch_size,
        patch=vision.patch_size,
        tokens=tokens,
        markers=markers,
        text=min(*markers, backbone.video_token_id),
        state=settings.max_state_dim,
        noise=(settings.action_horizon, settings.max_action_dim),
    )


def observations(layout: Layout, seed: int, device: str) -> Iterator[dict[str, Tensor]]:
    """Yield endless observations of uniform pixels, ids and states, each with its noise.

    Args:
        layout: Shapes and ranges.
        seed: Fixes the sequence.
        device: torch device string.

    Yields:
        ``input_ids`` and ``attention_mask`` int64 ``[1, tokens]``; ``pixel_values`` float32 ``[1, patches, values of a
        patch]`` within -1 and 1; ``image_grid_thw`` int64 ``[1, images, 3]``; ``state`` float32 ``[1, 1, state]``
        within -1 and 1; ``embodiment_id`` int64 ``[1]``; ``noise`` float32 ``[1, steps, numbers]``.
    """
    generator = torch.Generator().manual_seed(seed)
    while True:
        drawn = _drawn(layout, generator)
        drawn |= {
            IDS: _marked(layout, drawn[IDS]),
            "attention_mask": torch.ones(1, layout.tokens, dtype=torch.int64),
            GRIDS: torch.tensor([[[1, layout.grid, layout.grid]] * layout.images]),
            "embodiment_id": torch.tensor([EMBODIMENT]),
        }
        yield {name: tensor.to(device) for name, tensor in drawn.items()}


def prepare(model: nn.Module, samples: list[Sample]) -> Tick:
    """Lay out one tick over the first sample: patches and grids of its images one after another."""
    first = next(model.parameters())
    batch = {name: tensor.to(first.device) for name, tensor in samples[0].items()}
    noise = batch.pop(NOISE).to(first.dtype)
    batch |= {name: batch[name].flatten(0, 1) for name in (PIXELS, GRIDS)}
    return Tick(batch, noise)


def fresh(state: Tick, layout: Layout, seed: int) -> Tick:
    """Return the tick with other pixels, text, robot state and noise; images stay where they are."""
    drawn = _drawn(layout, torch.Generator().manual_seed(seed))
    drawn |= {IDS: _marked(layout, drawn[IDS]), PIXELS: drawn[PIXELS][0]}
    noise = drawn.pop(NOISE).to(state.noise)
    return Tick({**state.batch, **{name: one.to(state.batch[name]) for name, one in drawn.items()}}, noise)


@torch.no_grad()
def run(model: nn.Module, state: Tick, library: ModuleType) -> Tensor:
    """Run one tick through the policy's own call and return the actions ``[steps, numbers]``.

    Args:
        model: The policy.
        state: The tick.
        library: ``groot_n1_7`` of the library, where the noise is drawn.
    """
    policy: Any = model
    with drawing(library, state.noise):
        actions: Tensor = policy.predict_action_chunk(dict(state.batch))
    return actions[0]


class _Given:
    """The module torch, except that ``randn`` gives one tensor, once."""

    def __init__(self, noise: Tensor) -> None:
        self._noise: Tensor | None = noise

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever torch has)
        return getattr(torch, name)

    def randn(self, size: tuple[int, ...], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return the noise.

        Raises:
            FrtError: it was taken before, or another shape or dtype is asked for.
        """
        noise, self._noise = self._noise, None
        if noise is None or (tuple(noise.shape), noise.dtype) != (tuple(size), dtype):
            given = "none is left" if noise is None else f"{tuple(noise.shape)} of {noise.dtype} is given"
            raise FrtError(
                f"the policy draws noise of shape {tuple(size)} and {dtype}; {given}",
                hint="one tick draws one chunk of noise, which is part of the sample",
            )
        return noise.to(device)


def drawing(library: ModuleType, noise: Tensor) -> AbstractContextManager[None]:
    """Let a module that draws its own noise have a given one inside the block.

    Args:
        library: Module that calls ``torch.randn`` once.
        noise: What it gets.
    """
    return replaced(library, torch=_Given(noise))


def _drawn(layout: Layout, generator: torch.Generator) -> dict[str, Tensor]:
    """Draw what is random in an observation; a patch repeats its frame."""
    values = layout.patch * layout.patch
    shape = (1, layout.images * layout.grid**2, 3, 1, values)
    frames = torch.rand(shape, generator=generator).mul_(2).sub_(1).expand(-1, -1, -1, layout.frames, -1)
    return {
        PIXELS: frames.flatten(2),
        IDS: torch.randint(layout.text, (1, layout.tokens), generator=generator),
        STATE: torch.rand((1, 1, layout.state), generator=generator).mul_(2).sub_(1),
        NOISE: torch.randn((1, *layout.noise), generator=generator),
    }


def _marked(layout: Layout, ids: Tensor) -> Tensor:
    """Return text ids with the images between their markers, after a few tokens of text."""
    opening, image, closing = layout.markers
    one = torch.tensor([opening, *[image] * (layout.grid // layout.merge) ** 2, closing])
    marked = ids.clone()
    marked[0, HEAD : HEAD + layout.images * len(one)] = one.repeat(layout.images)
    return marked
