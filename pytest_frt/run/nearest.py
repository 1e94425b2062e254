"""What a record glob that matches nothing may have meant: its parts against those of the records there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

GLOB: Final = frozenset("*?[]")


def _parts(name: str) -> tuple[list[str], list[str]]:
    """Return the parts of a cell, and those of form, phase, size and cache."""
    cell, _, tail = name.partition("@")
    return cell.split("-"), tail.split(".") if tail else []


def _unknown(part: str, known: set[str]) -> str:
    """Return what a part without wildcards may have meant; empty when it is known or like nothing."""
    if not part or part in known or GLOB & set(part):
        return ""
    near = get_close_matches(part, sorted(known), n=1)
    return near[0] if near else ""


def record_hint(glob: str, ids: Iterable[str]) -> str:
    """Return the next step after a record glob that matches nothing.

    Args:
        glob: The glob.
        ids: Record key ids that it could have matched.
    """
    names = list(ids)
    near = get_close_matches(glob, names, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    known: list[tuple[Sequence[str], Sequence[str]]] = [_parts(name) for name in names]
    for side, given in enumerate(_parts(glob)):
        for part in given:
            if meant := _unknown(part, {one for split in known for one in split[side]}):
                return f"did you mean {glob.replace(part, meant)!r}?"
    return f"pytest --collect-only names all {len(names)}"
