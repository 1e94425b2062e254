"""Every impl holds both oracles on every case and in every variant; each sabotage that a scheme can see is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from pytest_frt.contracts.impl import Scales

from .conftest import OWN, UNITS, VARIANTS, Unit, make_unit, outputs

FIRST = {"decoder_ffn": "w_gate", "vision_ffn": "w_fc1", "qkv_pack": "w_q"}
LAST = {"decoder_ffn": "w_down", "vision_ffn": "w_fc2", "qkv_pack": "w_v"}
OUTPUTS_FIRST = frozenset({"vision_ffn", "norm_fused", "patch_projection"})
"""Structures whose slots have their output channels along axis 0."""
Sabotage = Callable[[Unit], Callable[[Tensor], object]]


@torch.no_grad()
def test_impl_holds_both_oracles_on_every_case(unit: Unit) -> None:
    part = unit.bind()
    assert unit.faults(part, {"rows": unit.rows(), **unit.cases()}) == {}


def variants() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield impl and variant for every declared combination but the one every other test uses."""
    for name, entry in sorted(OWN.items()):
        axes = entry.impl.variants
        for values in product(*axes.values()):
            variant = dict(zip(axes, values, strict=True))
            if variant != VARIANTS[entry.impl.structure]:
                yield name, variant


@pytest.mark.parametrize(("name", "variant"), list(variants()), ids=str)
@torch.no_grad()
def test_impl_holds_both_oracles_in_every_declared_variant(
    kernel: ModuleType, name: str, variant: dict[str, str]
) -> None:
    unit = make_unit(name, OWN[name].impl.schemes[0], kernel, variant)
    assert unit.faults(unit.bind(), {"rows": unit.rows()}) == {}


def with_slot(unit: Unit, slot: str, change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], object]:
    """Bind with one slot changed."""
    weights = {**unit.seat.weights, slot: change(unit.seat.weights[slot])}
    return unit.bind(replace(unit.seat, weights=weights))


def scaled_channel(slot: str, axis: int, factor: float) -> Callable[[Unit], Callable[[Tensor], object]]:
    """Return a sabotage that scales one channel of a slot."""

    def change(weight: Tensor) -> Tensor:
        factors = torch.ones(weight.shape[axis])
        factors[3] = factor
        return weight * factors.view([-1 if one == axis else 1 for one in range(weight.dim())])

    return lambda unit: with_slot(unit, slot, change)


def gain_of_one_percent(unit: Unit) -> Callable[[Tensor], object]:
    part = unit.bind()
    return lambda x: tuple(1.01 * y for y in outputs(part(x)))


def wrong_output_channel(unit: Unit) -> Callable[[Tensor], object]:
    structure = unit.seat.structure
    return scaled_channel(LAST.get(structure, "w"), 0 if structure in OUTPUTS_FIRST else 1, 2.0)(unit)


def wrong_first_channel(unit: Unit) -> Callable[[Tensor], object]:
    structure = unit.seat.structure
    return scaled_channel(FIRST.get(structure, "w"), 0 if structure in OUTPUTS_FIRST else 1, 3.0)(unit)


def zeros(unit: Unit) -> Callable[[Tensor], object]:
    part = unit.bind()
    return lambda x: tuple(torch.zeros_like(y) for y in outputs(part(x)))


def one_nan(unit: Unit) -> Callable[[Tensor], object]:
    part = unit.bind()

    def spoiled(x: Tensor) -> tuple[Tensor, ...]:
        out = outputs(part(x))
        out[0][0, 0] = float("nan")
        return out

    return spoiled


@pytest.mark.parametrize(
    "spoil", [gain_of_one_percent, wrong_output_channel, wrong_first_channel, zeros, one_nan], ids=lambda f: f.__name__
)
@torch.no_grad()
def test_sabotage_is_refused(unit: Unit, spoil: Sabotage) -> None:
    assert unit.faults(spoil(unit), {"rows": unit.rows(256)})


def test_gain_is_called_a_gain(unit: Unit) -> None:
    with torch.no_grad():
        faults = unit.faults(gain_of_one_percent(unit), {"rows": unit.rows(256)})
    assert {word.split()[0] for word in faults.values()} == {"gain"}


def swapped_gate_and_up(unit: Unit) -> Callable[[Tensor], object]:
    gate, up = unit.seat.weights["w_gate"], unit.seat.weights["w_up"]
    return unit.bind(replace(unit.seat, weights={**unit.seat.weights, "w_gate": up, "w_up": gate}))


def dropped_bias(unit: Unit) -> Callable[[Tensor], object]:
    slot = [name for name in unit.seat.weights if name.startswith("b")][-1]
    return with_slot(unit, slot, torch.zeros_like)


def dropped_norm_bias(unit: Unit) -> Callable[[Tensor], object]:
    return with_slot(unit, "b_norm", torch.zeros_like)


def swapped_key_and_value(unit: Unit) -> Callable[[Tensor], object]:
    part = unit.bind()

    def spoiled(x: Tensor) -> tuple[Tensor, ...]:
        q, k, v = outputs(part(x))
        width = min(k.shape[-1], v.shape[-1])
        return q, torch.cat((v[:, :width], k[:, width:]), -1), v

    return spoiled


def other_gelu(unit: Unit) -> Callable[[Tensor], object]:
    part = unit.bind()
    exact = "none" if unit.seat.variant["activation"] == "gelu_tanh" else "tanh"
    part._act = lambda gate: F.gelu(gate, approximate=exact)  # type: ignore[assignment]
    return part


OF_STRUCTURE: dict[Sabotage, tuple[str, ...]] = {
    swapped_gate_and_up: ("decoder_ffn",),
    dropped_bias: ("linear_proj", "cadence_static", "qkv_pack", "norm_fused", "patch_projection"),
    dropped_norm_bias: ("vision_ffn",),
    swapped_key_and_value: ("qkv_pack",),
}


@pytest.mark.parametrize(
    ("spoil", "name", "scheme"),
    [
        pytest.param(spoil, name, scheme, id=f"{spoil.__name__}-{name}-{scheme}")
        for spoil, structures in OF_STRUCTURE.items()
        for name, scheme in UNITS
        if name.partition("/")[0] in structures
    ],
)
@torch.no_grad()
def test_sabotage_of_one_structure_is_refused(kernel: ModuleType, spoil: Sabotage, name: str, scheme: str) -> None:
    unit = make_unit(name, scheme, kernel)
    assert unit.faults(spoil(unit), {"rows": unit.rows(256)})


@pytest.mark.parametrize("name", ["decoder_ffn/torch_packed", "vision_ffn/torch_packed"])
@pytest.mark.parametrize("scheme", ["none", "w16a32"])
@torch.no_grad()
def test_the_other_gelu_is_refused_where_nothing_hides_it(kernel: ModuleType, name: str, scheme: str) -> None:
    unit = make_unit(name, scheme, kernel)
    assert unit.faults(other_gelu(unit), {"rows": unit.rows(256)})


@pytest.mark.parametrize("factor", [0.5, 1.3], ids=["halved", "of_another_seat"])
@torch.no_grad()
def test_stale_static_scale_is_refused(kernel: ModuleType, factor: float) -> None:
    unit = make_unit("decoder_ffn/torch_fp8", "fp8_static", kernel)
    stale = Scales({point: factor * scale for point, scale in unit.scales.by_point.items()})
    assert unit.faults(unit.bind(scales=stale), {"outliers": 2 * unit.rows(64)})


@torch.no_grad()
def test_dynamic_codes_of_eight_bits_are_refused(kernel: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = make_unit("decoder_ffn/torch_int8", "w8a8_dynamic", kernel)
    part = unit.bind()
    monkeypatch.setattr(kernel.ops, "REDUCE_RANGE", False)
    assert unit.faults(part, {"rows": unit.rows(64)})


def _groups_of_64(codes: Tensor, scale: Tensor, zero: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    pair = torch.arange(scale.shape[1]) // 2 * 2
    return codes, scale[:, pair], zero[:, pair]


def _one_group(codes: Tensor, scale: Tensor, zero: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Quantise each output channel again, with one scale and one zero point."""
    weight = (codes.unflatten(1, (-1, 32)) - 8) * scale.float()[..., None] + zero.float()[..., None]
    low, high = weight.flatten(1).amin(1), weight.flatten(1).amax(1)
    step = ((high - low) / 15)[:, None]
    middle = high[:, None] - 7 * step
    again = ((weight.flatten(1) - middle) / step).round() + 8
    return again.int(), step.expand_as(scale).bfloat16(), middle.expand_as(zero).bfloat16()


def _one_scale(codes: Tensor, scale: Tensor, zero: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    wrong = scale.clone()
    wrong[3, 0] = scale[3, 1]
    return codes, wrong, zero


INT4_FAULTS: dict[str, Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]] = {
    "groups_of_64": _groups_of_64,
    "one_group_per_channel": _one_group,
    "one_scale_of_its_neighbour": _one_scale,
    "swapped_nibbles": lambda c, s, z: (c.unflatten(1, (-1, 2)).flip(-1).flatten(1), s, z),
    "scale_of_the_next_group": lambda c, s, z: (c, s.roll(1, 1), z),
    "zero_point_of_the_next_group": lambda c, s, z: (c, s, z.roll(1, 1)),
    "zero_point_dropped": lambda c, s, z: (c, s, torch.zeros_like(z)),
    "codes_from_1": lambda c, s, z: ((c + 1).clamp(max=15), s, z),
}
INT4 = [name for name, scheme in UNITS if scheme == "w4a16_decode"]


@pytest.mark.parametrize("fault", INT4_FAULTS.values(), ids=INT4_FAULTS)
@pytest.mark.parametrize("name", INT4)
@torch.no_grad()
def test_faulty_int4_pack_is_refused(
    kernel: ModuleType, name: str, fault: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    unit, sound = make_unit(name, "w4a16_decode", kernel), kernel.quantize.int4_groups
    monkeypatch.setattr(kernel.linear, "int4_groups", lambda weight: fault(*sound(weight)))
    assert unit.faults(unit.bind(), {"rows": unit.rows(256)})


NEW = [one for one in UNITS if one[1] in {"w4a16_decode", "bf16_structural"}]
DATA: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "gaussian": (lambda w: w, lambda x: x),
    "outlier_channel_in": (lambda w: w, lambda x: x * torch.where(torch.arange(x.shape[-1]) == 3, 50.0, 1.0)),
    "outlier_weights": (lambda w: w * torch.where(torch.arange(w.shape[-1]) % 29 == 3, 30.0, 1.0), lambda x: x),
    "weights_of_one_sign": (torch.abs, torch.abs),
}


@pytest.mark.parametrize(("change", "feed"), DATA.values(), ids=DATA)
@pytest.mark.parametrize(("name", "scheme"), NEW, ids=map("-".join, NEW))
@torch.no_grad()
def test_sound_part_holds_on_outliers(
    kernel: ModuleType, name: str, scheme: str, change: Callable[[Tensor], Tensor], feed: Callable[[Tensor], Tensor]
) -> None:
    unit = make_unit(name, scheme, kernel)
    weights = {slot: change(w) if w.dim() > 1 else w for slot, w in unit.seat.weights.items()}
    unit = replace(unit, seat=replace(unit.seat, weights=weights))
    assert unit.faults(unit.bind(), {"rows": feed(unit.rows())}) == {}
