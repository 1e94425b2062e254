"""A policy costs bounded time and gives a coded refusal, whatever its bytes are."""

from __future__ import annotations

import pytest

from pytest_frt.certs.strict_toml import MAX_LINE_DOTS, parse_toml
from pytest_frt.errors import CertificateRefused

REFUSED = {
    "nested_arrays": (b"a = " + b"[" * 3_000, "POLICY_SYNTAX", "nested deeper"),
    "nested_tables": (b"a = " + b"{a=" * 3_000, "POLICY_SYNTAX", "nested deeper"),
    "integer_of_5000_digits": (b"a = " + b"9" * 5_000, "POLICY_SYNTAX", "is not TOML"),
    "key_of_100000_parts": (b"a." * 100_000 + b"a = 1", "POLICY_SYNTAX", "100000 dots, 100000 on one line"),
    "20001_dots": (b'a = "."\n'.replace(b"a", b"#") * 20_001, "POLICY_SYNTAX", "20001 dots, 1 on one line"),
    "not_utf8": (b'a = "\xff"', "POLICY_SYNTAX", "not UTF-8 at byte 5"),
    "float": (b"a = 1.5", "POLICY_SCHEMA", "the number 1.5 is a float"),
    "nan": (b"a = nan", "POLICY_SCHEMA", "the number nan is a float"),
    "member_twice": (b"a = 1\na = 2", "POLICY_SYNTAX", "is not TOML"),
    "control_character": (b'a = "\\u0007"', "JSON_STRING", "control"),
}


@pytest.mark.parametrize(("data", "code", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(data: bytes, code: str, words: str) -> None:
    with pytest.raises(CertificateRefused, match=words) as refused:
        parse_toml(data, "policy")
    assert refused.value.refusal_code == code


def test_dots_at_the_cap_are_read() -> None:
    key = ".".join(["a"] * (MAX_LINE_DOTS + 1))
    assert list(parse_toml(f"{key} = 1".encode(), "policy")) == ["a"]
    assert parse_toml(b"", "policy") == {}
