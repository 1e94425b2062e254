"""Readers take exactly what they name; a misfit says where it lies, whatever it is nested in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.certs import shape, statement
from pytest_frt.certs.reading import Node, parse_time
from pytest_frt.certs.shape import Misfit, Reader
from pytest_frt.errors import CertificateRefused

if TYPE_CHECKING:
    from tests.certs.conftest import World

PAIR: Reader[tuple[str, int]] = shape.record(lambda a, b: (a, b), ("a", shape.text), ("b", shape.integer(1, 5)))
TAKEN: dict[str, tuple[Reader[Any], object, object]] = {
    "record": (PAIR, {"b": 5, "a": "x", "more": None}, ("x", 5)),
    "array": (shape.array(shape.flag), [True, False], (True, False)),
    "empty array": (shape.texts, [], ()),
    "mapping": (shape.text_map, {"a": "b"}, {"a": "b"}),
    "word": (shape.word("x", "y"), "y", "y"),
    "identifier of four segments": (shape.identifier, "a/B.c/d+e/f@1", "a/B.c/d+e/f@1"),
    "decimal": (shape.decimal, "-0.5", "-0.5"),
    "small real": (shape.real, "0." + "0" * 59 + "1", "0." + "0" * 59 + "1"),
    "digest set": (shape.digest_set, {"sha512": "x", "sha256": "a" * 64}, "a" * 64),
    "sign of an integer": (shape.integer(-3), -3, -3),
}
MISFITS: dict[str, tuple[Reader[Any], object, str, str]] = {
    "no object": (PAIR, [], "", "is not an object"),
    "no member": (PAIR, {"a": "x"}, "", "has no member 'b'"),
    "first member": (PAIR, {"a": 1, "b": 1}, "a", "is not text"),
    "second member": (PAIR, {"a": "x", "b": 6}, "b", "is not an integer from 1 to 5"),
    "no array": (shape.texts, {}, "", "is not an array"),
    "third item": (shape.texts, ["", "", None], "[2]", "is not text"),
    "nested": (
        shape.mapping(shape.array(PAIR)),
        {"k": [{"a": "x", "b": 1}, {"a": "x", "b": 0}]},
        "k[1].b",
        "is not an",
    ),
    "name of a mapping": (shape.mapping(shape.flag), {"a": True, "b": 1}, "b", "is not true or false"),
    "number as flag": (shape.flag, 1, "", "is not true or false"),
    "flag as number": (shape.integer(), True, "", "is not an integer"),
    "text as number": (shape.integer(), "1", "", "is not an integer"),
    "other word": (shape.word("x", "y"), "z", "", "is not one of x, y"),
    "list as word": (shape.word("x", "y"), ["x"], "", "is not text"),
    "five segments": (shape.identifier, "a/b/c/d/e", "", "is not an identifier"),
    "line feed after identifier": (shape.identifier, "a\n", "", "is not an identifier"),
    "number as identifier": (shape.identifier, 1, "", "is not text"),
    "13 fraction digits": (shape.decimal, "0." + "1" * 13, "", "is not a decimal"),
    "61 fraction digits": (shape.real, "0." + "1" * 61, "", "is not a decimal"),
    "number as decimal": (shape.decimal, 1, "", "is not a decimal"),
    "negative zero": (shape.decimal, "-0.00", "", "is a negative zero"),
    "no sha256": (shape.digest_set, {"md5": "x"}, "", "has no sha256"),
    "upper-case sha256": (shape.digest_set, {"sha256": "A" * 64}, "sha256", "is not a sha256"),
    "63 digits": (shape.sha256, "a" * 63, "", "is not a sha256"),
}


@pytest.mark.parametrize(("read", "value", "want"), TAKEN.values(), ids=TAKEN)
def test_taken(read: Reader[Any], value: object, want: object) -> None:
    assert read(value) == want


@pytest.mark.parametrize(("read", "value", "place", "said"), MISFITS.values(), ids=MISFITS)
def test_misfit_says_where(read: Reader[Any], value: object, place: str, said: str) -> None:
    with pytest.raises(Misfit) as caught:
        read(value)
    assert caught.value.place == place
    assert said in caught.value.said


def test_an_error_of_a_reader_is_no_missing_member() -> None:
    broken = shape.record(lambda a: a, ("a", lambda _: {}["inside"]))
    with pytest.raises(KeyError, match="inside"):
        broken({"a": 1})


def test_the_place_of_a_fault_is_its_path_in_the_whole_document(world: World) -> None:
    spoiled = world.spoiled(lambda d: d["predicate"]["seats"][1]["slots"]["w_up"].update(transpose=0))
    with pytest.raises(
        CertificateRefused, match=r"^statement\.predicate\.seats\[1\]\.slots\.w_up\.transpose is not true"
    ):
        statement.parse_payload(spoiled)


@pytest.mark.parametrize(
    ("reader", "code"),
    [(shape.text, "MINE"), (shape.decimal, "DECIMAL"), (shape.sha256, "DIGEST"), (shape.identifier, "MINE")],
)
def test_a_fault_without_a_code_has_that_of_its_document(reader: Reader[str], code: str) -> None:
    with pytest.raises(CertificateRefused, match=r"^doc\.x ") as caught:
        Node({"x": 1}, "doc", code="MINE").get("x").read(reader)
    assert caught.value.refusal_code == code


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-30T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:60Z",
        "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00Z\n",
    ],
)
def test_a_moment_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(CertificateRefused) as caught:
        parse_time(text)
    assert caught.value.refusal_code == "TIME_FORMAT"
