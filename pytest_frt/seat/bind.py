"""Binding: an impl, a kernel and certified scales become a module per seat, or a refusal with the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import ModuleType

import torch
from torch import Tensor, nn

from pytest_frt.contracts.impl import BindSeat, Impl, Scales
from pytest_frt.contracts.seat import PairSeat, RoutedSeat, SeatFacts
from pytest_frt.contracts.structure import Join, Structure
from pytest_frt.contracts.verdict import Measured, Refusal
from pytest_frt.errors import SpecError, SwapRefused
from pytest_frt.seat.guard import version_of
from pytest_frt.seat.weights import host_tensor, slot_tensors
from pytest_frt.spec.dims import evaluate

GATE = "bind"
FLAT_AXES = 2


@dataclass(frozen=True, slots=True)
class BoundSeat:
    """An impl bound to one seat, not yet in the model.

    Attributes:
        facts: The seat.
        module: Takes ``x[..., width]``, and ``[1, side]`` for each side; returns one tensor, or one per output.
        width: Size of the first input's last axis.
        outputs: Size of the last axis of every output.
        rows: Inclusive band of rows it may be called with.
        impl: Impl name.
        scheme: Scheme it is bound for.
        sides: Size of the last axis of every further input; such a tensor belongs to the whole call.
        per_call: Whether each output belongs to the whole call; empty when none does.
        axes: Axes that the first input must have, 0 for any number.
        relays: Whether the consumers of a pair read what its producer returned.
    """

    facts: SeatFacts
    module: nn.Module
    width: int
    outputs: tuple[int, ...]
    rows: tuple[int, int]
    impl: str
    scheme: str
    sides: tuple[int, ...] = ()
    per_call: tuple[bool, ...] = ()
    axes: int = 0
    relays: bool = False

    @property
    def join(self) -> Join:
        """How the places of a pair belong together."""
        return Join.of(len(self.outputs), relays=self.relays)

    def shapes(self, x: Tensor) -> list[tuple[int, ...]]:
        """Return the shape of every output of a call with the first input ``x``."""
        per_call = self.per_call or (False,) * len(self.outputs)
        alone = (1,) * (x.dim() - 1)
        return [
            (*(alone if single else x.shape[:-1]), width) for width, single in zip(self.outputs, per_call, strict=True)
        ]


def bind_unit(  # noqa: PLR0913 (a name for each)
    model: nn.Module,
    facts: Sequence[SeatFacts],
    *,
    structure: Structure,
    impl: ModuleType,
    scheme: str,
    scales: Mapping[str, Scales],
    kernel: ModuleType,
    rows: tuple[int, int],
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> tuple[tuple[BoundSeat, ...], tuple[Refusal, ...]]:
    """Bind one impl to the seats of a unit. The model is read, never changed.

    Args:
        model: The unattached host.
        facts: Seats to bind.
        structure: The structure they are seats of.
        impl: Executed impl module, with ``IMPL`` and ``bind``.
        scheme: Scheme to bind for.
        scales: Seat id to its static scales; seats of schemes without static scales need no entry.
        kernel: The loaded kernel build.
        rows: Inclusive row band the seats will be called with; it must lie in the impl's own.
        around: Entered around each call of ``bind``: the one step that runs code of the impl.

    Returns:
        Bound seats and refusals, each seat in exactly one of them, in the order of ``facts``.

    Raises:
        SpecError: ``bind`` returned something that is neither a module nor a refusal.
        SwapRefused: ``bind`` wrote to the host's tensors.
        KernelUnavailable: raised by ``bind`` for an op this build lacks.
    """
    declared: Impl = impl.IMPL
    bound: list[BoundSeat] = []
    refused: list[Refusal] = []
    for one in facts:
        own = scales.get(one.id, Scales())
        faults = (*place_faults(structure, one), *envelope_faults(declared, one, scheme=scheme, scales=own, rows=rows))
        weights = {} if faults else {name: tensor.detach() for name, tensor in slot_tensors(model, one).items()}
        fault = next(iter((*faults, *device_faults(declared, one, weights))), None)
        seat = _bind_seat(one, weights, scheme, rows)
        answer = fault or _call_bind(impl, seat, own, kernel, one.id, around)
        if isinstance(answer, Refusal):
            refused.append(answer if answer.at else replace(answer, at=one.id))
        else:
            width, *sides = (evaluate(spec.shape[-1], one.dims) for spec in structure.inputs)
            returned = structure.returned(one.variant)
            outputs = tuple(evaluate(spec.shape[-1], one.dims) for spec in returned)
            per_call = tuple(spec.per_call for spec in returned)
            beside = (tuple(sides), per_call, _axes(model, one), structure.relays)
            bound.append(BoundSeat(one, answer, width, outputs, rows, declared.name, scheme, *beside))
    return tuple(bound), tuple(refused)


def _axes(model: nn.Module, facts: SeatFacts) -> int:
    """Return the axes an input must have: a convolution that takes flattened patches gives rows back, however many."""
    return FLAT_AXES if any(host_tensor(model, slot.tensor).dim() > FLAT_AXES for slot in facts.slots.values()) else 0


def _bind_seat(facts: SeatFacts, weights: Mapping[str, Tensor], scheme: str, rows: tuple[int, int]) -> BindSeat:
    return BindSeat(
        structure=facts.structure,
        scheme=scheme,
        variant=dict(facts.variant),
        dims=dict(facts.dims),
        weights=weights,
        constants=dict(facts.constants),
        rows=rows,
        dtype=facts.dtype,
    )


def _call_bind(
    impl: ModuleType,
    seat: BindSeat,
    scales: Scales,
    kernel: ModuleType,
    at: str,
    around: Callable[[], AbstractContextManager[None]],
) -> nn.Module | Refusal:
    name = impl.IMPL.name
    before = {slot: version_of(tensor) for slot, tensor in seat.weights.items()}
    with around(), torch.no_grad():
        answer = impl.bind(seat, scales, kernel)
        if isinstance(answer, nn.Module):
            answer = answer.eval().requires_grad_(requires_grad=False)
    written = [slot for slot, tensor in seat.weights.items() if version_of(tensor) != before[slot]]
    if written:
        raise SwapRefused(
            f"bind of {name} wrote to {', '.join(written)} of seat {at}: the model is no longer what was loaded",
            hint="load the model again; bind may read and copy the host's tensors, never write to them",
        )
    if isinstance(answer, nn.Module | Refusal):
        return answer
    raise SpecError(
        f"bind of {name} returned {type(answer).__name__} for seat {at}",
        hint="return an nn.Module, or a Refusal that says why not",
    )


def place_faults(structure: Structure, facts: SeatFacts) -> Iterator[Refusal]:
    """Yield why a seat's places do not fit what its structure returns: of a pair, one tensor or one per place."""
    places, outputs = len(facts.seat.places), len(structure.returned(facts.variant))
    if isinstance(facts.seat, RoutedSeat):
        yield _refusal(facts, "routed", f"{facts.id} is reached through a function: only modules can be seated")
    elif isinstance(facts.seat, PairSeat) and outputs not in (1, places):
        yield _refusal(facts, "places", f"{structure.name} returns {outputs} tensors, the seat has {places} places")


def envelope_faults(
    impl: Impl, facts: SeatFacts, *, scheme: str, scales: Scales, rows: tuple[int, int]
) -> Iterator[Refusal]:
    """Yield every way in which a seat lies outside what the impl declares, without touching a tensor.

    Args:
        impl: The declaration.
        facts: The seat.
        scheme: Scheme asked for.
        scales: The seat's static scales.
        rows: Row band asked for.
    """
    if impl.structure != facts.structure:
        yield _refusal(facts, "structure", f"{impl.name} implements {impl.structure}, the seat is {facts.structure}")
    if scheme not in impl.schemes:
        yield _refusal(facts, "scheme", f"{impl.name} runs {', '.join(impl.schemes)}, not {scheme}")
    if facts.dtype not in impl.dtypes:
        yield _refusal(facts, "dtype", f"the boundary is {facts.dtype}, {impl.name} takes {', '.join(impl.dtypes)}")
    for axis, allowed in impl.variants.items():
        value = facts.variant.get(axis)
        if value is not None and value not in allowed:
            yield _refusal(facts, "variant", f"{axis} is {value}, {impl.name} runs {', '.join(allowed)}")
    yield from _dim_faults(impl, facts)
    yield from _row_faults(impl, facts, scheme, rows)
    yield from _scale_faults(impl, facts, scheme, scales)


def _dim_faults(impl: Impl, facts: SeatFacts) -> Iterator[Refusal]:
    for symbol, (low, high) in impl.dims.items():
        size = facts.dims.get(symbol)
        if size is not None and not low <= size <= high:
            bound, op = (low, ">=") if size < low else (high, "<=")
            measured = Measured(f"dim.{symbol}", size, op, bound, 1, facts.id)
            yield _refusal(facts, "envelope", f"{symbol}={size}, {impl.name} takes {low} to {high}", measured)
    for symbol, divisor in impl.multiples.items():
        size = facts.dims.get(symbol)
        if size is not None and size % divisor:
            measured = Measured(f"dim.{symbol}.remainder", size % divisor, "<=", 0, 1, facts.id)
            yield _refusal(facts, "envelope", f"{symbol}={size} is no multiple of {divisor}", measured)


def _row_faults(impl: Impl, facts: SeatFacts, scheme: str, rows: tuple[int, int]) -> Iterator[Refusal]:
    low, high = impl.rows.get(scheme, (0, -1))
    if not low <= rows[0] <= rows[1] <= high:
        yield _refusal(
            facts, "rows", f"rows {rows[0]} to {rows[1]} are asked for, {impl.name} takes {low} to {high} in {scheme}"
        )


def _scale_faults(impl: Impl, facts: SeatFacts, scheme: str, scales: Scales) -> Iterator[Refusal]:
    for point in impl.points.get(scheme, ()):
        value = scales.by_point.get(point)
        if value is None:
            given = ", ".join(sorted(scales.by_point)) or "none"
            yield _refusal(facts, "scale", f"there is no scale for point {point}; given are {given}")
        elif not (math.isfinite(value) and value > 0):
            yield _refusal(facts, "scale", f"the scale of point {point} is {value}, needs a positive finite number")


def device_faults(impl: Impl, facts: SeatFacts, weights: Mapping[str, Tensor]) -> Iterator[Refusal]:
    """Yield a refusal when a weight lies on a device the impl does not run on."""
    kinds = sorted({tensor.device.type for tensor in weights.values()})
    if any(kind not in impl.devices for kind in kinds):
        runs = ", ".join(impl.devices)
        yield _refusal(facts, "device", f"its tensors are on {', '.join(kinds)}, {impl.name} runs on {runs}")


def _refusal(facts: SeatFacts, reason: str, detail: str, *measured: Measured) -> Refusal:
    return Refusal(GATE, reason, detail, at=facts.id, measured=measured)
