"""The strict dialect at its edges: the last document that is taken, the order of the checks, and texts for people."""

from __future__ import annotations

import json

import pytest

from pytest_frt.certs import strict_json
from pytest_frt.certs.strict_json import ENVELOPE, STATEMENT, Caps, Json, check_strings, parse, serialise
from pytest_frt.errors import CertificateRefused

MAX = 2**53 - 1
SMALL = Caps(size=64, depth=3, separators=4, string=5)


def refused(data: bytes, caps: Caps = STATEMENT) -> CertificateRefused:
    with pytest.raises(CertificateRefused) as caught:
        parse(data, caps)
    return caught.value


def test_the_published_caps() -> None:
    assert Caps(1) == Caps(1, 24, 20_000, 4_096, breaks=False)
    assert Caps(256 * 1024) == STATEMENT
    assert Caps(512 * 1024, string=512 * 1024, breaks=True) == ENVELOPE


@pytest.mark.parametrize(
    ("fine", "bad", "code", "said"),
    [
        (b"1" + b" " * 63, b"1" + b" " * 64, "JSON_SIZE", "65 bytes, over the cap of 64"),
        (b"[[[1]]]", b"[[[[1]]]]", "JSON_DEPTH", "nested deeper than 3"),
        (b"[[[]],[[]]]", b"[[[]],[[[]]]]", "JSON_DEPTH", "nested deeper than 3"),
        (b"[1,2,3,4,5]", b"[1,2,3,4,5,6]", "JSON_TOKENS", "5 commas and colons, over the cap of 4"),
        (b'[{"a":1},2,3,4]', b'[{"a":1},2,3,4,5]', "JSON_TOKENS", "5 commas and colons, over the cap of 4"),
        (b'["abcde"]', b'["abcdef"]', "JSON_STRING", "a string of 6 characters, over the cap of 5"),
        (b'["\\u0061bcde"]', b'["\\u0061bcdef"]', "JSON_STRING", "a string of 6 characters, over the cap of 5"),
        (b'{"abcde":1}', b'{"abcdef":1}', "JSON_STRING", "a string of 6 characters, over the cap of 5"),
        ('["äöüäö"]'.encode(), '["äöüäöü"]'.encode(), "JSON_STRING", "a string of 6 characters, over the cap of 5"),
        (b"[[[]]]", b"[[[", "JSON_SYNTAX", "not JSON at character 3: Expecting value"),
        (b"[[],[],[]]", b"[[],[],[],", "JSON_SYNTAX", "not JSON at character 10: Expecting value"),
        (b"          1", b"          x", "JSON_SYNTAX", "not JSON at character 10: Expecting value"),
    ],
)
def test_a_cap_holds_to_the_last_unit(fine: bytes, bad: bytes, code: str, said: str) -> None:
    assert parse(fine, SMALL) == json.loads(fine)
    found = refused(bad, SMALL)
    assert found.refusal_code == code
    assert found.message.startswith(said)


@pytest.mark.parametrize("number", [0, 1, -1, MAX, -MAX, 10**15 - 1, 10**15, -(10**15)])
def test_integers_are_taken_up_to_the_last_that_a_double_holds(number: int) -> None:
    assert parse(str(number).encode(), STATEMENT) == number


@pytest.mark.parametrize("text", ["9007199254740992", "-9007199254740992", "-0", "9" * 17, "-" + "9" * 17, "9" * 5_000])
def test_integers_beyond_are_refused(text: str) -> None:
    found = refused(text.encode())
    assert found.refusal_code == "JSON_INT"
    assert f"an integer of {len(text)} characters" in found.message


ORDER: dict[str, tuple[bytes, str]] = {
    "size before mark": (b"\xef\xbb\xbf" + b" " * 62, "JSON_SIZE"),
    "mark before NUL": (b"\xef\xbb\xbf\x00", "JSON_BOM"),
    "NUL before UTF-8": (b"\xff\x00", "JSON_NUL"),
    "UTF-8 before depth": (b"[[[[\xff", "JSON_UTF8"),
    "separators before depth": (b"[[[[,,,,,", "JSON_TOKENS"),
    "depth before syntax": (b"[[[[", "JSON_DEPTH"),
    "keys before strings": (b'{"abcdef":1,"abcdef":1}', "JSON_DUPKEY"),
}


@pytest.mark.parametrize(("data", "code"), ORDER.values(), ids=ORDER)
def test_the_cheaper_check_comes_first(data: bytes, code: str) -> None:
    assert refused(data, SMALL).refusal_code == code


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'["a","\x00"]', "holds a NUL byte at offset 6"),
        (b'["a","\xff"]', "not UTF-8 at byte 6"),
        (b'{"a":1,"a":2,"b":3}', "an object repeats a key: 3 colons, 2 members"),
        (b'{"a":1,"A":2}', "an object has keys that differ in case only"),
        (b"[1.25]", "a number of 4 characters is no integer"),
        (b"[-Infinity]", "a number of 9 characters is no integer"),
    ],
)
def test_a_refusal_says_where_in_numbers(data: bytes, said: str) -> None:
    assert refused(data).message == said


# The first and the last character of each range that is refused; their neighbours outside are taken.
RANGES = [
    (0x00, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x61C, 0x61C), (0x180E, 0x180E), (0x200B, 0x200F), (0x2028, 0x202E),
    (0x2060, 0x206F), (0xD800, 0xDFFF), (0xFEFF, 0xFEFF), (0xE0000, 0xE007F),
]  # fmt: skip


@pytest.mark.parametrize(("first", "last"), RANGES, ids=[hex(one[0]) for one in RANGES])
def test_characters_that_deceive_are_refused_from_the_first_to_the_last(first: int, last: int) -> None:
    for code in {first, last}:
        assert not strict_json.printable(chr(code))
        assert refused(json.dumps(chr(code)).encode()).refusal_code == "JSON_STRING"
    for code in {first - 1, last + 1} - {-1}:
        assert strict_json.printable(chr(code))
        assert parse(json.dumps(chr(code), ensure_ascii=False).encode(), STATEMENT) == chr(code)


@pytest.mark.parametrize("text", ["\u202e", "\x7f", "\u0085", "\u200b", "\ufeff"], ids=ascii)
@pytest.mark.parametrize("shape", ['["{}"]', '{{"{}":1}}', '{{"a":[1,{{"{}":2}}]}}', '["a",["b","{}"]]'])
def test_a_deceiving_character_is_found_wherever_it_stands(shape: str, text: str) -> None:
    assert refused(shape.format(text).encode()).refusal_code == "JSON_STRING"


def test_line_feeds_are_taken_in_values_where_the_caps_let_them() -> None:
    lines = Caps(size=64, string=5, breaks=True)
    assert parse(b'["a\\nb"]', lines) == ["a\nb"]
    assert parse(b'["abc\\nde"]', lines) == ["abc\nde"]
    for data in (b'{"a\\nb":1}', b'["a\\rb"]', b'["abc\\ndef"]'):
        assert refused(data, lines).refusal_code == "JSON_STRING"
    assert refused(b'["a\\nb"]').refusal_code == "JSON_STRING"


def test_strings_of_a_document_that_another_parser_read_hold_no_line_feed() -> None:
    check_strings({"a": ["b", 1, None, {"c": "d"}]}, 1)
    for spoiled in ("a\nb", ["a\nb"], {"a\nb": 1}, {"a": {"b": ["c", "d\n"]}}):
        with pytest.raises(CertificateRefused) as caught:
            check_strings(spoiled, 4)
        assert caught.value.refusal_code == "JSON_STRING"


@pytest.mark.parametrize("quotes", [1, 2, 3])
def test_a_long_string_is_found_behind_any_number_of_short_ones(quotes: int) -> None:
    short = ",".join(['"ab"'] * quotes)
    assert parse(f'[{short},"abcde"]'.encode(), SMALL)
    assert refused(f'[{short},"abcdef"]'.encode(), SMALL).refusal_code == "JSON_STRING"
    assert refused(f'["abcdef",{short}]'.encode(), SMALL).refusal_code == "JSON_STRING"


def test_names_of_different_objects_may_differ_in_case_and_those_of_one_may_not() -> None:
    assert parse(b'[{"a":1},{"A":2},{"b":{"B":3}}]', STATEMENT) == [{"a": 1}, {"A": 2}, {"b": {"B": 3}}]
    for data in (b'[{"x":1},{"a":1,"A":2}]', b'[{"a":1,"A":2},{"x":1}]', b'{"ss":1,"\xc3\x9f":2}'):
        assert refused(data).refusal_code == "JSON_DUPKEY"


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"b": 1, "a": [True, None, "ü"]}, '{"a":[true,null,"ü"],"b":1}'),
        ([], "[]"),
        ("\\", '"\\\\"'),
    ],
)
def test_canonical_bytes_are_sorted_short_and_not_escaped(value: Json, data: str) -> None:
    assert serialise(value) == data.encode()


def test_the_writer_obeys_the_caps_it_is_given_and_names_the_character() -> None:
    assert serialise("abcde", SMALL) == b'"abcde"'
    spoiled: list[Json] = ["abcdef", [[[[]]]], [1, 2, 3, 4, 5, 6], 2**53]
    for value in spoiled:
        with pytest.raises(CertificateRefused):
            serialise(value, SMALL)
    with pytest.raises(CertificateRefused, match=r"holds the character U\+00AD") as caught:
        serialise("a\xad")
    assert caught.value.refusal_code == "JSON_STRING"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (-0.0, "0"), (1.0, "1"), (100.0, "100"), (-10.0, "-10"), (0.1, "0.1"), (1e-7, "0.0000001"),
        (1e22, "10000000000000000000000"), (-2.5, "-2.5"), (5e-324, f"0.{'0' * 323}5"),
    ],
)  # fmt: skip
def test_a_real_number_is_written_short_and_whole(value: float, text: str) -> None:
    assert strict_json.real_text(value) == text


def test_what_is_no_number_is_refused_by_code() -> None:
    with pytest.raises(CertificateRefused) as caught:
        strict_json.real_text(float("nan"))
    assert caught.value.refusal_code == "DECIMAL"


def test_a_text_for_people_is_one_line_of_at_most_the_limit() -> None:
    assert strict_json.clean_text("a\nb\u202ec", 5) == "a b c"
    assert strict_json.clean_text("abcdef", 5) == "abcd…"
    assert strict_json.clean_text("x" * 4_096) == "x" * 4_096
    assert strict_json.clean_text("x" * 4_097) == "x" * 4_095 + "…"


def test_a_file_name_is_shown_with_what_is_not_printable_escaped() -> None:
    assert strict_json.one_line("a\nb\x1b[0m\u202eü ok") == "a\\nb\\x1b[0m\\u202eü ok"
