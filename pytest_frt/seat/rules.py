"""One seam rule against one module of a host: absent, a seat, or refused with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto

import torch
from torch import Tensor, nn

from pytest_frt.contracts.seat import ModuleSeat, PairSeat, PointAt, Seat, SeatFacts, SlotRef
from pytest_frt.contracts.structure import SeamRule, Structure
from pytest_frt.errors import FrtError
from pytest_frt.seat import tree
from pytest_frt.seat.activations import Unidentified, identify
from pytest_frt.seat.seam_probe import ROWS, SEED, Differs, Reference, Same, compare
from pytest_frt.seat.weights import slot_tensors
from pytest_frt.spec import dims
from pytest_frt.spec.seams import (
    ACTIVATION_AXIS,
    ACTIVATION_LIMIT,
    DECIDING,
    EPSILON,
    NORM,
    PATCHES,
    SEAM_LIMIT,
)


class Stage(IntEnum):
    """The checks in the order they are made, the cheap ones first."""

    MODULES = auto()
    ABSENT = auto()
    TENSORS = auto()
    SIZES = auto()
    CONSTANTS = auto()
    ACTIVATION = auto()
    VALUES = auto()


@dataclass(frozen=True, slots=True)
class Refused:
    """The modules are there, but they are not this seam.

    Attributes:
        reason: Why.
        stage: The check that failed; of several rules the one that came furthest has the telling reason.
        remaining: True when the rule takes any layer that is left, so that the reason is about the layer itself.
    """

    reason: str
    stage: Stage
    remaining: bool


class _NotThisSeam(FrtError):
    """A check failed. It never leaves this module: :func:`match` makes a :class:`Refused` of it."""

    def __init__(self, stage: Stage, reason: str) -> None:
        super().__init__(reason)
        self.stage = stage


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a rule is held against.

    Attributes:
        model: The host.
        path: Dotted path of the parent module.
        parent: That module.
        structure: Structure of the rule.
        rule: The rule.
        reference: The structure's reference.
        paths: Module identity to every path that reaches it.
    """

    model: nn.Module
    path: str
    parent: nn.Module
    structure: Structure
    rule: SeamRule
    reference: Reference
    paths: dict[int, list[str]]

    def places(self) -> tuple[str, ...]:
        """Return the full paths of the rule's places."""
        return tuple(tree.join(self.path, place) for place in self.rule.places)

    def owner(self, slot: str) -> tuple[nn.Module | None, str]:
        """Return the module that should hold a slot's tensor, and the tensor's own name."""
        child, _, name = self.rule.slots[slot].rpartition(".")
        module = tree.child_of(self.parent, child)
        return (module if isinstance(module, nn.Module) else None), name

    def deciding(self) -> list[str]:
        """Return the slots whose owners say what the rule's modules compute, sorted."""
        role = DECIDING[self.rule.layer]
        return sorted(slot.name for slot in self.structure.slots if slot.role == role and slot.name in self.rule.slots)

    def limit(self, metric: str) -> float:
        """Return a discovery limit of the structure."""
        return next(limit.value for limit in self.structure.discovery if limit.metric == metric)


def _matmul_slots(structure: Structure) -> set[str]:
    return {slot.name for slot in structure.slots if slot.role == "matmul"}


def _apart(at: Candidate) -> bool:
    """Return whether every layer that must read something else is there and takes another width than the rule's own."""
    own = {tree.input_width(at.parent, at.rule.slots[slot]) for slot in at.deciding()}
    return not {0, *own} & {tree.input_width(at.parent, where) for where in at.rule.apart}


def present(at: Candidate) -> bool:
    """Return whether all places exist, the module's constants too, and its layers: the rule's own, and those apart."""
    if not all(isinstance(tree.child_of(at.parent, place), nn.Module) for place in at.rule.places):
        return False
    own = [where for where in (at.rule.constants or {}).values() if where.isidentifier()]
    if any(tree.child_of(at.parent, where) is None for where in own):
        return False
    owners = [at.owner(slot)[0] for slot in at.deciding()]
    return all(owner is not None and tree.KINDS[at.rule.layer].recognised(owner) for owner in owners) and _apart(at)


def _check_modules(at: Candidate) -> None:
    """Check that the modules can be replaced and read, whatever they compute, and its layers are what they seem."""
    for place in at.places():
        module = at.model.get_submodule(place)
        for inner in module.modules():
            if len(names := at.paths[id(inner)]) > 1:
                raise _NotThisSeam(Stage.MODULES, f"one module lies at several paths: {', '.join(names)}")
            if "forward" in vars(inner):
                name = at.paths[id(inner)][0] or "the model"
                raise _NotThisSeam(Stage.MODULES, f"forward of {name} is patched on the instance")
        if tree.drops_out(module):
            raise _NotThisSeam(Stage.MODULES, f"{place or 'the model'} is in training mode and drops values at random")
    for point, child in (at.rule.points or {}).items():
        if not isinstance(tree.child_of(at.parent, child), nn.Module):
            raise _NotThisSeam(Stage.MODULES, f"there is no module {child} to read point {point} at")
    for slot in at.deciding():
        owner, _ = at.owner(slot)
        if owner is not None and (why := tree.KINDS[at.rule.layer].why_not(owner)):
            where = at.rule.slots[slot].rpartition(".")[0] or "the module"
            raise _NotThisSeam(Stage.MODULES, f"{where}: {why}")


def _check_absent(at: Candidate) -> None:
    """Check that no tensor exists that the structure has no slot for."""
    for name in at.rule.absent:
        if isinstance(tree.child_of(at.parent, name), Tensor):
            reason = f"{name} exists and {at.structure.name} has no slot for it in this seam"
            raise _NotThisSeam(Stage.ABSENT, reason)


def _tensors(at: Candidate) -> dict[str, Tensor]:
    """Return the slot tensors as stored: one floating dtype, one device, with data, and nothing beside them."""
    out: dict[str, Tensor] = {}
    for slot, where in at.rule.slots.items():
        owner, name = at.owner(slot)
        tensor = tree.own_tensor(owner, name) if owner is not None else None
        if tensor is None:
            raise _NotThisSeam(Stage.TENSORS, f"{where} is missing")
        if tensor.is_meta:
            raise _NotThisSeam(Stage.TENSORS, f"{where} has no data (meta device)")
        out[slot] = tensor
    kinds = sorted({f"{tree.dtype_name(tensor.dtype)} on {tensor.device}" for tensor in out.values()})
    if len(kinds) > 1 or not all(tensor.is_floating_point() for tensor in out.values()):
        reason = f"its tensors are {', '.join(kinds)}: the seam needs one floating dtype on one device"
        raise _NotThisSeam(Stage.TENSORS, reason)
    held = {id(tensor) for tensor in out.values()}
    for name, tensor in tree.tensors_under(at.model, at.places()).items():
        if id(tensor) not in held:
            raise _NotThisSeam(Stage.TENSORS, f"{name} is no slot of {at.structure.name}")
    return out


def _sizes(at: Candidate, tensors: dict[str, Tensor]) -> dict[str, int]:
    shapes = {slot.name: slot.shape for slot in at.structure.slots}
    turned = {
        slot: tuple(reversed(shape)) if slot in at.rule.transpose else tuple(shape)
        for slot, shape in ((slot, tree.as_matrix(tensor).shape) for slot, tensor in tensors.items())
    }
    try:
        sizes = dims.solve(shapes, turned)
        sizes |= {symbol: dims.evaluate(text, sizes) for symbol, text in (at.rule.sizes or {}).items()}
    except dims.SizeMismatch as fault:
        raise _NotThisSeam(Stage.SIZES, fault.message) from fault
    elements = sum(tensors[slot].numel() for slot in _matmul_slots(at.structure) & set(tensors))
    if elements < at.rule.min_elements:
        reason = f"{elements} weight elements, fewer than the {at.rule.min_elements} worth a seat"
        raise _NotThisSeam(Stage.SIZES, reason)
    return sizes


def _constants(at: Candidate) -> dict[str, float]:
    out: dict[str, float] = {}
    for name, where in (at.rule.constants or {}).items():
        value = float(where[1:]) if where.startswith("=") else tree.child_of(at.parent, where)
        if not isinstance(value, float | int) or isinstance(value, bool):
            raise _NotThisSeam(Stage.CONSTANTS, f"{where} is {type(value).__name__}, no number")
        out[name] = float(value)
    return out


def _variant(at: Candidate) -> dict[str, str]:
    fixed = dict(at.rule.variant or {})
    where = at.rule.activation
    if not where:
        return fixed
    child = tree.child_of(at.parent, where)
    if child is None:
        raise _NotThisSeam(Stage.CONSTANTS, f"there is no {where} to tell the activation from")
    found = identify(child, at.limit(ACTIVATION_LIMIT))
    if isinstance(found, Unidentified):
        raise _NotThisSeam(Stage.ACTIVATION, f"activation {where} is not told: {found.reason}")
    allowed = at.structure.variants[ACTIVATION_AXIS]
    if found.label not in allowed:
        reason = f"activation {where} is {found.label}, {at.structure.name} has {', '.join(allowed)}"
        raise _NotThisSeam(Stage.ACTIVATION, reason)
    return {ACTIVATION_AXIS: found.label, **fixed}


def _seat(at: Candidate) -> Seat:
    places = at.places()
    return PairSeat(places[0], places[1:]) if at.rule.kind == "pair" else ModuleSeat(places[0])


def _facts(at: Candidate) -> SeatFacts:
    _check_modules(at)
    _check_absent(at)
    tensors = _tensors(at)
    sizes, constants, variant = _sizes(at, tensors), _constants(at), _variant(at)
    return SeatFacts(
        structure=at.structure.name,
        seat=_seat(at),
        variant={axis: variant[axis] for axis in at.structure.variants},
        dims=sizes,
        slots={
            slot: SlotRef(tree.join(at.path, where), slot in at.rule.transpose) for slot, where in at.rule.slots.items()
        },
        constants=constants,
        dtype=tree.dtype_name(next(iter(tensors.values())).dtype),
        points={point: PointAt(tree.join(at.path, child)) for point, child in (at.rule.points or {}).items()},
    )


def _joined(reference: Reference) -> Reference:
    """Return a reference of one output that joins what lies before its last axis, as a module that views patches."""

    def joined(**keywords: object) -> Tensor:
        y = reference(**keywords)
        return y.flatten(0, -2) if isinstance(y, Tensor) else y[0]

    return joined


def _check_values(at: Candidate, facts: SeatFacts) -> None:
    """Check that the modules compute the reference."""

    def held(reference: Reference) -> Same | Differs:
        return compare(at.model, at.structure, at.rule, facts, reference, at.limit(SEAM_LIMIT))

    verdict = held(at.reference)
    if isinstance(verdict, Differs) and at.rule.layer == PATCHES:
        verdict = held(_joined(at.reference))
    if isinstance(verdict, Differs):
        raise _NotThisSeam(Stage.VALUES, verdict.reason)
    if at.rule.layer == NORM:
        _check_epsilon(at, facts)


def _check_epsilon(at: Candidate, facts: SeatFacts) -> None:
    """Check a norm on rows whose variance is the epsilon read off it: larger rows do not show what it really adds."""
    x_name, slots, eps = at.structure.inputs[0].name, slot_tensors(at.model, facts), facts.constants[EPSILON]
    width, like = dims.evaluate(at.structure.inputs[0].shape[-1], facts.dims), next(iter(slots.values()))
    x = torch.randn(ROWS, width, generator=torch.Generator().manual_seed(SEED)).mul(max(eps, 0.0) ** 0.5).to(like)
    with torch.no_grad():
        got = at.model.get_submodule(facts.seat.places[0])(x.clone())
        want = at.reference(**{x_name: x}, **slots, **facts.variant, **facts.constants)
    wide = want.double() if isinstance(want, Tensor) else want[0].double()
    error, limit = float((got.double() - wide).norm() / wide.norm()) / torch.finfo(x.dtype).eps, at.limit(SEAM_LIMIT)
    if not error <= limit:  # NaN is no pass
        reason = f"{eps:g} is not the epsilon it adds: error {error:.3g} eps on rows of that variance, limit {limit:g}"
        raise _NotThisSeam(Stage.VALUES, reason)


def match(at: Candidate) -> SeatFacts | Refused:
    """Hold a rule against a module that has what the rule names (:func:`present`)."""
    try:
        facts = _facts(at)
        _check_values(at, facts)
    except _NotThisSeam as no:
        return Refused(no.message, no.stage, at.rule.remaining)
    return facts
