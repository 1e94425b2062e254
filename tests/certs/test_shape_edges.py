"""Readers at the edges: values of another type, ranges at their ends, and faults that are never lost."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_frt.certs import shape
from pytest_frt.certs.shape import Misfit, Reader

TAKEN: dict[str, tuple[Reader[Any], object]] = {
    "members": (shape.members, {"a": 1}),
    "zero": (shape.integer(), 0),
    "short commit hash": (shape.revision, "0123456789" * 4),
    "long commit hash": (shape.revision, "a" * 64),
    "no commit": (shape.revision, "local"),
}
REFUSED: dict[str, tuple[Reader[Any], object, str, str, str]] = {
    "members of a list": (shape.members, [], "", "is not an object", ""),
    "mapping of a list": (shape.text_map, [], "", "is not an object", ""),
    "digest set of a list": (shape.digest_set, ["sha256"], "", "is not an object", ""),
    "below zero": (shape.integer(), -1, "", "is not an integer from 0", ""),
    "number as real": (shape.real, 1, "", "is not a decimal string", "DECIMAL"),
    "number as commit": (shape.revision, 1, "", "is not a whole commit", ""),
    "branch as commit": (shape.revision, "main", "", "is not a whole commit", ""),
    "39 digits as commit": (shape.revision, "a" * 39, "", "is not a whole commit", ""),
    "41 digits as commit": (shape.revision, "a" * 41, "", "is not a whole commit", ""),
    "number as sha256": (shape.digest_set, {"sha256": 1}, "sha256", "is not a sha256", "DIGEST"),
    "no sha256": (shape.digest_set, {}, "", "has no sha256", "DIGEST"),
    "blank in a name": (shape.identifier, "a b", "", "is not an identifier", "NAME"),
    "two zeros": (shape.decimal, "00", "", "is not a decimal string", "DECIMAL"),
    "negative with a leading zero": (shape.decimal, "-01", "", "is not a decimal string", "DECIMAL"),
    "negative zero": (shape.real, "-0", "", "is a negative zero", "DECIMAL"),
}


@pytest.mark.parametrize(("read", "value"), TAKEN.values(), ids=TAKEN)
def test_taken_as_it_is(read: Reader[Any], value: object) -> None:
    assert read(value) == value


@pytest.mark.parametrize(("read", "value", "place", "said", "code"), REFUSED.values(), ids=REFUSED)
def test_refused_with_its_code(read: Reader[Any], value: object, place: str, said: str, code: str) -> None:
    with pytest.raises(Misfit, match=said) as caught:
        read(value)
    assert (caught.value.place, caught.value.code) == (place, code)


class Moody:
    """A reader that misfits once and takes everything from then on."""

    asked = 0

    def __call__(self, value: object) -> object:
        self.asked += 1
        if self.asked == 1:
            raise Misfit("does not suit")
        return value


@pytest.mark.parametrize(
    ("reader", "value"),
    [(lambda read: shape.record(list, ("a", read)), {"a": 1}), (shape.array, [1]), (shape.mapping, {"a": 1})],
    ids=["record", "array", "mapping"],
)
def test_no_fault_is_lost_when_its_place_cannot_be_found(reader: Any, value: object) -> None:
    with pytest.raises(Misfit, match="does not suit"):
        reader(Moody())(value)
