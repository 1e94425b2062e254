"""One vector, and how it is written: a JSON line that needs nothing of this project to be understood."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

DATA: Final = Path(__file__).with_name("vectors.jsonl")
ACCEPT: Final = "accept"
# Bytes that repeat this often are written as a count: a document at a cap would fill the file otherwise.
_RUN: Final = re.compile(rb"(.{1,8}?)\1{255,}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Vector:
    """What is shown to a verifier, and the one right answer.

    Attributes:
        id: Stable name, e.g. ``E10``.
        shows: What was changed, in words.
        expect: ``accept`` or the refusal code.
        at: Verification time.
        policy: TOML text of the trust policy.
        data: The bytes of the certificate set.
        state: What the reader remembers: the document of a state file; empty when it keeps none.
        live: Facts of the process that differ from the certified ones.
        tree: Files as certified, and as found by the reader.
        load: What is wrong in the process that wants to load the accepted files.
        activates: Whether the policy's composition lets a runtime act on it.
        hides: A text of the vector that no message may show, since it is not authentic.
    """

    id: str
    shows: str
    expect: str
    at: str
    policy: str
    data: bytes = b""
    state: dict[str, Any] = field(default_factory=dict)
    live: dict[str, Any] = field(default_factory=dict)
    tree: dict[str, Any] = field(default_factory=dict)
    load: dict[str, Any] = field(default_factory=dict)
    activates: bool = True
    hides: str = ""

    def row(self) -> str:
        """Return the vector as one line of JSON; members at their default are left out."""
        members: dict[str, Any] = {
            "id": self.id, "shows": self.shows, "expect": self.expect, "at": self.at, "policy": self.policy,
            "set": pack(self.data), "state": self.state, "live": self.live,
            "tree": self.tree, "load": self.load, "hides": self.hides,
        }  # fmt: skip
        kept: dict[str, Any] = {name: value for name, value in members.items() if value}
        if not self.activates:
            kept["activates"] = False
        return json.dumps(kept, ensure_ascii=True)


def read(path: Path = DATA) -> list[Vector]:
    """Return the vectors of the published file."""
    return [_vector(json.loads(text)) for text in path.read_text(encoding="ascii").splitlines()]


def _vector(members: dict[str, Any]) -> Vector:
    data = unpack(members.pop("set"))
    return Vector(**members, data=data)


def pack(data: bytes) -> list[Any]:
    """Return base64 texts, or ``[base64, times]`` pairs where bytes repeat."""
    parts: list[Any] = []
    start = 0
    for run in _RUN.finditer(data):
        unit = run[1]
        parts += _text(data[start : run.start()])
        parts.append([base64.b64encode(unit).decode(), len(run[0]) // len(unit)])
        start = run.end()
    return parts + _text(data[start:])


def unpack(parts: list[Any]) -> bytes:
    """Return the bytes of a packed value."""
    pairs = (part if isinstance(part, list) else [part, 1] for part in parts)
    return b"".join(base64.b64decode(text) * times for text, times in pairs)


def _text(data: bytes) -> list[str]:
    return [base64.b64encode(data).decode()] if data else []
