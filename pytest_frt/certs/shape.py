"""Readers of one value each: taken as exactly what it must be, or :class:`Misfit` with what it is not.

A reader is a function of a plain value that the JSON or the TOML parser returned, after ``check_strings``. A reader of
an object or array calls others and completes the place of a fault on its way out, so that nothing is spent on places
as long as all fits. ``reading.Node`` turns a ``Misfit`` into the refusal that people see.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from pytest_frt.certs.strict_json import MAX_INT
from pytest_frt.contracts.record import LOCAL

T = TypeVar("T")
Reader = Callable[[object], T]

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
# A branch name moves and a short commit may name two; only a whole commit is a claim worth stating.
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DECIMAL: Final = re.compile(r"(?!-0(?:\.0*)?$)-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,12})?")
# Exact float64 constants and float32 scales may be small: more fraction digits than a gate number needs.
_REAL: Final = re.compile(r"(?!-0(?:\.0*)?$)-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,60})?")
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]*(?:/[A-Za-z0-9][A-Za-z0-9._+@-]*){0,3}")


class Misfit(Exception):
    """A value that is not what its place needs.

    Args:
        said: What follows the place in a sentence, e.g. ``is not text``.
        code: Refusal code; empty for that of the document.
    """

    def __init__(self, said: str, code: str = "") -> None:
        super().__init__(said)
        self.said = said
        self.code = code
        self.place = ""

    def inside(self, place: str) -> Misfit:
        """Return this fault with the enclosing member name or ``[index]`` put in front of its place."""
        dot = "." if self.place and not self.place.startswith("[") else ""
        self.place = f"{place}{dot}{self.place}"
        return self


def member(of: dict[str, object], name: str, read: Reader[T]) -> T:
    """Return the member ``name``, which must be there."""
    if name not in of:
        raise Misfit(f"has no member {name!r}")
    try:
        return read(of[name])
    except Misfit as fault:
        raise fault.inside(name) from None


def members(value: object) -> dict[str, object]:
    """Return an object."""
    if isinstance(value, dict):
        return value
    raise Misfit("is not an object")


def record(build: Callable[..., T], *fields: tuple[str, Reader[object]]) -> Reader[T]:
    """Return the reader of an object as ``build`` of the named members, in this order. All of them must be there."""

    def read_record(value: object) -> T:
        if not isinstance(value, dict):
            raise Misfit("is not an object")
        try:
            return build(*[read(value[name]) for name, read in fields])
        except (KeyError, Misfit):
            for name, read in fields:  # once more, to say where
                member(value, name, read)
            raise

    return read_record


def array(read: Reader[T]) -> Reader[tuple[T, ...]]:
    """Return the reader of an array of what ``read`` takes."""

    def read_array(value: object) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise Misfit("is not an array")
        try:
            return tuple([read(item) for item in value])  # from a list: faster than from a generator
        except Misfit:
            items: dict[str, object] = {f"[{index}]": item for index, item in enumerate(value)}
            for place in items:  # once more, to say where
                member(items, place, read)
            raise

    return read_array


def mapping(read: Reader[T]) -> Reader[dict[str, T]]:
    """Return the reader of an object whose names are data and whose values are what ``read`` takes."""

    def read_mapping(value: object) -> dict[str, T]:
        if not isinstance(value, dict):
            raise Misfit("is not an object")
        try:
            return {name: read(item) for name, item in value.items()}
        except Misfit:
            for name in value:  # once more, to say where
                member(value, name, read)
            raise

    return read_mapping


def word(*allowed: str) -> Reader[str]:
    """Return the reader of one of ``allowed``."""
    known = frozenset(allowed)

    def read_word(value: object) -> str:
        if isinstance(value, str) and value in known:
            return value
        raise Misfit(f"is not one of {', '.join(sorted(known))}" if isinstance(value, str) else "is not text")

    return read_word


def integer(low: int = 0, high: int = MAX_INT) -> Reader[int]:
    """Return the reader of an integer of the inclusive range."""

    def read_integer(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        raise Misfit(f"is not an integer from {low} to {high}")

    return read_integer


def text(value: object) -> str:
    """Return a string; that it is printable and short was checked for the whole document."""
    if isinstance(value, str):
        return value
    raise Misfit("is not text")


def identifier(value: object) -> str:
    """Return ASCII ``name`` or ``name/name`` (up to four segments), compared bytewise everywhere."""
    if isinstance(value, str) and _IDENTIFIER.fullmatch(value):
        return value
    raise Misfit(f"{text(value)[:80]!r} is not an identifier of ASCII segments", "NAME")


def flag(value: object) -> bool:
    """Return true or false."""
    if isinstance(value, bool):
        return value
    raise Misfit("is not true or false")


def decimal(value: object) -> str:
    """Return a decimal string of a gate."""
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return value
    raise _no_number(value)


def real(value: object) -> str:
    """Return a decimal string of a constant or scale."""
    if isinstance(value, str) and _REAL.fullmatch(value):
        return value
    raise _no_number(value)


def sha256(value: object) -> str:
    """Return 64 lower-case hex digits."""
    if isinstance(value, str) and _SHA256.fullmatch(value):
        return value
    raise Misfit("is not a sha256 of 64 lower-case hex digits", "DIGEST")


def revision(value: object) -> str:
    """Return a whole commit of 40 or 64 lower-case hex digits, or ``local``."""
    if isinstance(value, str) and (value == LOCAL or _COMMIT.fullmatch(value)):
        return value
    raise Misfit(f"is not a whole commit of 40 or 64 lower-case hex digits, nor {LOCAL!r} for a local build")


def digest_set(value: object) -> str:
    """Return the sha256 of an in-toto digest set; other algorithms are ignored and never sufficient."""
    if not isinstance(value, dict):
        raise Misfit("is not an object")
    if "sha256" not in value:
        raise Misfit("has no sha256", "DIGEST")
    found = value["sha256"]
    if isinstance(found, str) and _SHA256.fullmatch(found):
        return found
    return member(value, "sha256", sha256)  # which says what is wrong


def _no_number(value: object) -> Misfit:
    negative_zero = isinstance(value, str) and value.startswith("-0") and not value.strip("-0.")
    return Misfit("is a negative zero" if negative_zero else "is not a decimal string", "DECIMAL")


texts: Final[Reader[tuple[str, ...]]] = array(text)
text_map: Final[Reader[dict[str, str]]] = mapping(text)
