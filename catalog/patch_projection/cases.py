"""Discriminating inputs of ``patch_projection``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from pytest_frt.catalog._shared.near import NearMiss  # type: ignore[import-not-found]
from pytest_frt.catalog._shared.rows import MOST_ROWS, ODD_ROWS, Case, row_cases  # type: ignore[import-not-found]
from torch import Tensor

CHANNELS, FRAMES = 3, 2
"""Of a clip's patch. A patch that cannot have them is taken for two halves."""


def cases(
    dims: Mapping[str, int],
    rows: tuple[int, int],
    variant: Mapping[str, str],  # noqa: ARG001 (every variant reads the same inputs)
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    most_rows: int = MOST_ROWS,
) -> Iterator[Case]:
    """Yield named inputs ``x[..., K]``: see ``row_cases``; patches of pixels, blank ones, and of one frame alone.

    Args:
        dims: Symbol to size; ``K`` is used.
        rows: Inclusive row band of the implementation.
        variant: Axis to value of the seat.
        seed: The same seed gives the same bits.
        dtype: Boundary dtype.
        most_rows: Largest row count drawn.
    """
    width = dims["K"]
    yield from row_cases(width, rows, seed=seed, dtype=dtype, most_rows=most_rows)
    m = min(max(rows[0], ODD_ROWS), rows[1], most_rows)
    pixels = torch.rand(m, width, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    yield Case("pixels", {"x": pixels.to(dtype)})
    yield Case("blank", {"x": torch.ones_like(pixels).to(dtype)})
    later = torch.arange(width) * FRAMES * _channels(width) // width % FRAMES == 1
    yield Case("first_frame_alone", {"x": pixels.masked_fill(later, 0.0).to(dtype)})
    yield Case("last_frame_alone", {"x": pixels.masked_fill(~later, 0.0).to(dtype)})


def near_misses(variant: Mapping[str, str]) -> Iterator[NearMiss]:
    """Yield what a right-looking implementation may compute instead: the kernel in another order, or no bias.

    Args:
        variant: Axis to value of the seat.
    """
    yield NearMiss("frames_exchanged", slots={"w": _frames_exchanged})
    yield NearMiss("kernel_mirrored", slots={"w": _mirrored})
    if variant["bias"] == "add":
        yield NearMiss("bias_left_out", slots={"b": torch.zeros_like})


def _channels(width: int) -> int:
    return CHANNELS if width % (CHANNELS * FRAMES) == 0 else 1


def _frames_exchanged(w: Tensor) -> Tensor:
    """Return ``w[N, K]`` with the frames of every channel exchanged, as code does that has time run backwards."""
    channels = _channels(w.shape[1])
    if channels == 1:
        return w.roll(w.shape[1] // FRAMES, 1)
    frames: Tensor = w.unflatten(1, (channels, FRAMES, -1))
    return frames.flip(2).flatten(1)


def _mirrored(w: Tensor) -> Tensor:
    """Return ``w[N, K]`` from its last element: a convolution as mathematics has it, which mirrors its kernel."""
    return w.flip(1)
