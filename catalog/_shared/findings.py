"""What a conformance check finds: it holds, it is broken, or it could not be shown."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Holds:
    """The check was carried out and holds; ``detail`` says what was seen, ``measured`` has the numbers."""

    detail: str
    measured: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Broken:
    """The check was carried out and does not hold; ``reason`` is a stable word."""

    reason: str
    detail: str
    measured: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotShown:
    """The check could not be carried out, which says nothing for the host."""

    why: str


Finding = Holds | Broken | NotShown
