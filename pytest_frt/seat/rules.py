"""One seam rule against one module of a host: absent, refused with a reason, or a seat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pytest_frt.contracts.seat import ModuleSeat, PairSeat, PointAt, Seat, SeatFacts, SlotRef
from pytest_frt.contracts.structure import SeamRule, Structure
from pytest_frt.seat import tree
from pytest_frt.seat.activations import Unidentified, identify
from pytest_frt.seat.seam_probe import Differs, Reference, compare
from pytest_frt.spec import dims
from pytest_frt.spec.seams import ACTIVATION_AXIS, ACTIVATION_LIMIT, SEAM_LIMIT


@dataclass(frozen=True, slots=True)
class Absent:
    """The modules that the rule names are not there."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The modules are there, but they are not this seam.

    Attributes:
        reason: Why.
        stage: How many checks held before; of several rules the one that came furthest has the telling reason.
        remaining: True when the rule takes any layer that is left, so that the reason is about the layer itself.
    """

    reason: str
    stage: int
    remaining: bool = False


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

    def limit(self, metric: str) -> float:
        """Return a discovery limit of the structure."""
        return next(limit.value for limit in self.structure.discovery if limit.metric == metric)


def _matmul_slots(structure: Structure) -> set[str]:
    return {slot.name for slot in structure.slots if slot.role == "matmul"}


def _present(at: Candidate) -> bool:
    """Return whether every place exists and every matmul slot has an owner that multiplies with a matrix."""
    if not all(isinstance(tree.child_of(at.parent, place), nn.Module) for place in at.rule.places):
        return False
    owners = [at.owner(slot)[0] for slot in _matmul_slots(at.structure) & set(at.rule.slots)]
    return all(owner is not None and tree.is_matrix_layer(owner) for owner in owners)


def _modules(at: Candidate) -> str:
    """Say why the modules cannot be replaced, whatever they compute."""
    for place in at.places():
        module = at.model.get_submodule(place)
        for inner in module.modules():
            if len(names := at.paths[id(inner)]) > 1:
                return f"one module lies at several paths: {', '.join(names)}"
            if "forward" in vars(inner):
                return f"forward of {at.paths[id(inner)][0] or 'the model'} is patched on the instance"
        if tree.drops_out(module):
            return f"{place or 'the model'} is in training mode and drops values at random"
    for slot in sorted(_matmul_slots(at.structure) & set(at.rule.slots)):
        owner, _ = at.owner(slot)
        if owner is not None and (why := tree.why_not_linear(owner)):
            return f"{at.rule.slots[slot].rpartition('.')[0] or 'the module'}: {why}"
    return ""


def _absent(at: Candidate) -> str:
    """Say which tensor exists that the structure has no slot for."""
    for name in at.rule.absent:
        if isinstance(tree.child_of(at.parent, name), Tensor):
            return f"{name} exists and {at.structure.name} has no slot for it in this seam"
    return ""


def _tensors(at: Candidate) -> dict[str, Tensor] | str:
    """Return the slot tensors as stored, or why they do not fill the slots."""
    out: dict[str, Tensor] = {}
    for slot, where in at.rule.slots.items():
        owner, name = at.owner(slot)
        tensor = tree.own_tensor(owner, name) if owner is not None else None
        if tensor is None:
            return f"{where} is missing"
        if tensor.is_meta:
            return f"{where} has no data (meta device)"
        out[slot] = tensor
    dtypes = sorted({tree.dtype_name(tensor.dtype) for tensor in out.values()})
    if len(dtypes) > 1 or not all(tensor.is_floating_point() for tensor in out.values()):
        return f"its tensors are {', '.join(dtypes)}, the seam needs one floating dtype"
    held = {id(tensor) for tensor in out.values()}
    for name, tensor in tree.tensors_under(at.model, at.places()).items():
        if id(tensor) not in held:
            return f"{name} is no slot of {at.structure.name}"
    return out


def _dims(at: Candidate, tensors: dict[str, Tensor]) -> dict[str, int] | str:
    shapes = {slot.name: slot.shape for slot in at.structure.slots}
    turned = {
        slot: tuple(reversed(tensor.shape)) if slot in at.rule.transpose else tuple(tensor.shape)
        for slot, tensor in tensors.items()
    }
    try:
        sizes = dims.solve(shapes, turned)
    except dims.SizeMismatch as fault:
        return fault.message
    elements = sum(tensors[slot].numel() for slot in _matmul_slots(at.structure) & set(tensors))
    if elements < at.rule.min_elements:
        return f"{elements} weight elements, fewer than the {at.rule.min_elements} worth a seat"
    return sizes


def _variant(at: Candidate) -> dict[str, str] | str:
    fixed = dict(at.rule.variant or {})
    if not at.rule.activation:
        return fixed
    child = tree.child_of(at.parent, at.rule.activation)
    if child is None:
        return f"there is no {at.rule.activation} to tell the activation from"
    found = identify(child, at.limit(ACTIVATION_LIMIT))
    if isinstance(found, Unidentified):
        return f"activation {at.rule.activation} is not told: {found.reason}"
    allowed = at.structure.variants[ACTIVATION_AXIS]
    if found.label not in allowed:
        return f"activation {at.rule.activation} is {found.label}, {at.structure.name} has {', '.join(allowed)}"
    return {ACTIVATION_AXIS: found.label, **fixed}


def _constants(at: Candidate) -> dict[str, float] | str:
    out: dict[str, float] = {}
    for name, where in (at.rule.constants or {}).items():
        value = float(where[1:]) if where.startswith("=") else tree.child_of(at.parent, where)
        if not isinstance(value, float | int) or isinstance(value, bool):
            return f"{where} is {type(value).__name__}, no number"
        out[name] = float(value)
    return out


def _seat(at: Candidate) -> Seat:
    places = at.places()
    return PairSeat(places[0], places[1:]) if at.rule.kind == "pair" else ModuleSeat(places[0])


def _facts(
    at: Candidate,
    tensors: dict[str, Tensor],
    sizes: dict[str, int],
    variant: dict[str, str],
    constants: dict[str, float],
) -> SeatFacts:
    dtype: torch.dtype = next(iter(tensors.values())).dtype
    return SeatFacts(
        structure=at.structure.name,
        seat=_seat(at),
        variant={axis: variant[axis] for axis in at.structure.variants},
        dims=sizes,
        slots={
            slot: SlotRef(tree.join(at.path, where), slot in at.rule.transpose) for slot, where in at.rule.slots.items()
        },
        constants=constants,
        dtype=tree.dtype_name(dtype),
        points={point: PointAt(tree.join(at.path, child)) for point, child in (at.rule.points or {}).items()},
    )


def match(at: Candidate) -> SeatFacts | Refused | Absent:
    """Hold a rule against a module: the cheap checks first, the differential ones last."""
    if not _present(at):
        return Absent()
    checks: tuple[Callable[[Candidate], str], ...] = (_modules, _absent)
    for stage, check in enumerate(checks):
        if why := check(at):
            return Refused(why, stage)
    tensors = _tensors(at)
    if isinstance(tensors, str):
        return Refused(tensors, 2)
    sizes = _dims(at, tensors)
    if isinstance(sizes, str):
        return Refused(sizes, 3)
    constants = _constants(at)
    if isinstance(constants, str):
        return Refused(constants, 4)
    variant = _variant(at)
    if isinstance(variant, str):
        return Refused(variant, 5)
    facts = _facts(at, tensors, sizes, variant, constants)
    verdict = compare(at.model, at.structure, at.rule, facts, at.reference, at.limit(SEAM_LIMIT))
    return Refused(verdict.reason, 6) if isinstance(verdict, Differs) else facts
