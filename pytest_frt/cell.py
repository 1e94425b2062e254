"""Cells and record keys: the ids a person can retype, stable between versions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_frt.errors import SpecError

NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


def check_name(kind: str, name: str) -> str:
    """Return ``name`` or raise.

    Raises:
        SpecError: the name does not match ``[a-z][a-z0-9_]*`` (the dash belongs to cell ids).
    """
    if not NAME.match(name):
        raise SpecError(
            f"{kind} name {name!r} does not match [a-z][a-z0-9_]*", hint="use lower-case letters, digits and _"
        )
    return name


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """(structure, impl, host, scheme, device)."""

    structure: str
    impl: str
    host: str
    scheme: str
    device: str

    @property
    def id(self) -> str:
        """``decoder_ffn-torch_packed-qwen3-w16a32-cpu``."""
        return f"{self.structure}-{self.impl}-{self.host}-{self.scheme}-{self.device}"

    @classmethod
    def parse(cls, text: str) -> Cell:
        """Read a cell id back.

        Raises:
            SpecError: not five names joined by dashes.
        """
        parts = text.split("-")
        if len(parts) != len(cls.__slots__):
            raise SpecError(f"cell id {text!r} has {len(parts)} parts, needs 5: structure-impl-host-scheme-device")
        return cls(*(check_name("cell part", part) for part in parts))


@dataclass(frozen=True, slots=True, order=True)
class RecordKey:
    """A cell in one deployment form, row regime, size and cache state. Evidence and certificates are keyed on it."""

    cell: Cell
    form: str
    phase: str
    size: str
    cache: str = "hot"

    @property
    def id(self) -> str:
        """``<cell id>@eager.decode.real.hot``."""
        return f"{self.cell.id}@{self.form}.{self.phase}.{self.size}.{self.cache}"

    @classmethod
    def parse(cls, text: str) -> RecordKey:
        """Read a record key back.

        Raises:
            SpecError: not ``cell@form.phase.size.cache``.
        """
        head, at, tail = text.partition("@")
        parts = tail.split(".")
        if not at or len(parts) != 4:  # noqa: PLR2004
            raise SpecError(f"record key {text!r} is not cell@form.phase.size.cache")
        return cls(Cell.parse(head), *(check_name("record key part", part) for part in parts))
