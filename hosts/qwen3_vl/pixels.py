"""Windows of one image between random ids, laid out as the image processor of the model lays them out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

HEAD: Final = 8  # text tokens before the image


@dataclass(frozen=True, slots=True)
class Layout:
    """What the samples of one configuration look like.

    Attributes:
        length: Tokens of one window.
        grid: Patches of the image, ``(height, width)``, multiples of ``merge``.
        patch: Pixels per side of a patch.
        frames: Frames a patch spans; an image is one frame repeated.
        merge: Patches per side that become one token.
        channels: Colours.
        text: Text ids are drawn below this; the markers lie above.
        markers: Ids that open the image, stand for one merged patch, and close it.
    """

    length: int
    grid: tuple[int, int]
    patch: int
    frames: int
    merge: int
    channels: int
    text: int
    markers: tuple[int, int, int]


def layout_of(config: Any, length: int, grid: tuple[int, int]) -> Layout:  # noqa: ANN401 (a class of an unstubbed library)
    """Return the layout that a model configuration asks for.

    Args:
        config: A configuration of Qwen3-VL.
        length: Tokens of one window.
        grid: Patches of the image, ``(height, width)``.
    """
    vision = config.vision_config
    markers = (config.vision_start_token_id, config.image_token_id, config.vision_end_token_id)
    return Layout(
        length=length,
        grid=grid,
        patch=vision.patch_size,
        frames=vision.temporal_patch_size,
        merge=vision.spatial_merge_size,
        channels=vision.in_channels,
        text=min(*markers, config.video_token_id),
        markers=markers,
    )


def image_windows(layout: Layout, seed: int, device: str) -> Iterator[dict[str, Tensor]]:
    """Yield endless windows of uniformly drawn ids around an image of uniformly drawn pixels.

    Args:
        layout: Shape of a window.
        seed: Fixes the sequence.
        device: torch device string.

    Yields:
        ``input_ids`` int64 ``[1, length]``; ``mm_token_type_ids`` like it, 1 where an id stands for a merged patch;
        ``pixel_values`` float32 ``[1, patches, values of a patch]``; ``image_grid_thw`` int64 ``[1, 3]``.
    """
    generator = torch.Generator().manual_seed(seed)
    height, width = layout.grid
    opening, image, closing = layout.markers
    count = height * width // layout.merge**2
    marked = torch.tensor([opening, *[image] * count, closing])
    while True:
        ids = torch.randint(layout.text, (layout.length,), generator=generator)
        ids[HEAD : HEAD + len(marked)] = marked
        pixels = patches(_image(layout, generator), layout)
        grid = torch.tensor([[1, height, width]])
        yield {
            "input_ids": ids[None].to(device),
            "mm_token_type_ids": (ids == image).long()[None].to(device),
            "pixel_values": pixels[None].to(device),
            "image_grid_thw": grid.to(device),
        }


def patches(image: Tensor, layout: Layout) -> Tensor:
    """Cut an image into patches, those that merge into one token beside one another.

    Args:
        image: ``[channels, height, width]`` in pixels.
        layout: Shape of a window.

    Returns:
        ``[patches, channels * frames * patch * patch]``.
    """
    (high, wide), merge, size = layout.grid, layout.merge, layout.patch
    cut = image.reshape(layout.channels, high // merge, merge, size, wide // merge, merge, size)
    block = cut.permute(1, 4, 2, 5, 0, 3, 6)  # row and column of the token, then of the patch in it, then the patch
    flat = block.reshape(high * wide, layout.channels, 1, size, size)
    return flat.expand(-1, -1, layout.frames, -1, -1).reshape(high * wide, -1)


def repainted(pixels: Tensor, frames: int, channels: int, seed: int) -> Tensor:
    """Return patches of another image, of the same shape.

    Args:
        pixels: ``[patches, channels * frames * patch * patch]``.
        frames: Frames a patch spans; they stay equal.
        channels: Colours.
        seed: Fixes what is drawn.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (len(pixels), channels, 1, pixels.shape[1] // (frames * channels))
    drawn = torch.rand(shape, generator=generator).mul_(2).sub_(1)
    return drawn.expand(-1, -1, frames, -1).reshape(pixels.shape).to(pixels)


def _image(layout: Layout, generator: torch.Generator) -> Tensor:
    """Draw pixels within -1 and 1, which is what normalised ones come to."""
    height, width = (side * layout.patch for side in layout.grid)
    return torch.rand((layout.channels, height, width), generator=generator).mul_(2).sub_(1)
