"""A seam against its reference on one small input: does the host really compute there what the structure says?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pytest_frt.contracts.seat import PairSeat, SeatFacts
from pytest_frt.contracts.structure import Join, SeamRule, Structure
from pytest_frt.seat.weights import slot_tensors
from pytest_frt.spec import dims

Reference = Callable[..., Tensor | tuple[Tensor, ...]]
"""``reference`` of a catalog entry: keyword-only."""
ROWS = 3
"""Rows of the probe: odd, and few enough that a probe of every seat costs less than one pass of the host."""
SEED = 0


@dataclass(frozen=True, slots=True)
class Differs:
    """The seam does not compute its reference, or cannot be asked; ``reason`` says how far it is off."""

    reason: str


@dataclass(frozen=True, slots=True)
class Same:
    """The seam computes its reference, to ``error`` (relative L2 in units of the dtype's eps)."""

    error: float


def _positional(module: nn.Module) -> tuple[int, int]:
    """Return how many positional arguments a module's forward must and may take."""
    must, may = 0, 0
    for parameter in inspect.signature(module.forward).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            may += 1
            must += parameter.default is parameter.empty
        elif parameter.kind is parameter.VAR_POSITIONAL:
            may = 1 << 16
    return must, may


def _call(module: nn.Module, place: str, inputs: tuple[Tensor, ...]) -> Tensor | Differs:
    """Return the one tensor that a module returns."""
    out = _outputs(module, place, inputs)
    if isinstance(out, Differs):
        return out
    if len(out) != 1:
        return Differs(f"{place or 'the module'} returns {len(out)} tensors, the seam needs one")
    return out[0]


def _outputs(module: nn.Module, place: str, inputs: tuple[Tensor, ...]) -> list[Tensor] | Differs:
    must, may = _positional(module)
    if not must <= len(inputs) <= may:
        return Differs(
            f"{place or 'the module'} takes {must} to {may} positional arguments, the seam gives {len(inputs)}"
        )
    try:
        out = module(*inputs)
    except (TypeError, ValueError, RuntimeError) as fault:
        return Differs(f"{place or 'the module'} fails on a probe of shape {tuple(inputs[0].shape)}: {fault}")
    found = list(out) if type(out) is tuple and len(out) > 1 else [out]  # a seat returns one tensor bare
    if odd := [type(one).__name__ for one in found if not isinstance(one, Tensor)]:
        return Differs(f"{place or 'the module'} returns {odd[0]}, the seam needs tensors")
    return found


def _run_host(
    model: nn.Module, rule: SeamRule, facts: SeatFacts, x: Tensor, sides: tuple[Tensor, ...]
) -> list[Tensor] | Differs:
    places = facts.seat.places
    modules = [model.get_submodule(place) for place in places]
    outputs: list[Tensor] = []
    if not isinstance(facts.seat, PairSeat):
        return _outputs(modules[0], places[0], (x.clone(), *sides))
    if rule.join is not Join.CHAIN:
        given: tuple[Tensor, ...] = (x, *sides)
        for module, place in zip(modules, places, strict=True):
            out = _call(module, place, (given[0].clone(), *given[1:]))
            if isinstance(out, Differs):
                return out
            outputs.append(out)
            given = (outputs[0] if rule.join is Join.RELAY else x,)
        return outputs
    y: Tensor | Differs = _call(modules[0], places[0], (x.clone(),))
    for module, place in zip(modules[1:], places[1:], strict=True):
        if isinstance(y, Differs):
            return y
        inputs = (y, x.clone()) if _positional(module)[0] > 1 else (y,)  # a consumer that adds the residual takes it
        y = _call(module, place, inputs)
    return y if isinstance(y, Differs) else [y]


def _error(got: Tensor, want: Tensor) -> float:
    if got.shape != want.shape:
        return float("inf")
    wide, norm = want.double(), want.double().norm()
    return float((got.double() - wide).norm() / norm / torch.finfo(want.dtype).eps)


def compare(
    model: nn.Module, structure: Structure, rule: SeamRule, facts: SeatFacts, reference: Reference, limit: float
) -> Same | Differs:
    """Run the host's modules and the reference on the same normal rows ``[1, 3, K]`` in the boundary dtype.

    A module takes the structure's inputs as its first arguments, in the structure's order.

    Args:
        model: The host.
        structure: Structure of the seat.
        rule: Rule that found it.
        facts: The seat.
        reference: The structure's reference.
        limit: Largest relative L2 error in units of the dtype's eps.
    """
    widths = {tensor.name: dims.evaluate(tensor.shape[-1], facts.dims) for tensor in structure.inputs}
    first, *others = widths
    slots: Mapping[str, Tensor] = slot_tensors(model, facts)
    like, generator = next(iter(slots.values())), torch.Generator().manual_seed(SEED)
    x = torch.randn(1, ROWS, widths[first], generator=generator).to(like)
    sides = {name: torch.randn(1, widths[name], generator=generator).to(like) for name in others}
    with torch.no_grad():
        got = _run_host(model, rule, facts, x, tuple(sides.values()))
        if isinstance(got, Differs):
            return got
        want = reference(**{first: x}, **sides, **slots, **facts.variant, **facts.constants)
    expected = list(want) if isinstance(want, tuple) else [want]
    if len(got) != len(expected):
        return Differs(f"the seam returns {len(got)} tensors, the reference {len(expected)}")
    error = max(_error(a, b) for a, b in zip(got, expected, strict=True))
    if error <= limit:  # NaN is no pass
        return Same(error)
    return Differs(f"it does not compute {structure.name} {facts.variant}: error {error:.3g} eps, limit {limit:g}")
