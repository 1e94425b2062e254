"""Impls over published packages hold both oracles on a stand-in that conforms, on one that deviates they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from types import ModuleType

import pytest
import torch
from pytest_frt.impls._shared.hub_fp8 import coded  # type: ignore[import-not-found]
from pytest_frt.impls._shared.hub_parts import dense_rows  # type: ignore[import-not-found]
from torch import Tensor

from pytest_frt.contracts.impl import Scales
from tests.impls.conftest import calibrated, outputs
from tests.standin.conformance import EPILOGUES, FFN, NORM, SWIGLU, WEIGHT_ONLY
from tests.standin.packages import Edits, loaded
from tests.standin.seats import HUB, VARIANTS, HubUnit, hub_unit

Load = Callable[..., ModuleType]
each_impl = pytest.mark.parametrize("name", HUB)


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Return what loads a stand-in, with some of its text changed."""
    kept: dict[str, ModuleType] = {}

    def one(package: str, edits: Edits | None = None) -> ModuleType:
        if edits:
            return loaded(tmp_path_factory.mktemp("deviating"), package, edits)
        if package not in kept:
            kept[package] = loaded(tmp_path_factory.mktemp("standin"), package)
        return kept[package]

    return one


def unit_of(load: Load, name: str, variant: Mapping[str, str] | None = None) -> HubUnit:
    return hub_unit(name, load(HUB[name].impl.kernel), variant)


@each_impl
@torch.no_grad()
def test_impl_holds_both_oracles_on_every_case(load: Load, name: str) -> None:
    unit = unit_of(load, name)
    assert unit.faults(unit.bind(), {"rows": unit.rows(), **unit.cases()}) == {}


def variants() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield impl and variant for every declared combination but the one every other test uses."""
    for name, entry in HUB.items():
        for values in product(*entry.impl.variants.values()):
            variant = dict(zip(entry.impl.variants, values, strict=True))
            if variant != VARIANTS[entry.impl.structure]:
                yield name, variant


@pytest.mark.parametrize(("name", "variant"), list(variants()), ids=str)
@torch.no_grad()
def test_impl_holds_both_oracles_in_every_declared_variant(load: Load, name: str, variant: dict[str, str]) -> None:
    unit = unit_of(load, name, variant)
    assert unit.faults(unit.bind(), {"rows": unit.rows()}) == {}


@torch.no_grad()
def test_block_of_a_release_without_the_second_form_holds_too(load: Load) -> None:
    first = load(FFN, {"def bf16_fp8_gelu_mlp_v2_bf16(": "def absent("})
    unit = hub_unit("vision_ffn/hub_fp8", first)
    assert unit.faults(unit.bind(), {"rows": unit.rows()}) == {}


SMALL = {"qkv_pack/hub_fp8": ("w_k", "b_k"), "decoder_ffn/hub_fp8": ("w_up",)}


@pytest.mark.parametrize(("name", "slots"), SMALL.items())
@torch.no_grad()
def test_slots_of_a_merged_matmul_keep_their_own_scales(load: Load, name: str, slots: tuple[str, ...]) -> None:
    """A slot a thousand times smaller has as many codes as one alone: a joint scale would leave it few."""
    unit = unit_of(load, name)
    for slot in slots:
        unit.seat.weights[slot].mul_(2.0**-10)
    unit = replace(unit, scales=calibrated(unit))
    assert unit.faults(unit.bind(), {"rows": unit.rows()}) == {}


@pytest.mark.parametrize(
    ("largest", "scale"), [(448.0, 1.0), (450.0, 2.0), (224.0, 0.5), (0.0, 1.0), (2.0**-130, 2.0**-126)], ids=str
)
def test_scale_of_codes_is_the_least_power_of_two(largest: float, scale: float) -> None:
    weight = torch.tensor([[largest, -largest / 2]]).bfloat16()
    found = coded(weight)
    assert found.scale == scale
    assert torch.equal(found.codes.float(), (weight.float() / scale).to(torch.float8_e4m3fn).float())


def chunk(swapped: str) -> dict[str, str]:
    return {"gate, up = gate_up.float().chunk(2, -1)": f"{swapped} = gate_up.float().chunk(2, -1)"}


E4M3 = "torch.nan_to_num(x.float() * (1.0 / scale), nan=-E4M3_MAX)"
SUMS = "return (x.float() @ weight.float().t()) * (x_scale * weight_scale)"
GATED, MLP, LINEAR = "decoder_ffn/hub_fp8", "vision_ffn/hub_fp8", "linear_proj/hub_fp8"
PACK, WEIGHTS = "qkv_pack/hub_fp8", "decoder_ffn/hub_w8a16"
NORMED, PATCHES = "norm_fused/hub_bf16", "patch_projection/hub_bf16"
DEVIATIONS: dict[str, tuple[tuple[str, ...], str, Edits]] = {
    "multiplied_by_the_scale": ((GATED,), SWIGLU, {E4M3: E4M3.replace("(1.0 / scale)", "scale")}),
    "multiplied_by_the_scale_in_the_other_package": (
        (MLP, LINEAR, PACK), FFN, {E4M3: E4M3.replace("(1.0 / scale)", "scale")},
    ),
    "scale_of_the_weight_left_out": ((GATED,), SWIGLU, {SUMS: SUMS.replace(" * weight_scale", "")}),
    "scale_of_the_input_left_out": ((LINEAR, PACK), FFN, {SUMS: SUMS.replace("x_scale * ", "")}),
    "gate_and_up_swapped": ((GATED,), SWIGLU, chunk("up, gate")),
    "gate_and_up_swapped_in_int8": ((WEIGHTS,), WEIGHT_ONLY, {
        "gate, up = gu.float().chunk(2, -1)": "up, gate = gu.float().chunk(2, -1)",
    }),
    "other_activation": ((GATED,), SWIGLU, {"common.gelu_tanh(gate) if gelu": "common.silu(gate) if gelu"}),
    "activation_left_out": ((MLP,), FFN, {"common.gelu_tanh(hidden_bf16.float() +": "(hidden_bf16.float() +"}),
    "bias_left_out": ((LINEAR, PACK), FFN, {"    out.copy_(out.float() + bias.float())\n": ""}),
    "last_bias_left_out": ((MLP,), FFN, {" + down_bias.float())": ")"}),
    "bias_of_the_next_channel": ((PATCHES,), EPILOGUES, {"+ bias.float())": "+ bias.float().roll(1))"}),
    "scales_of_the_next_channel": ((WEIGHTS,), WEIGHT_ONLY, {
        "codes.float().t()) * scales": "codes.float().t()) * scales.roll(1)",
    }),
    "codes_of_seven_bits": ((WEIGHTS,), WEIGHT_ONLY, {
        ".round().clamp(-127, 127)": ".div(2).round().mul(2).clamp(-127, 127)",
    }),
    "mean_left_in": ((NORMED,), NORM, {"centred = wide - wide.mean(-1, keepdim=True)": "centred = wide"}),
    "variance_over_one_less": ((NORMED,), NORM, {
        "centred.square().mean(-1, keepdim=True)": "centred.square().sum(-1, keepdim=True) / (x.shape[1] - 1)",
    }),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "package", "edits"),
    [
        pytest.param(name, package, edits, id=f"{fault}-{name}")
        for fault, (names, package, edits) in DEVIATIONS.items()
        for name in names
    ],
)
@torch.no_grad()
def test_deviating_package_is_refused(load: Load, name: str, package: str, edits: Edits) -> None:
    unit = hub_unit(name, load(package, edits))
    assert unit.faults(unit.bind(), {"rows": unit.rows(256)})


@torch.no_grad()
def test_codes_clamped_as_the_other_e4m3_has_them_are_refused_on_rows_larger_than_calibrated(load: Load) -> None:
    unit = hub_unit(GATED, load(SWIGLU, {".clamp(-E4M3_MAX, E4M3_MAX).to(E4M3)": ".clamp(-240, 240).to(E4M3)"}))
    assert unit.faults(unit.bind(), {"outliers": 2 * unit.rows(64)})


@pytest.mark.parametrize("name", [GATED, MLP, LINEAR])
@torch.no_grad()
def test_stale_static_scale_is_refused(load: Load, name: str) -> None:
    unit = unit_of(load, name)
    stale = Scales({name: 1.3 * scale for name, scale in unit.scales.by_point.items()})
    assert unit.faults(unit.bind(scales=stale), {"rows": unit.rows(64)})


@each_impl
@torch.no_grad()
def test_gain_of_one_percent_is_refused(load: Load, name: str) -> None:
    unit = unit_of(load, name)
    part = unit.bind()
    found = unit.faults(lambda x: tuple(1.01 * y.float() for y in outputs(part(x))), {"rows": unit.rows(256)})
    assert {word.split()[0] for word in found.values()} == {"gain"}, found


@each_impl
@torch.no_grad()
def test_part_takes_every_layout_and_no_rows(load: Load, name: str) -> None:
    unit = unit_of(load, name)
    part, x = unit.bind(), unit.rows(8)
    flat = torch.zeros(x.numel() + 16, dtype=x.dtype)
    odd = flat[1 : 1 + x.numel()].view_as(x).copy_(x)
    views = {"odd": odd, "transposed": x.t().contiguous().t(), "leading": x.view(2, 4, -1)}
    wanted = _flat(part(x))
    assert all(torch.equal(_flat(part(view)), wanted) for view in views.values())
    assert _flat(part(x[:0])).numel() == 0


def _flat(answer: object) -> Tensor:
    return torch.cat([output.reshape(-1) for output in outputs(answer)])


@torch.no_grad()
def test_subnormal_weights_of_patches_are_zeros(load: Load) -> None:
    unit = unit_of(load, PATCHES, {"bias": "none"})
    part = unit.bind(replace(unit.seat, weights={"w": torch.full_like(unit.seat.weights["w"], 2.0**-130)}))
    assert not part(2.0**20 * torch.ones_like(unit.rows(2))).any()


@pytest.mark.parametrize("offset", range(9))
def test_rows_begin_on_sixteen_bytes_wherever_they_lay(offset: int) -> None:
    x = torch.arange(48.0).bfloat16()[offset : offset + 32].view(4, 8)
    rows = dense_rows(x)
    assert torch.equal(rows, x)
    assert rows.data_ptr() % 16 == 0


@pytest.mark.parametrize("name", [LINEAR, PATCHES])
@torch.no_grad()
def test_part_compiles_whole_and_takes_a_view_that_begins_anywhere(load: Load, name: str) -> None:
    unit = unit_of(load, name)
    part, x = unit.bind(), unit.rows(8)
    flat = torch.zeros(x.numel() + 16, dtype=x.dtype)
    flat[1 : 1 + x.numel()] = x.reshape(-1)

    def region(whole: Tensor) -> Tensor:
        y: Tensor = part(whole[1 : 1 + x.numel()].view(x.shape))
        return y

    torch.compiler.reset()
    compiled = torch.compile(region, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(flat), part(x))
