"""Encodings have one reading and one writing."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_frt.certs import dsse
from pytest_frt.certs.reading import Node, parse_time, time_text
from pytest_frt.certs.strict_json import ENVELOPE, STATEMENT, parse, real_text, serialise
from pytest_frt.errors import CertificateRefused
from pytest_frt.rules.rows import DECIMAL
from tests.certs.properties.strategies import DOCUMENTS, FEW, MANY
from tests.certs.vectors import world

TYPES = st.text("ab/ 0123456789é", max_size=12)
PAYLOADS = st.binary(max_size=20) | st.from_regex(rb"\A[0-9 ]{0,10}\Z")


@given(TYPES, PAYLOADS, TYPES, PAYLOADS)
@MANY
def test_no_two_things_are_signed_as_the_same_bytes(one: str, this: bytes, other: str, that: bytes) -> None:
    assert (dsse.pae(this, one) == dsse.pae(that, other)) == ((one, this) == (other, that))


@given(TYPES, PAYLOADS)
@MANY
def test_what_was_signed_can_be_read_back(kind: str, payload: bytes) -> None:
    head, _, rest = dsse.pae(payload, kind).partition(b" ")
    size, _, rest = rest.partition(b" ")
    found, rest = rest[: int(size)], rest[int(size) + 1 :]
    length, _, body = rest.partition(b" ")
    assert (head, found.decode(), int(length), body) == (b"DSSEv1", kind, len(payload), payload)


def line(payload: str) -> bytes:
    return world.dumped(world.envelope(b"x") | {"payload": payload})


@given(st.binary(min_size=1, max_size=40), st.sampled_from([base64.b64encode, base64.urlsafe_b64encode]))
@MANY
def test_base64_of_an_encoder_is_taken_in_either_alphabet(data: bytes, encode: Callable[[bytes], bytes]) -> None:
    assert dsse.parse_envelope(line(encode(data).decode())).payload == data


ALPHABET = "ABCDwxyz0189+/-_= \n"


@st.composite
def nearly_base64(draw: st.DrawFn) -> str:
    """Return what an encoder writes, with one character replaced."""
    text = base64.b64encode(draw(st.binary(min_size=1, max_size=7))).decode()
    at = draw(st.integers(0, len(text) - 1))
    return text[:at] + draw(st.sampled_from(ALPHABET)) + text[at + 1 :]


@given(nearly_base64() | st.text(ALPHABET, min_size=1, max_size=12))
@MANY
def test_base64_that_is_taken_is_what_an_encoder_writes(text: str) -> None:
    try:
        data = dsse.parse_envelope(line(text)).payload
    except CertificateRefused as refusal:
        assert refusal.refusal_code in {"B64", "JSON_STRING"}  # noqa: PT017 (acceptance is the other branch)
        return
    assert text in {base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()}


@given(DOCUMENTS)
@MANY
def test_a_document_is_written_one_way_and_read_back(value: Any) -> None:
    data = serialise(value)
    assert parse(data, STATEMENT) == value
    assert json.loads(data) == value
    assert serialise(parse(data, STATEMENT)) == data


@given(st.binary(max_size=60) | st.text('{}[]",:0129.eE-+ntfx\\u', max_size=40).map(str.encode))
@MANY
def test_any_bytes_are_refused_or_read_as_a_plain_reader_reads_them(data: bytes) -> None:
    try:
        value = parse(data, ENVELOPE)
    except CertificateRefused:
        return
    assert value == json.loads(data)


@given(DOCUMENTS, DOCUMENTS)
@FEW
def test_two_keys_of_one_name_are_refused_wherever_they_stand(one: Any, other: Any) -> None:
    text = f'[{{"deep":{{"Key":{serialise(one).decode()},"kEy":{serialise(other).decode()}}}}}]'
    with pytest.raises(CertificateRefused, match="differ in case only"):
        parse(text.encode(), STATEMENT)


@given(st.floats())
@MANY
def test_every_finite_number_has_a_text_that_reads_back_exactly(value: float) -> None:
    if not math.isfinite(value):
        with pytest.raises(CertificateRefused, match="not a finite number"):
            real_text(value)
        return
    text = real_text(value)
    assert float(text) == value
    assert not set(text) & set("eE+")


@given(st.from_regex(r"-?[0-9]{0,17}\.?[0-9]{0,14}", fullmatch=True) | st.text("-+.eE0159\uff10\u0661 _", max_size=8))
@MANY
def test_a_decimal_is_taken_exactly_when_it_is_written_the_one_way(text: str) -> None:
    negative_zero = text.startswith("-") and not text.strip("-0.")
    try:
        taken = Node(text, "number").decimal()
    except CertificateRefused as refusal:
        assert refusal.refusal_code == "DECIMAL"  # noqa: PT017 (acceptance is the other branch)
        assert negative_zero or not DECIMAL.fullmatch(text)
        return
    assert Decimal(taken).is_finite()
    assert text.isascii()
    assert DECIMAL.fullmatch(text)


@given(st.datetimes().map(lambda moment: moment.replace(microsecond=0, tzinfo=UTC)))
@MANY
def test_moments_are_written_one_way_and_read_back_or_refused(moment: datetime) -> None:
    if 1970 <= moment.year < 3000:
        assert parse_time(time_text(moment)) == moment
        return
    with pytest.raises(CertificateRefused, match="1970-2999"):
        parse_time(time_text(moment))


@given(st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|\+00:00|)", fullmatch=True))
@MANY
def test_a_moment_that_is_taken_is_what_a_writer_writes(text: str) -> None:
    try:
        moment = parse_time(text)
    except CertificateRefused as refusal:
        assert refusal.refusal_code == "TIME_FORMAT"  # noqa: PT017 (acceptance is the other branch)
        return
    assert f"{moment.year:04}{time_text(moment)[-16:]}" == text
