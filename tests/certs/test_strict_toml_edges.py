"""Caps of a policy's text at their ends: dots on a line, dots in all, letters of a string."""

from __future__ import annotations

import pytest

from pytest_frt.certs.strict_json import STATEMENT
from pytest_frt.certs.strict_toml import parse_toml
from pytest_frt.errors import CertificateRefused

LINE, ALL = 256, 20_000
TAKEN = {
    "dots on one line": b"#" + b"." * LINE,
    "dots in all": b"#.\n" * ALL,
    "full lines": (b"#" + b"." * LINE + b"\n") * (ALL // LINE),
    "letters of a string": f'a = "{"x" * STATEMENT.string}"'.encode(),
    "names of a table": b"[a.b]\nc = 1",
}
REFUSED = {
    "dots on one line": (b"#" + b"." * (LINE + 1), "POLICY_SYNTAX", f"{LINE + 1} dots, {LINE + 1} on one line"),
    "dots on a later line": (b"#.\n#" + b"." * (LINE + 1), "POLICY_SYNTAX", f"{LINE + 1} on one line"),
    "dots in all": (b"#.\n" * (ALL + 1), "POLICY_SYNTAX", f"{ALL + 1} dots, 1 on one line"),
    "letters of a string": (f'a = "{"x" * (STATEMENT.string + 1)}"'.encode(), "JSON_STRING", ""),
    "letters of a name": (f"{'x' * (STATEMENT.string + 1)} = 1".encode(), "JSON_STRING", ""),
    "infinity": (b"a = -inf", "POLICY_SCHEMA", "the number -inf is a float"),
    "an exponent": (b"a = 1e3", "POLICY_SCHEMA", "the number 1e3 is a float"),
    "a float of many digits": (b"a = 0." + b"1" * 60, "POLICY_SCHEMA", f"the number 0.{'1' * 38} is a float"),
}


@pytest.mark.parametrize("data", TAKEN.values(), ids=TAKEN)
def test_taken_at_the_cap(data: bytes) -> None:
    assert list(parse_toml(data, "policy")) in ([], ["a"])


@pytest.mark.parametrize(("data", "code", "words"), REFUSED.values(), ids=REFUSED)
def test_refused_over_the_cap(data: bytes, code: str, words: str) -> None:
    with pytest.raises(CertificateRefused) as caught:
        parse_toml(data, "policy")
    assert caught.value.refusal_code == code
    assert words in caught.value.message
