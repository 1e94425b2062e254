"""File names at their limits, moments in the one format, and what a cursor gives and refuses, each with its place."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from pytest_frt.certs.reading import Node, check_file_name, parse_time, time_text
from pytest_frt.errors import CertificateRefused

LONGEST = "a" * 127 + "/" + "b" * 127
DEEPEST = "/".join("abcdefghijkl")


def refusal(act: Callable[[], object]) -> tuple[str, str]:
    """Return code and message of what an act refuses."""
    with pytest.raises(CertificateRefused) as caught:
        act()
    return caught.value.refusal_code, caught.value.message


@pytest.mark.parametrize("name", [LONGEST, DEEPEST, "a" * 255, "a.b-c_d+e@f/0"], ids=len)
def test_file_name_at_its_limits(name: str) -> None:
    assert check_file_name(name) == name


FAR = {
    "a character more": f"{LONGEST}c",
    "a folder more": f"{DEEPEST}/m",
    "both": "/".join("ab" * 100),
}


@pytest.mark.parametrize("name", FAR.values(), ids=FAR)
def test_file_name_beyond_its_limits(name: str) -> None:
    code, message = refusal(lambda: check_file_name(name))
    assert (code, f"{len(name)} characters" in message) == ("NAME", True)


@pytest.mark.parametrize("name", ["", "/a", "a//b", "a/", ".a", "a/.b", "a.", "a/..", "con", "é", "a b", "a" * 256])
def test_file_name_that_is_not_plain(name: str) -> None:
    code, message = refusal(lambda: check_file_name(name))
    assert (code, "is not plain" in message) == ("NAME", True)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), "1970-01-01T00:00:00Z"),
        (datetime(2999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), "2999-12-31T23:59:59Z"),
        (datetime(2026, 3, 1, 1, 30, tzinfo=timezone(timedelta(hours=2))), "2026-02-28T23:30:00Z"),
    ],
)
def test_moment_is_written_in_utc_and_read_back(moment: datetime, text: str) -> None:
    assert time_text(moment) == text
    assert parse_time(text) == moment.replace(microsecond=0)


def test_moment_without_a_zone_is_not_written() -> None:
    assert refusal(lambda: time_text(datetime(2026, 1, 1))) == (  # noqa: DTZ001 (that is what is refused)
        "TIME_FORMAT",
        "time 2026-01-01T00:00:00 has no time zone",
    )


@pytest.mark.parametrize("year", ["1969", "3000", "0000", "9999"])
def test_year_beyond_what_is_taken(year: str) -> None:
    text = f"{year}-01-01T00:00:00Z"
    words = f"is '{text}', not a moment written YYYY-MM-DDTHH:MM:SSZ, 1970-2999"
    assert refusal(lambda: parse_time(text)) == ("TIME_FORMAT", f"time {words}")
    assert refusal(lambda: Node({"at": text}, "doc").get("at").moment()) == ("TIME_FORMAT", f"doc.at {words}")


DOCUMENT = {"text": "abc", "list": [{"a": 1}, {"b": -1}], "zero": 0, "object": {"a": 1, "b": None}}
ROOT = Node(DOCUMENT, "doc")
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "a member that is not there": (lambda: ROOT.get("more"), "doc has no member 'more'"),
    "a member of a text": (lambda: ROOT.get("text").get("a"), "doc.text is not an object"),
    "a member of an array": (lambda: Node(["a"], "doc").get("a"), "doc is not an object"),
    "a member of a number": (lambda: ROOT.get("zero").get("a"), "doc.zero is not an object"),
    "a member of a text that may be absent": (lambda: ROOT.get("text").find("a"), "doc.text is not an object"),
    "members of an array": (lambda: list(ROOT.get("list").pairs()), "doc.list is not an object"),
    "known members of a text": (lambda: ROOT.get("text").only("a"), "doc.text is not an object"),
    "items of an object": (lambda: ROOT.get("object").items(), "doc.object is not an array"),
    "items of a text": (lambda: ROOT.get("text").items(), "doc.text is not an array"),
    "a member of an item": (lambda: ROOT.get("list").items()[1].get("a"), "doc.list[1] has no member 'a'"),
    "a value of an item": (
        lambda: ROOT.get("list").items()[1].get("b").integer(),
        f"doc.list[1].b is not an integer from 0 to {2**53 - 1}",
    ),
    "another unknown member": (lambda: ROOT.only(("text", "zero")), "doc has the unknown member 'list'"),
}


@pytest.mark.parametrize(("act", "message"), REFUSED.values(), ids=REFUSED)
def test_refusal_says_where(act: Callable[[], object], message: str) -> None:
    assert refusal(act) == ("SCHEMA", message)


def test_unknown_member_is_told_the_known_ones() -> None:
    with pytest.raises(CertificateRefused) as caught:
        ROOT.only(("text", "zero"))
    assert caught.value.hint == "known: text, zero"
    assert ROOT.only(DOCUMENT) is ROOT


def test_code_of_a_document_is_that_of_everything_in_it() -> None:
    inner = Node(DOCUMENT, "doc", code="MINE").get("list").items()[0]
    assert (inner.where, inner.code) == ("doc.list[0]", "MINE")
    assert refusal(lambda: inner.get("a").flag()) == ("MINE", "doc.list[0].a is not true or false")


def test_cursor_gives_what_is_there() -> None:
    found: dict[str, Any] = {name: (node.where, node.value) for name, node in ROOT.get("object").pairs()}
    assert found == {"a": ("doc.object.a", 1), "b": ("doc.object.b", None)}
    empty, absent = ROOT.get("object").find("b"), ROOT.find("more")
    assert (empty is not None, absent) == (True, None)
    assert ROOT.get("zero").integer() == 0
    assert ROOT.get("text").word(("abc", "x")) == ROOT.get("text").text() == ROOT.get("text").identifier() == "abc"
