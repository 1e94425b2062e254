"""Typed reading of a parsed document: each value is taken as exactly what it must be, or refused with its place.

``Node`` is a cursor over the plain values that the JSON and the TOML parser return, after ``check_strings``. It is used
for statements (code ``SCHEMA``) and for the trust policy (``POLICY_SCHEMA``), and gives the readers of ``shape``, which
hold the grammars of fields, a place and a code to refuse with.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, TypeVar

from pytest_frt.certs import shape
from pytest_frt.certs.shape import Misfit, Reader
from pytest_frt.certs.strict_json import MAX_INT
from pytest_frt.errors import CertificateRefused
from pytest_frt.spec.tree import TreeInvalid, check_name

T = TypeVar("T")

TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
EMPTY_SHA256: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
MAX_FILE_NAME: Final = 255
MAX_FILE_DEPTH: Final = 12

# Years 1970 to 2999: no sum with a skew or a longest life leaves what a datetime holds, and all have four digits.
_TIME: Final = re.compile(r"(19[7-9][0-9]|2[0-9]{3})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})Z")


@lru_cache(maxsize=1024)  # certificates of a set name the same files
def check_file_name(name: str) -> str:
    """Return ``name``, a relative path of ASCII segments that means the same file on every system, or refuse it.

    Raises:
        CertificateRefused: ``NAME``: absolute, empty, hidden, dotted, reserved, too long or non-ASCII.
    """
    try:
        check_name(name)
    except TreeInvalid as error:
        raise CertificateRefused("NAME", error.message) from None
    if len(name) > MAX_FILE_NAME or name.count("/") >= MAX_FILE_DEPTH:
        raise CertificateRefused(
            "NAME",
            f"file name {name[:80]!r}... has {len(name)} characters and {name.count('/')} folders, "
            f"over {MAX_FILE_NAME} or {MAX_FILE_DEPTH - 1}",
        )
    return name


def time_text(moment: datetime) -> str:
    """Return ``moment`` as ``YYYY-MM-DDTHH:MM:SSZ``; fractions of a second are dropped.

    Raises:
        CertificateRefused: ``TIME_FORMAT`` for a moment without a time zone.
    """
    if moment.tzinfo is None:
        raise CertificateRefused("TIME_FORMAT", f"time {moment.isoformat()} has no time zone", hint="pass a UTC time")
    return moment.astimezone(UTC).strftime(TIME_FORMAT)


def parse_time(text: str, where: str = "time") -> datetime:
    """Return the UTC moment of a text in the one format that is taken.

    Raises:
        CertificateRefused: ``TIME_FORMAT``: other formats, days that do not exist, years before 1970 and from 3000 on.
    """
    try:
        if found := _TIME.fullmatch(text):
            year, month, day, hour, minute, second = map(int, found.groups())
            return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        pass
    raise CertificateRefused(
        "TIME_FORMAT", f"{where} is {text[:40]!r}, not a moment written YYYY-MM-DDTHH:MM:SSZ, 1970-2999"
    )


class Node:
    """A value and its place in the document.

    Args:
        value: What the parser returned.
        place: Member name or ``[index]`` inside ``parent``.
        parent: The enclosing node; its code is inherited.
        code: Refusal code of a value of the wrong type.
    """

    __slots__ = ("_parent", "_place", "code", "value")

    def __init__(self, value: object, place: str, parent: Node | None = None, code: str = "SCHEMA") -> None:
        self.value = value
        self._place = place
        self._parent = parent
        self.code: str = code if parent is None else parent.code

    @property
    def where(self) -> str:
        """Dotted place, e.g. ``predicate.gates[3].n``."""
        if self._parent is None:
            return self._place
        dot = "" if self._place.startswith("[") else "."
        return f"{self._parent.where}{dot}{self._place}"

    def wrong(self, need: str) -> CertificateRefused:
        """Return the refusal that says what this place needs."""
        return CertificateRefused(self.code, f"{self.where} is not {need}")

    def _members(self) -> dict[str, object]:
        return self.read(shape.members)

    def get(self, name: str) -> Node:
        """Return the member ``name``, which must be there."""
        value = self.value
        if isinstance(value, dict) and name in value:
            return Node(value[name], name, self)
        self._members()
        raise CertificateRefused(self.code, f"{self.where} has no member {name!r}")

    def find(self, name: str) -> Node | None:
        """Return the member ``name``, or None when it is absent."""
        members = self._members()
        return Node(members[name], name, self) if name in members else None

    def pairs(self) -> Iterator[tuple[str, Node]]:
        """Yield name and node of every member of an object whose names are data."""
        for name, value in self._members().items():
            yield name, Node(value, name, self)

    def only(self, names: Collection[str]) -> Node:
        """Return this node after refusing members outside ``names`` (policy: a typo must not loosen anything)."""
        for name in self._members():
            if name not in names:
                raise CertificateRefused(
                    self.code, f"{self.where} has the unknown member {name!r}", hint=f"known: {', '.join(names)}"
                )
        return self

    def items(self) -> list[Node]:
        """Return the nodes of an array."""
        if not isinstance(self.value, list):
            raise self.wrong("an array")
        return [Node(value, f"[{index}]", self) for index, value in enumerate(self.value)]

    def read(self, reader: Reader[T]) -> T:
        """Return what ``reader`` makes of this value.

        Raises:
            CertificateRefused: the reader's code, or this document's, with the place of the value that does not fit.
        """
        try:
            return reader(self.value)
        except Misfit as fault:
            place = fault.inside(self.where).place
            raise CertificateRefused(fault.code or self.code, f"{place} {fault.said}") from None

    def text(self) -> str:
        """Return a string; that it is printable and short was checked for the whole document."""
        return self.read(shape.text)

    def word(self, allowed: Collection[str]) -> str:
        """Return one of ``allowed``."""
        return self.read(shape.word(*allowed))

    def identifier(self) -> str:
        """Return ASCII ``name`` or ``name/name`` (up to four segments), compared bytewise everywhere."""
        return self.read(shape.identifier)

    def flag(self) -> bool:
        """Return true or false."""
        return self.read(shape.flag)

    def integer(self, low: int = 0, high: int = MAX_INT) -> int:
        """Return an integer of the inclusive range."""
        return self.read(shape.integer(low, high))

    def decimal(self) -> str:
        """Return a decimal string of a gate."""
        return self.read(shape.decimal)

    def texts(self) -> tuple[str, ...]:
        """Return an array of texts."""
        return self.read(shape.texts)

    def sha256(self) -> str:
        """Return 64 lower-case hex digits."""
        return self.read(shape.sha256)

    def digest_set(self) -> str:
        """Return the sha256 of an in-toto digest set; other algorithms are ignored and never sufficient."""
        return self.read(shape.digest_set)

    def moment(self) -> datetime:
        """Return a UTC moment."""
        return parse_time(self.text(), self.where)
