"""The parser gives back exactly what was written, or refuses with a code. Caps hold before the costly step."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_frt.certs import dsse, keys, statement
from pytest_frt.certs.strict_json import ENVELOPE, FORBIDDEN_TEXT, STATEMENT, Json, parse, real_text, serialise
from pytest_frt.errors import CertificateRefused

KEY = keys.generate()
PAYLOAD = serialise({"a": ["b", 1, None], "c": "text"})
LINE = dsse.sign(PAYLOAD, KEY).encode()
REFUSED = [
    ("size", b'"' + b"x" * STATEMENT.size + b'"', "JSON_SIZE"),
    ("byte order mark", b"\xef\xbb\xbf{}", "JSON_BOM"),
    ("UTF-16", '{"a":1}'.encode("utf-16-le"), "JSON_NUL"),
    ("NUL", b'{"a":"\x00"}', "JSON_NUL"),
    ("latin-1", b'{"a":"\xe9"}', "JSON_UTF8"),
    ("overlong encoding", b'{"a":"\xc0\xaf"}', "JSON_UTF8"),
    ("25 levels", b"[" * 25 + b"]" * 25, "JSON_DEPTH"),
    ("25 levels of both kinds", b'[{"a":' * 12 + b"[]" + b"}]" * 12, "JSON_DEPTH"),
    ("25 levels after a pair", b"[[]," + b"[" * 24 + b"]" * 25, "JSON_DEPTH"),
    ("25 levels of another closing", b"[" * 25 + b"}" * 25, "JSON_DEPTH"),
    ("100,000 levels", b"[" * 100_000, "JSON_DEPTH"),
    ("20,001 separators", b"[" + b"1," * 20_001 + b"1]", "JSON_TOKENS"),
    ("duplicate key", b'{"a":1,"a":1}', "JSON_DUPKEY"),
    ("duplicate key by escape", b'{"a":1,"\\u0061":1}', "JSON_DUPKEY"),
    ("duplicate key of an inner object", b'{"a":{"b":1,"b":2},"c":3}', "JSON_DUPKEY"),
    ("duplicate key over an inner object", b'{"a":{"b":1},"a":2}', "JSON_DUPKEY"),
    ("duplicate key beside a colon in a string", b'{"a:":1,"a:":2}', "JSON_DUPKEY"),
    ("case twins", b'{"a":1,"A":1}', "JSON_DUPKEY"),
    ("case twins of an inner object", b'[{"b":{"a":1,"A":1}}]', "JSON_DUPKEY"),
    ("Kelvin sign", '{"k":1,"\u212a":1}'.encode(), "JSON_DUPKEY"),
    ("float", b"[1.0]", "JSON_FLOAT"),
    ("exponent", b"[1e3]", "JSON_FLOAT"),
    ("NaN", b"[NaN]", "JSON_FLOAT"),
    ("Infinity", b"[Infinity]", "JSON_FLOAT"),
    ("minus zero", b"[-0]", "JSON_INT"),
    ("2**53", b"[9007199254740992]", "JSON_INT"),
    ("4,300 digits", b"[" + b"9" * 4300 + b"]", "JSON_INT"),
    ("long string", b'"' + b"x" * 4097 + b'"', "JSON_STRING"),
    ("long string after short ones", b'["a","b","' + b"x" * 4097 + b'","c"]', "JSON_STRING"),
    ("long string among many", b'["' + b'a","' * 3000 + b"x" * 4097 + b'"]', "JSON_STRING"),
    ("long key", b'{"' + b"x" * 4097 + b'":1}', "JSON_STRING"),
    ("escaped line feed", b'"\\n"', "JSON_STRING"),
    ("raw line feed", b'"\n"', "JSON_SYNTAX"),
    ("C1 control", b'"\\u0085"', "JSON_STRING"),
    ("right-to-left override", '"\u202e"'.encode(), "JSON_STRING"),
    ("zero width space", b'"\\u200b"', "JSON_STRING"),
    ("lone surrogate", b'"\\ud800"', "JSON_STRING"),
    ("unterminated string", b'"abc', "JSON_SYNTAX"),
    ("two values", b"{}{}", "JSON_SYNTAX"),
    ("comment", b"/* */{}", "JSON_SYNTAX"),
    ("nothing", b"", "JSON_SYNTAX"),
]
TEXT = st.text(st.characters(codec="utf-8").filter(lambda c: not FORBIDDEN_TEXT.search(c)), max_size=20)
LEAVES = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT
DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(st.tuples(TEXT, inner), max_size=4, unique_by=lambda pair: pair[0].casefold()).map(dict)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(("data", "code"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refused(data: bytes, code: str) -> None:
    with pytest.raises(CertificateRefused) as caught:
        parse(data, STATEMENT)
    assert caught.value.refusal_code == code


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 24 + b"]" * 24,
        b'[{"a":' * 12 + b"1" + b"}]" * 12,
        b'[{"a":1},{"A":1}]',
        b'{"a":":","b":{"a":"{"}}',
        b'["' + b"x" * 4096 + b'","' + b"y" * 4096 + b'"]',
        b'"[[[[[[[[[[[[[[[[[[[[[[[[[["',
        rb'["\"[", "\\", 9007199254740991]',
        b" {} ",
    ],
)
def test_within_the_caps(data: bytes) -> None:
    assert parse(data, STATEMENT) == json.loads(data)


@settings(max_examples=60, deadline=None)
@given(DOCUMENTS)
def test_what_is_written_reads_back(document: Json) -> None:
    data = serialise(document)
    assert parse(data, STATEMENT) == document
    assert serialise(parse(data, STATEMENT)) == data


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:\\ue0169-.NaIfity ', max_size=60).map(str.encode))
def test_any_bytes_are_read_as_the_library_reads_them_or_refused(data: bytes) -> None:
    try:
        outcome: Json | CertificateRefused = parse(data, STATEMENT)
    except CertificateRefused as refusal:
        outcome = refusal
    if isinstance(outcome, CertificateRefused):
        assert outcome.refusal_code.startswith("JSON_")
    else:
        assert outcome == json.loads(data)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_change_of_a_signed_line_is_refused_or_changes_nothing(data: st.DataObject) -> None:
    line = bytearray(LINE)
    at = data.draw(st.integers(0, len(line) - 1))
    line[at] = data.draw(st.integers(0, 255))
    try:
        envelope = dsse.parse_envelope(bytes(line))
        signed = dsse.signers(envelope, [KEY.public])
    except CertificateRefused:
        return
    assert not signed or envelope.payload == PAYLOAD


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_any_payload_is_refused_with_a_code(payload: bytes) -> None:
    with pytest.raises(CertificateRefused):
        statement.parse_payload(payload)


@settings(max_examples=200, deadline=None)
@given(st.floats(-1e14, 1e14, allow_subnormal=False))
def test_real_text_is_exact_and_has_no_exponent(value: float) -> None:
    text = real_text(value)
    assert float(text) == value
    assert "e" not in text.lower()
    assert text != "-0"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")], ids=str)
def test_real_text_refuses_what_is_no_number(value: float) -> None:
    with pytest.raises(CertificateRefused, match="finite"):
        real_text(value)


@pytest.mark.parametrize("spoil", [{"a": 1.5}, {"a": "\ud800"}, {"a": 2**53}, {"a": "x\ny"}], ids=repr)
def test_the_signer_cannot_write_what_the_verifier_refuses(spoil: Json) -> None:
    with pytest.raises(CertificateRefused):
        serialise(spoil)


def test_hostile_strings_cost_one_pass() -> None:
    """Unterminated strings full of escaped quotes must not be scanned once per quote: that would take minutes."""
    data = b'"' + b'\\"' * (STATEMENT.size // 2 - 1)
    start = time.process_time()
    with pytest.raises(CertificateRefused, match="JSON"):
        parse(data, ENVELOPE)
    assert time.process_time() - start < 5
