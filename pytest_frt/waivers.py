"""Waivers: failures that somebody answers for, by owner, reason, URL, reach and last day.

A waiver lets one gate of some records fail without failing the run. It proves nothing: what it covers is neither
passed nor certified, its word is ``WAIVED``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from pytest_frt.errors import SpecError, UsageFault
from pytest_frt.registry import did_you_mean
from pytest_frt.rules.fold import PLAN_GATES, RECORD_GATES
from pytest_frt.spec.strict_yaml import read_yaml
from pytest_frt.spec.validate import check

SCHEMA: Final = "waivers"
ANY: Final = ("*",)
TOML, YAML = (".toml",), (".yaml", ".yml")
CELL_PARTS: Final = 5
"""structure-impl-host-scheme-device."""
SCHEME_PART, DEVICE_PART = 3, 4


def _any(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


@dataclass(frozen=True, slots=True)
class Waiver:
    """One entry of a waivers file.

    Attributes:
        owner: Who answers for it.
        reason: Sentence for people.
        url: Where the fault is tracked.
        gate: The one gate whose failure is waived.
        record: Globs of record key ids, or of union names where ``gate`` is ``union``.
        cell: Globs of cell ids; a record is covered when either kind matches.
        device: Globs of device names.
        scheme: Globs of scheme names.
        expires: Last day it holds.
        until: First version of pytest-frt it does not hold for; empty for none.
        place: File and position, for messages.
    """

    owner: str
    reason: str
    url: str
    gate: str
    record: tuple[str, ...]
    cell: tuple[str, ...]
    device: tuple[str, ...]
    scheme: tuple[str, ...]
    expires: date
    until: str
    place: str

    @property
    def globs(self) -> tuple[str, ...]:
        """Every glob that names records or cells."""
        return (*self.record, *self.cell)

    def covers(self, subject: str) -> bool:
        """Report whether a record key id or union name lies in reach, whatever the gate says of it."""
        head, parts = subject.partition("@")[0], subject.partition("@")[0].split("-")
        if not _any(parts[-1], self.device):
            return False
        if len(parts) != CELL_PARTS:
            return self.gate in PLAN_GATES and _any(subject, self.record)
        return (
            self.gate in RECORD_GATES
            and _any(parts[SCHEME_PART], self.scheme)
            and (_any(subject, self.record) or _any(head, self.cell))
        )

    def over(self, today: date, version: str) -> str:
        """Return why it no longer holds; empty while it does."""
        if today > self.expires:
            return f"it expired on {self.expires}, {(today - self.expires).days} days ago"
        if self.until and numbers(version) >= numbers(self.until):
            return f"it holds until version {self.until}, this is {version}"
        return ""


def numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, without zeros at the end: 0.3 and 0.3.0 are one."""
    found = re.match(r"\d+(\.\d+)*", version)
    parts = [int(part) for part in found.group().split(".")] if found else []
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def find(waivers: Sequence[Waiver], subject: str, gate: str) -> Waiver | None:
    """Return the first waiver that covers a gate of a record or union."""
    return next((one for one in waivers if one.gate == gate and one.covers(subject)), None)


def load(path: Path) -> tuple[Waiver, ...]:
    """Read a waivers file, TOML or YAML by its ending; ``pytest_frt/schemas/waivers.schema.json`` says what it holds.

    Raises:
        UsageFault: missing, unreadable, or neither TOML nor YAML.
        SpecError: an entry that breaks the schema, names no gate or no day, or reaches what its gate cannot judge.
    """
    content = _dated(_read(path))
    check(content, str(path), SCHEMA)
    return tuple(_entries(content["waiver"], path))


def _read(path: Path) -> Any:  # noqa: ANN401 (the schema gives it its type)
    try:
        data = path.read_bytes()
    except OSError as fault:
        raise UsageFault(f"waivers {path} cannot be read: {fault.strerror}", hint="check --frt-waivers") from fault
    if path.suffix in YAML:
        return read_yaml(data, str(path))
    if path.suffix not in TOML:
        raise UsageFault(f"waivers {path} end in {path.suffix!r}", hint=f"end it in {', '.join((*TOML, *YAML))}")
    try:
        return tomllib.loads(data.decode())
    except ValueError as fault:  # no TOML, or no UTF-8
        raise UsageFault(f"waivers {path} are no TOML: {fault}", hint="correct the named line") from fault


def _dated(value: Any) -> Any:  # noqa: ANN401 (any JSON value)
    """Return a value with days as text: TOML and YAML have a type for them, JSON schemas have none."""
    if isinstance(value, dict):
        return {key: _dated(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_dated(item) for item in value]
    return value.isoformat() if isinstance(value, date) else value


def _entries(entries: Sequence[dict[str, Any]], path: Path) -> Iterator[Waiver]:
    for position, entry in enumerate(entries, start=1):
        place = f"{path}: waiver {position}"
        gate = entry["gate"]
        if gate not in (gates := (*RECORD_GATES, *PLAN_GATES)):
            raise SpecError(f"{place}: unknown gate {gate!r}", hint=did_you_mean(gate, gates))
        if gate in PLAN_GATES and (extra := sorted({"cell", "scheme"} & entry.keys())):
            raise SpecError(f"{place}: gate {gate} judges no {extra[0]}", hint="name unions under 'record'")
        yield Waiver(
            owner=entry["owner"],
            reason=entry["reason"],
            url=entry["url"],
            gate=gate,
            record=tuple(entry.get("record", ())),
            cell=tuple(entry.get("cell", ())),
            device=tuple(entry.get("device", ANY)),
            scheme=tuple(entry.get("scheme", ANY)),
            expires=_day(entry["expires"], place),
            until=entry.get("until", ""),
            place=place,
        )


def _day(text: str, place: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as fault:
        raise SpecError(f"{place}: expires {text!r} is no day: {fault}", hint="write it as YYYY-MM-DD") from fault
