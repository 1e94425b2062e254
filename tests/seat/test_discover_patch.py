"""Seats of ``patch_projection``: convolutions fed flattened patches and linears over them; others with their reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

from pytest_frt.contracts.seat import NotReplaced, SeatFacts, SlotRef
from pytest_frt.seat.discover import discover
from pytest_frt.seat.guard import Form, Guard
from pytest_frt.seat.ledger import Admission, Counts
from pytest_frt.seat.weights import slot_tensors
from pytest_frt.spec.load import load_structure

CATALOG = Path(__file__).parents[2] / "catalog"
STRUCTURES = [load_structure(path.parent) for path in sorted(CATALOG.glob("*/structure.yaml"))]
SIZE = (2, 3, 3)
K, N = 3 * 2 * 3 * 3, 10


def found(model: nn.Module) -> tuple[dict[str, SeatFacts], dict[str, NotReplaced]]:
    """Return seats by path, and what is not replaced by path and kind."""
    seats, rest = discover(model.eval(), STRUCTURES)
    return {seat.id: seat for seat in seats}, {f"{row.path}:{row.kind}": row for row in rest}


class Patches(nn.Module):
    """Views its rows as clips and projects each with one convolution."""

    def __init__(self, *, bias: bool = True, **options: object) -> None:
        super().__init__()
        self.proj = nn.Conv3d(3, N, SIZE, **{"stride": SIZE, "bias": bias, **options})  # type: ignore[arg-type]

    def viewed(self, x: Tensor) -> Tensor:
        return x.view(-1, 3, *SIZE)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(self.viewed(x)).flatten(1)


class FramesOutermost(Patches):
    def viewed(self, x: Tensor) -> Tensor:
        return x.view(-1, 2, 3, 3, 3).transpose(1, 2)


class KeepsAxes(Patches):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).view(*x.shape[:-1], N)


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Conv2d(3, N, 4, stride=4)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.projection(pixels).flatten(2).transpose(1, 2)


class Scaled(nn.Conv3d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 2


def scaled() -> Patches:
    module = Patches()
    module.proj = Scaled(3, N, SIZE, stride=SIZE)
    return module


def parametrised() -> Patches:
    module = Patches()
    nn.utils.parametrizations.weight_norm(module.proj)
    return module


def grouped() -> Patches:
    module = Patches()
    module.proj = nn.Conv3d(3, 9, SIZE, stride=SIZE, groups=3)
    return module


def positioned() -> Patches:
    module = Patches()
    module.position = nn.Embedding(4, N)
    return module


@pytest.mark.parametrize(("bias", "variant"), [(True, "add"), (False, "none")], ids=["biased", "plain"])
def test_convolution_over_flattened_patches_is_found(bias: bool, variant: str) -> None:  # noqa: FBT001 (a case)
    model = nn.ModuleDict({"patch_embed": Patches(bias=bias)})
    seats, rest = found(model)
    seat = seats["patch_embed"]
    assert (seat.structure, seat.variant, seat.dims) == ("patch_projection", {"bias": variant}, {"K": K, "N": N})
    assert (seat.slots["w"], seat.points["x"].module) == (SlotRef("patch_embed.proj.weight"), "patch_embed")
    assert rest == {}


def test_kernel_of_the_seat_is_a_matrix_on_the_same_memory() -> None:
    model = nn.ModuleDict({"patch_embed": Patches()})
    seats, _ = found(model)
    kernel = model["patch_embed"].proj.weight
    slots = slot_tensors(model, seats["patch_embed"])
    assert torch.equal(slots["w"], kernel.detach().flatten(1))
    assert slots["w"].data_ptr() == kernel.data_ptr()
    assert slots["b"].shape == (N,)


def test_module_that_keeps_the_axes_before_the_last_is_found() -> None:
    assert set(found(nn.ModuleDict({"patch_embed": KeepsAxes()}))[0]) == {"patch_embed"}


def test_padding_by_its_other_name_is_none() -> None:
    assert set(found(nn.ModuleDict({"patch_embed": Patches(padding="valid")}))[0]) == {"patch_embed"}


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "padding": (lambda: Patches(padding=(0, 1, 1)), "proj: its padding is (0, 1, 1)"),
    "padding_to_the_same_size": (lambda: Patches(stride=1, padding="same"), "proj: its stride (1, 1, 1) is not"),
    "overlapping": (lambda: Patches(stride=(2, 2, 2)), "proj: its stride (2, 2, 2) is not its kernel_size (2, 3, 3)"),
    "gaps": (lambda: Patches(stride=(2, 4, 4)), "proj: its stride (2, 4, 4) is not its kernel_size (2, 3, 3)"),
    "dilation": (lambda: Patches(dilation=(1, 2, 2)), "proj: its dilation is (1, 2, 2)"),
    "forward_of_its_own": (scaled, "proj: its forward is Scaled's own"),
    "positions_inside": (positioned, "patch_embed.position.weight is no slot"),
    "other_order": (FramesOutermost, "does not compute patch_projection"),
    "images": (Images, "fails on a probe of shape (1, 3, 48)"),
    "parametrised": (parametrised, "proj: its weight is parametrised"),
    "groups": (grouped, "proj: its groups are 3"),
}


@pytest.mark.parametrize(("build", "word"), REFUSED.values(), ids=REFUSED)
def test_look_alike_is_refused_by_name_of_the_fact(build: Callable[[], nn.Module], word: str) -> None:
    seats, rest = found(nn.ModuleDict({"patch_embed": build()}))
    assert "patch_embed" not in seats
    assert word in rest["patch_embed:patch_projection"].reason


class Embeddings(nn.Module):
    def __init__(self, *, bias: bool) -> None:
        super().__init__()
        self.patch_embedding = nn.Linear(K, N, bias=bias)
        self.position_embedding = nn.Embedding(4, N)

    def forward(self, x: Tensor) -> Tensor:
        return self.patch_embedding(x) + self.position_embedding.weight[: x.shape[-2]]


@pytest.mark.parametrize(("bias", "variant"), [(True, "add"), (False, "none")], ids=["biased", "plain"])
def test_linear_over_patches_is_found_once(bias: bool, variant: str) -> None:  # noqa: FBT001 (a case)
    seats, rest = found(nn.ModuleDict({"embeddings": Embeddings(bias=bias)}))
    (seat,) = seats.values()
    assert (seat.id, seat.structure, seat.variant) == (
        "embeddings.patch_embedding",
        "patch_projection",
        {"bias": variant},
    )
    assert rest == {}


def test_linear_of_an_attention_is_no_patch_projection() -> None:
    attention = nn.Module()
    attention.qkv, attention.proj = nn.Linear(8, 24), nn.Linear(8, 8)
    seats, rest = found(nn.ModuleDict({"attn": attention}))
    assert {seat.structure for seat in seats.values()} == {"linear_proj"}
    assert rest == {}


VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "patch_size": 4}


def qwen3_vl() -> nn.Module:
    from transformers.models.qwen3_vl import configuration_qwen3_vl as sizes
    from transformers.models.qwen3_vl import modeling_qwen3_vl as models

    size = {"depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 4, "out_hidden_size": 32}
    config = sizes.Qwen3VLVisionConfig(**size, patch_size=4, num_position_embeddings=64, deepstack_visual_indexes=[0])
    return models.Qwen3VLVisionModel(config)


def test_library_that_feeds_flattened_patches_has_a_seat() -> None:
    seats, _ = found(qwen3_vl())
    seat = seats["patch_embed"]
    assert (seat.structure, seat.dims, seat.variant) == ("patch_projection", {"K": 96, "N": 32}, {"bias": "add"})


def test_library_that_projects_patches_by_a_linear_has_a_seat() -> None:
    seats, _ = found(hf.Siglip2VisionModel(hf.Siglip2VisionConfig(**VISION, num_patches=16)))
    assert seats["embeddings.patch_embedding"].structure == "patch_projection"


@pytest.mark.parametrize(
    ("build", "path", "word"),
    [
        (lambda: hf.SiglipVisionModel(hf.SiglipVisionConfig(**VISION, image_size=16)), "embeddings", "is no slot of"),
        (lambda: hf.CLIPVisionModel(hf.CLIPVisionConfig(**VISION, image_size=16)), "embeddings", "is no slot of"),
        (lambda: hf.ViTModel(hf.ViTConfig(**VISION, image_size=16)), "embeddings.patch_embeddings", "fails on a probe"),
    ],
    ids=["siglip", "clip", "vit"],
)
def test_library_that_feeds_images_is_refused(build: Callable[[], nn.Module], path: str, word: str) -> None:
    seats, rest = found(build())
    assert "patch_projection" not in {seat.structure for seat in seats.values()}
    assert word in rest[f"{path}:patch_projection"].reason


def test_patches_of_other_axes_run_the_host() -> None:
    device = torch.device("cpu")
    form = Form(torch.float32, 8, device, (1, 8), axes=2)
    guard = Guard(form, Counts("patch", device), strict=False, hosts=(), held=())
    with torch.no_grad():
        assert guard.examine(torch.ones(3, 8)) is Admission.SERVED
        assert guard.examine(torch.ones(1, 3, 8)) is Admission.FORM
