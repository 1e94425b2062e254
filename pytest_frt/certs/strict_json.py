"""One strict JSON dialect for statements and envelopes: what the signer writes and the only thing the verifier reads.

The standard parser takes duplicate keys, ``NaN``, ``1e400``, UTF-16 and 4,300-digit integers, and recurses until the
interpreter gives up. Two readers that disagree on such a document can be shown two certificates with one signature.
Work is done in this order, so that nothing expensive happens before its cap was checked:

1. size, byte order mark, NUL (``JSON_SIZE``, ``JSON_BOM``, ``JSON_NUL``)
2. strict UTF-8 (``JSON_UTF8``)
3. nesting depth and number of separators, before the recursive parser runs (``JSON_DEPTH``, ``JSON_TOKENS``)
4. the parser, which refuses duplicate keys and keys that differ in case only (``JSON_DUPKEY``), every number that is
   not an integer (``JSON_FLOAT``), integers beyond 2**53 - 1 and ``-0`` (``JSON_INT``), bad syntax (``JSON_SYNTAX``)
5. every string: length, control, bidirectional, zero-width and surrogate characters (``JSON_STRING``)

Numbers other than integers travel as decimal strings; ``real_text`` writes a float64 exactly.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NoReturn, TypeAlias

from pytest_frt.errors import CertificateRefused

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | bool | None"

MAX_INT: Final = 2**53 - 1  # other languages read JSON integers as doubles
FORBIDDEN_TEXT: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\U000e0000-\U000e007f]"
)
_MAX_INT_DIGITS: Final = len(str(MAX_INT))
_BOM: Final = b"\xef\xbb\xbf"
# The closing quote is optional, so that an unterminated string costs one pass; the parser refuses it later.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_PRINTABLE: Final = bytes(range(0x20, 0x7F))
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_TO_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_OPENING: Final = ord("[")


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits checked before the parser runs: bytes, nesting levels, commas and colons, characters of one string.

    ``breaks`` lets strings hold line feeds: the checkpoint of a signature log is a text of several lines.
    """

    size: int
    depth: int = 24
    separators: int = 20_000
    string: int = 4_096
    breaks: bool = False


STATEMENT: Final = Caps(size=256 * 1024)
ENVELOPE: Final = Caps(size=512 * 1024, string=512 * 1024, breaks=True)  # the payload is one base64 string


def parse(data: bytes, caps: Caps) -> Json:
    """Return the value of ``data``.

    Raises:
        CertificateRefused: a ``JSON_*`` code; the message holds numbers and never text of the document.
    """
    text = _decode(data, caps)
    plain = b"\\" not in data
    bare = b"".join(data.split(b'"')[::2]) if plain else _STRING.sub(b"", data)
    _scan(bare, caps)
    objects: list[dict[str, Json]] = []
    try:
        value: Json = _decoder(objects).decode(text)
    except json.JSONDecodeError as error:
        raise CertificateRefused("JSON_SYNTAX", f"not JSON at character {error.pos}: {error.msg}") from None
    _check_keys(objects, bare.count(b":"))
    # Without an escape every string is a piece of the text as it stands, so that printable text has printable strings.
    if not plain or data.translate(None, _PRINTABLE) or not _quotes_within(data, caps.string):
        check_strings(value, caps.string, breaks=caps.breaks)
    return value


def serialise(value: Json, caps: Caps = STATEMENT) -> bytes:
    """Return canonical bytes: UTF-8, sorted keys, no blanks. The parser above has accepted them.

    Raises:
        CertificateRefused: ``value`` cannot be said in this dialect.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if found := FORBIDDEN_TEXT.search(text):
        raise CertificateRefused("JSON_STRING", f"a string holds the character U+{ord(found.group()):04X}")
    data = text.encode()
    parse(data, caps)
    return data


def real_text(value: float) -> str:
    """Return the shortest fixed-notation text that reads back as exactly ``value`` (float64).

    Raises:
        CertificateRefused: ``DECIMAL`` for NaN and the infinities.
    """
    if not math.isfinite(value):
        raise CertificateRefused("DECIMAL", f"{value} is not a finite number")
    return _trimmed(f"{Decimal(repr(float(value))):f}")


def printable(text: str) -> bool:
    """Report whether ``text`` holds no control, bidirectional, zero-width or surrogate character."""
    return (text.isascii() and text.isprintable()) or not FORBIDDEN_TEXT.search(text)


def clean_text(text: str, limit: int = STATEMENT.string) -> str:
    """Return ``text`` as one printable line for a field that people read: a message of a library may hold anything."""
    line = FORBIDDEN_TEXT.sub(" ", text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def one_line(text: str) -> str:
    """Return ``text`` with every character that is not printable written as an escape: file names may hold any."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _trimmed(text: str) -> str:
    """Drop what carries no value: trailing zeros of a fraction, and the sign of zero."""
    short = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if short == "-0" else short


def _decode(data: bytes, caps: Caps) -> str:
    if len(data) > caps.size:
        raise CertificateRefused("JSON_SIZE", f"{len(data)} bytes, over the cap of {caps.size}")
    if data.startswith(_BOM):
        raise CertificateRefused("JSON_BOM", "starts with a byte order mark")
    if b"\x00" in data:
        raise CertificateRefused("JSON_NUL", f"holds a NUL byte at offset {data.index(0)}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CertificateRefused("JSON_UTF8", f"not UTF-8 at byte {error.start}") from None


def _scan(bare: bytes, caps: Caps) -> None:
    """Bound what the recursive parser will do, given the text without its strings.

    Quotes and backslashes never occur inside a multi-byte character.
    """
    separators = bare.count(b",") + bare.count(b":")
    if separators > caps.separators:
        raise CertificateRefused("JSON_TOKENS", f"{separators} commas and colons, over the cap of {caps.separators}")
    brackets = bare.translate(_TO_SQUARE, _NOT_BRACKETS)
    left = brackets
    for _ in range(caps.depth):  # each pass takes away the innermost pairs, so that passes count levels
        left = left.replace(b"[]", b"")
    if not left:
        return
    depth = 0
    for byte in brackets:
        depth += 1 if byte == _OPENING else -1
        if depth > caps.depth:
            raise CertificateRefused("JSON_DEPTH", f"nested deeper than {caps.depth}")


def _quotes_within(data: bytes, limit: int) -> bool:
    """Report whether no more than ``limit`` bytes lie before, between and after quotes."""
    start = 0
    while len(data) - start > limit:
        quote = data.rfind(b'"', start, start + limit + 1)
        if quote < 0:
            return False
        start = quote + 1
    return True


def _decoder(objects: list[dict[str, Json]]) -> json.JSONDecoder:
    """Return a parser that notes every object it closes, those a repeated key drops included."""

    def note(members: dict[str, Json]) -> dict[str, Json]:
        objects.append(members)
        return members

    return json.JSONDecoder(object_hook=note, parse_int=_integer, parse_float=_no_float, parse_constant=_no_float)


def _check_keys(objects: list[dict[str, Json]], colons: int) -> None:
    """Refuse repeated keys, and keys that differ in case only: Go matches them so and takes the last one.

    In a text that is JSON, a colon outside strings stands for one member each; a repeated key leaves fewer members.
    """
    members = sum(map(len, objects))
    if members != colons:
        raise CertificateRefused("JSON_DUPKEY", f"an object repeats a key: {colons} colons, {members} members")
    names: set[str] = set().union(*objects)
    if len({name.casefold() for name in names}) == len(names):
        return
    for one in objects:  # names of different objects may differ in case only
        if len({name.casefold() for name in one}) != len(one):
            raise CertificateRefused("JSON_DUPKEY", "an object has keys that differ in case only")


def _integer(text: str) -> int:
    if len(text) < _MAX_INT_DIGITS and text != "-0":
        return int(text)
    if text == "-0" or len(text.lstrip("-")) > _MAX_INT_DIGITS or abs(int(text)) > MAX_INT:
        raise CertificateRefused("JSON_INT", f"an integer of {len(text)} characters is -0 or beyond 2**53 - 1")
    return int(text)


def _no_float(text: str) -> NoReturn:
    raise CertificateRefused("JSON_FLOAT", f"a number of {len(text)} characters is no integer")


def check_strings(value: object, limit: int, *, breaks: bool = False) -> None:
    """Refuse a parsed document that holds an overlong or unprintable string.

    Raises:
        CertificateRefused: ``JSON_STRING``.
    """
    todo: list[object] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            _check_string(item.replace("\n", "") if breaks else item, limit)
        elif isinstance(item, list):
            todo.extend(item)
        elif isinstance(item, dict):
            todo.extend(item.values())
            for key in item:
                _check_string(key, limit)


def _check_string(text: str, limit: int) -> None:
    if len(text) > limit:
        raise CertificateRefused("JSON_STRING", f"a string of {len(text)} characters, over the cap of {limit}")
    if not printable(text):
        raise CertificateRefused("JSON_STRING", "a string holds a control, bidirectional or zero-width character")
