"""Seam rules of structure.yaml: expansion of ``each`` and the checks a JSON schema cannot make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pytest_frt.contracts.structure import Join, Limit, SeamRule, SlotSpec, Structure
from pytest_frt.errors import SpecError

ACTIVATION_AXIS = "activation"
"""The one axis a rule may leave open: its value is found by a differential test of the host's module."""

ACTIVATION_LIMIT = "activation.error"
"""Largest difference, relative to ``1 + |y|`` in float64, between a host's activation and the one it is taken for."""
SEAM_LIMIT = "seam.error_in_eps"
"""Largest relative L2 between a seam and its reference on a probe, in units of the boundary dtype's eps."""

LINEAR, PATCHES, NORM = "linear", "patches", "norm"
DECIDING: Final = {LINEAR: "matmul", PATCHES: "matmul", NORM: "norm"}
"""Kind of layer to the role of the slots whose owners must be of that kind."""
EPSILON = "eps"
"""The constant that a rule of norms names: it shows on small rows alone and is held against the host there."""


def _filled(value: Any, names: Mapping[str, str]) -> Any:  # noqa: ANN401 (any yaml value)
    match value:
        case str():
            for key, name in names.items():
                value = value.replace(f"{{{key}}}", name)
            return value
        case list():
            return [_filled(item, names) for item in value]
        case dict():
            return {key: _filled(item, names) for key, item in value.items()}
    return value


def expand(raw: Mapping[str, Any]) -> Iterator[SeamRule]:
    """Yield the rules of one ``seams`` entry: one, or one per item of ``each``, named ``<name>.<values>``."""
    body = {key: value for key, value in raw.items() if key != "each"}
    for names in raw.get("each", [{}]):
        fields = _filled(body, names)
        label = f"{raw['name']}.{'+'.join(names.values())}" if names else raw["name"]
        yield SeamRule(
            name=label,
            kind=fields["kind"],
            places=tuple(fields["places"]),
            slots=fields["slots"],
            transpose=tuple(fields.get("transpose", ())),
            absent=tuple(fields.get("absent", ())),
            activation=fields.get("activation", ""),
            variant=fields["variant"],
            points=fields["points"],
            constants=fields.get("constants", {}),
            join=Join(fields["join"]) if "join" in fields else None,
            min_elements=fields.get("min_elements", 0),
            remaining=fields.get("remaining", False),
            shares=fields.get("shares", False),
            sizes=fields.get("sizes", {}),
            layer=fields.get("layer", LINEAR),
            apart=tuple(fields.get("apart", ())),
        )


def check(
    rule: SeamRule,
    slots: tuple[SlotSpec, ...],
    variants: Mapping[str, tuple[str, ...]],
    points: tuple[str, ...],
    where: str,
) -> None:
    """Check one rule against its structure.

    Raises:
        SpecError: it names an unknown slot, axis, value or point, or leaves one of them open.
    """
    at = f"{where}: seams.{rule.name}"
    known = {slot.name for slot in slots}
    needed = {slot.name for slot in slots if not slot.optional}
    for what, given, allowed in (
        ("slots", set(rule.slots), known),
        ("transpose", set(rule.transpose), set(rule.slots)),
        ("points", set(rule.points or {}), set(points)),
        ("variant", set(rule.variant or {}), set(variants)),
    ):
        if extra := given - allowed:
            raise SpecError(f"{at}.{what}: {sorted(extra)} unknown; known are {sorted(allowed)}")
    if missing := needed - set(rule.slots):
        raise SpecError(f"{at}.slots: {sorted(missing)} missing: a slot that is not optional is filled by every rule")
    if missing := set(points) - set(rule.points or {}):
        raise SpecError(f"{at}.points: {sorted(missing)} missing: every point is read somewhere")
    _check_layer(rule, slots, at)
    open_axes = set(variants) - set(rule.variant or {})
    if open_axes != ({ACTIVATION_AXIS} if rule.activation else set()):
        raise SpecError(
            f"{at}.variant: axes {sorted(open_axes)} are left open",
            hint=f"fix each axis; {ACTIVATION_AXIS!r} alone is open where the rule names an activation child",
        )
    for axis, value in (rule.variant or {}).items():
        if value not in variants[axis]:
            raise SpecError(f"{at}.variant.{axis}: {value!r} is none of {list(variants[axis])}")


def check_joins(structure: Structure, where: str) -> None:
    """Check that every rule joins its places as the boundary says: what a producer returns is relayed by all or none.

    Raises:
        SpecError: a rule says otherwise.
    """
    for rule in structure.seams:
        if (rule.join is Join.RELAY) is not structure.relays:
            name = structure.outputs[0].name
            raise SpecError(
                f"{where}: seams.{rule.name}.join: {rule.join or 'none'}, and outputs.{name}.relayed is "
                f"{str(structure.relays).lower()}",
                hint=f"write join: {Join.RELAY} in every rule and relayed: true at {name}, or neither",
            )


def _check_layer(rule: SeamRule, slots: tuple[SlotSpec, ...], at: str) -> None:
    """Check that a rule has what its kind of layer is told by, and nothing that only another kind has."""
    role = DECIDING[rule.layer]
    if not any(slot.role == role for slot in slots if slot.name in rule.slots):
        raise SpecError(f"{at}.layer: {rule.layer} is told by slots of role {role}, there is none")
    if rule.shares and (rule.kind != "pair" or rule.remaining):
        raise SpecError(
            f"{at}.shares: only a pair that takes no remaining layers may share them",
            hint="a module shared with another structure would be two seats of one id",
        )
    if rule.apart and rule.layer != LINEAR:
        raise SpecError(f"{at}.apart: {list(rule.apart)} are told from layers of kind {LINEAR}, these are {rule.layer}")
    if rule.layer == NORM and EPSILON not in (rule.constants or {}):
        raise SpecError(f"{at}.constants: a norm needs {EPSILON}", hint=f"write {EPSILON}: and where the host keeps it")


def check_limits(rules: tuple[SeamRule, ...], discovery: tuple[Limit, ...], where: str) -> None:
    """Check that discovery has the limits its rules are judged by, and no others.

    Raises:
        SpecError: a limit is missing, unknown, or not a ceiling.
    """
    needed = {SEAM_LIMIT} | {ACTIVATION_LIMIT for rule in rules if rule.activation}
    given = {limit.metric for limit in discovery if limit.op == "<="}
    if given != needed or len(discovery) != len(needed):
        raise SpecError(f"{where}: discovery: needs one ceiling (<=) for each of {sorted(needed)}, has {sorted(given)}")
