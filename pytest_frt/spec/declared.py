"""What an impl declares against the structure it implements: a limit on what does not exist would hold nothing back."""

from __future__ import annotations

from collections.abc import Collection

from pytest_frt.contracts.impl import Impl
from pytest_frt.contracts.structure import Structure
from pytest_frt.errors import SpecError
from pytest_frt.spec import dims


def sizes_of(structure: Structure) -> frozenset[str]:
    """Return every symbol of a structure's boundary, slots and derived sizes."""
    tensors = [spec.shape for spec in (*structure.inputs, *structure.outputs)]
    shapes = [*tensors, *(slot.shape for slot in structure.slots)]
    derived = {symbol for rule in structure.seams for symbol in rule.sizes or {}}
    return frozenset(derived.union(*(dims.symbols(text) for shape in shapes for text in shape)))


def check_declared(impl: Impl, structure: Structure, where: str) -> None:
    """Check that every axis, value, size and point that an impl names is one of its structure.

    Args:
        impl: The declaration.
        structure: The structure of its name.
        where: What to call the file in a message.

    Raises:
        SpecError: one is not, so that its limit would hold nothing back.
    """
    sizes, points = sizes_of(structure), {point for named in impl.points.values() for point in named}
    values = [(f"variants.{axis}", named, structure.variants.get(axis, ())) for axis, named in impl.variants.items()]
    named: list[tuple[str, Collection[str], Collection[str]]] = [
        ("variants", impl.variants, structure.variants),
        ("dims", impl.dims, sizes),
        ("multiples", impl.multiples, sizes),
        ("points", points, structure.points),
        *values,
    ]
    for what, given, known in named:
        if unknown := sorted(set(given) - set(known)):
            raise SpecError(
                f"{where}: IMPL: {what}: {structure.name} has no {', '.join(unknown)}",
                hint=f"it has {', '.join(sorted(known)) or 'none'}",
            )
