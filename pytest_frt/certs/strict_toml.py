"""TOML of a trust policy, parsed with a bound on what the standard parser may cost.

The parser recurses over nested values, turns integers of any length into numbers, and takes time that grows with the
square of the parts of a dotted key. Caps come first, and what it raises beyond its own error becomes a refusal.
"""

from __future__ import annotations

import tomllib
from typing import Final, NoReturn

from pytest_frt.certs.strict_json import STATEMENT, check_strings
from pytest_frt.errors import CertificateRefused

MAX_DOTS: Final = 20_000
MAX_LINE_DOTS: Final = 256  # of a dotted key, or of the patterns of one rule on one line


def parse_toml(data: bytes, source: str) -> dict[str, object]:
    """Return the document of TOML bytes: no floats, no unprintable or overlong string.

    Args:
        data: At most as many bytes as the caller's cap.
        source: What messages call it.

    Raises:
        CertificateRefused: ``POLICY_SYNTAX``, ``POLICY_SCHEMA`` (a float) or ``JSON_STRING``.
    """
    try:
        text = data.decode()
        _check_dots(text, source)
        document = tomllib.loads(text, parse_float=_no_float)
    except UnicodeDecodeError as error:
        raise CertificateRefused("POLICY_SYNTAX", f"{source} is not UTF-8 at byte {error.start}") from None
    except ValueError as error:  # the parser's own error, and that of an integer of thousands of digits
        raise CertificateRefused("POLICY_SYNTAX", f"{source} is not TOML: {error}") from None
    except RecursionError:
        raise CertificateRefused("POLICY_SYNTAX", f"{source} is nested deeper than can be read") from None
    check_strings(document, STATEMENT.string)
    return document


def _check_dots(text: str, source: str) -> None:
    most = max(line.count(".") for line in text.split("\n"))
    if most > MAX_LINE_DOTS or text.count(".") > MAX_DOTS:
        raise CertificateRefused(
            "POLICY_SYNTAX",
            f"{source} has {text.count('.')} dots, {most} on one line; the caps are {MAX_DOTS} and {MAX_LINE_DOTS}",
            hint="write long arrays over several lines",
        )


def _no_float(text: str) -> NoReturn:
    raise CertificateRefused("POLICY_SCHEMA", f"the number {text[:40]} is a float; write decimals as strings")
