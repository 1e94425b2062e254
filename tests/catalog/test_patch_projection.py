"""``patch_projection``: the reference against convolutions of the images themselves, its cases, and wrong patches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.cases.conftest import Place, cases_module, cases_of, place

WIDTH = 54
CHANNELS, FRAMES, SIDE = 3, 2, 3
BAND = (1, 8)


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.parametrize(
    ("clip", "patch"),
    [((3, 4, 6, 10), (2, 3, 5)), ((1, 3, 7, 7), (3, 7, 7)), ((3, 2, 28, 14), (2, 14, 14))],
    ids=["odd_sizes", "one_patch", "published_sizes"],
)
def test_reference_is_a_convolution_of_the_clip(clip: tuple[int, int, int, int], patch: tuple[int, int, int]) -> None:
    video, kernel, bias = drawn(*clip), drawn(5, clip[0], *patch), drawn(5)
    wanted = F.conv3d(video[None], kernel, bias, stride=patch)[0].flatten(1).T  # [patches, 5]
    grid = video
    for axis, size in enumerate(patch, start=1):
        grid = grid.unfold(axis, size, size)  # [channels, frames, rows, columns, *patch]
    rows = grid.permute(1, 2, 3, 0, 4, 5, 6).reshape(-1, kernel[0].numel())
    reference = place("patch_projection").reference
    torch.testing.assert_close(reference(x=rows, w=kernel.flatten(1), b=bias, bias="add"), wanted)


def test_reference_is_a_convolution_of_the_image() -> None:
    image, kernel = drawn(3, 10, 15), drawn(4, 3, 5, 5)
    wanted = F.conv2d(image[None], kernel, stride=5)[0].flatten(1).T
    rows = F.unfold(image[None], 5, stride=5)[0].T
    torch.testing.assert_close(place("patch_projection").reference(x=rows, w=kernel.flatten(1)), wanted)


def test_cases_are_what_their_names_say() -> None:
    found = cases_of(place("patch_projection"), BAND)
    first = (1, FRAMES * SIDE * SIDE // 2)
    for name, lit in (("first_frame_alone", 0), ("last_frame_alone", 1)):
        patches = found[name].unflatten(1, (CHANNELS, FRAMES, *first))
        assert patches[:, :, lit].all()
        assert not patches[:, :, 1 - lit].any()
    assert found["pixels"].abs().max() <= 1
    assert (found["blank"] == 1).all()


@pytest.mark.parametrize("width", [2, 25, 27, 49, 588, 1176])
def test_cases_and_near_misses_take_any_width(width: int) -> None:
    module = cases_module(place("patch_projection"))
    found = {one.name: one.inputs["x"] for one in module.cases({"K": width}, BAND, {})}
    assert bool((found["first_frame_alone"] + found["last_frame_alone"]).all())
    weight = torch.arange(2.0 * width).view(2, width)
    for miss in module.near_misses({"bias": "none"}):
        taken = miss.slots["w"](weight)
        assert taken.shape == weight.shape
        assert not torch.equal(taken, weight)
        assert torch.equal(taken.sort().values, weight)


Wrong = Callable[[Place, Tensor], Tensor]


def with_kernel(turn: Callable[[Tensor], Tensor]) -> Wrong:
    """Return the projection by a kernel ``[N, 3, 2, 3, 3]`` that was turned before it was flattened."""

    def wrong(at: Place, x: Tensor) -> Tensor:
        kernel = at.weights["w"].view(-1, CHANNELS, FRAMES, SIDE, SIDE)
        return F.linear(x, turn(kernel).reshape(-1, WIDTH), at.weights["b"])

    return wrong


MUTANTS: dict[str, Wrong] = {
    "frames_exchanged": with_kernel(lambda kernel: kernel.flip(2)),
    "frames_outermost": with_kernel(lambda kernel: kernel.transpose(1, 2)),
    "channels_last": with_kernel(lambda kernel: kernel.permute(0, 2, 3, 4, 1)),
    "channels_exchanged": with_kernel(lambda kernel: kernel.flip(1)),
    "rows_and_columns_exchanged": with_kernel(lambda kernel: kernel.transpose(3, 4)),
    "one_frame_for_both": with_kernel(lambda kernel: kernel[:, :, :1].expand_as(kernel)),
    "mirrored": with_kernel(lambda kernel: kernel.flip(1, 2, 3, 4)),
    "bias_left_out": lambda at, x: F.linear(x, at.weights["w"]),
    "bias_twice": lambda at, x: F.linear(x, at.weights["w"], 2 * at.weights["b"]),
    "pixels_in_bytes": lambda at, x: F.linear((x * 127).round() / 127, at.weights["w"], at.weights["b"]),
}


@pytest.mark.parametrize("scheme", ["none", "w16a32"])
@pytest.mark.parametrize("wrong", MUTANTS.values(), ids=MUTANTS)
def test_wrong_patches_are_refused_at_the_shipped_limits(wrong: Wrong, scheme: str) -> None:
    at = place("patch_projection", scheme=scheme)
    assert at.said(lambda x: wrong(at, x)) in {"reference", "zeros", "gain"}


@pytest.mark.parametrize("bias", ["none", "add"])
def test_a_convolution_per_patch_holds(bias: str) -> None:
    at = place("patch_projection", variant={"bias": bias})
    kernel = at.weights["w"].view(-1, CHANNELS, FRAMES, SIDE, SIDE)

    def convolved(x: Tensor) -> Tensor:
        patches = x.reshape(-1, CHANNELS, FRAMES, SIDE, SIDE)
        return F.conv3d(patches, kernel, at.weights.get("b")).reshape(*x.shape[:-1], kernel.shape[0])

    assert at.said(convolved) == ""
