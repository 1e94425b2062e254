"""Frozen dataclasses of ``contracts`` to JSON and back; reading refuses unknown fields and wrong types."""

from __future__ import annotations

import json
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from pytest_frt.contracts.job import Job
from pytest_frt.contracts.seat import Seat
from pytest_frt.contracts.verdict import Verdict
from pytest_frt.errors import EvidenceError

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")
TAG = "type"
"""Key that holds the member's class name wherever a closed union is written."""
TAGGED: tuple[UnionType, ...] = (Seat, Verdict, Job)


def _strict(kind: type, *, also: type | None = None) -> Any:  # noqa: ANN401 (cattrs' hook type)
    def read(value: object, _: type) -> object:
        if type(value) is kind or (also is not None and type(value) is also):
            return kind(value)
        raise ValueError(f"needs {kind.__name__}, has {type(value).__name__} {value!r}")

    return read


def _is_tuple(kind: object) -> bool:
    return get_origin(kind) is tuple


def _read_tuple(value: object, kind: Any) -> tuple[Any, ...]:  # noqa: ANN401 (cattrs' hook types)
    """Read a tuple from a list; a text is no sequence of letters."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"needs a list, has {type(value).__name__} {value!r}")  # noqa: TRY004 (one kind of fault)
    kinds = get_args(kind)
    if kinds[1:] == (...,):
        kinds = kinds[:1] * len(value)
    if len(kinds) != len(value):
        raise ValueError(f"needs {len(kinds)} values, has {len(value)}")
    return tuple(_converter().structure(item, one) for item, one in zip(value, kinds, strict=True))


@cache
def _converter() -> Converter:
    from cattrs import Converter
    from cattrs.strategies import configure_tagged_union

    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    for kind in (int, str, bool):
        converter.register_structure_hook(kind, _strict(kind))
    converter.register_structure_hook(float, _strict(float, also=int))
    converter.register_structure_hook_func(_is_tuple, _read_tuple)
    for union in TAGGED:
        configure_tagged_union(union, converter, tag_name=TAG)
    return converter


def to_json(value: object) -> Any:  # noqa: ANN401 (JSON has no narrower type)
    """Return ``value`` as dicts, lists, strings, numbers, booleans and None; a union member carries ``TAG``.

    A bare member of a closed union is tagged as well, so that :func:`from_json` can read it as the union.
    """
    out = _converter().unstructure(value)
    if any(isinstance(value, union) for union in TAGGED):
        return {**out, TAG: type(value).__name__}
    return _listed(out)


def _listed(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value


def from_json(kind: type[T], value: object) -> T:
    """Read ``value`` as ``kind``, a dataclass of ``contracts``, a closed union of them, or a tuple of either.

    Raises:
        EvidenceError: an unknown or missing field, or a value of another type; every fault is named with its place.
    """
    from cattrs import transform_error
    from cattrs.errors import BaseValidationError, StructureHandlerNotFoundError

    try:
        return _converter().structure(value, kind)
    except BaseValidationError as fault:
        faults = "; ".join(transform_error(fault))
    except (ValueError, TypeError, KeyError, AttributeError, StructureHandlerNotFoundError) as fault:
        faults = f"{type(fault).__name__}: {fault}"
    raise EvidenceError(f"not a {getattr(kind, '__name__', kind)}: {faults}")


def dumps(value: object) -> str:
    """Return :func:`to_json` as JSON text with sorted keys, one value per line.

    Raises:
        ValueError: a NaN or an infinity, which JSON has no word for.
    """
    return json.dumps(to_json(value), sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)


def loads(kind: type[T], text: str | bytes) -> T:
    """Read JSON text as ``kind``.

    Raises:
        EvidenceError: not JSON, or :func:`from_json` refuses it.
    """
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    except ValueError as fault:
        raise EvidenceError(f"not JSON: {fault}") from fault
    return from_json(kind, value)


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON number")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return out
