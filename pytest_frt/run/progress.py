"""How long work tells a person that it is alive."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives progress; implementations decide between a live line and plain lines."""

    def note(self, text: str) -> None:
        """Say one line: a stage started or finished."""

    def step(self, stage: str, done: int, total: int, detail: str) -> None:
        """Report ``done`` of ``total`` steps of a stage."""


class Silent:
    """Says nothing."""

    def note(self, text: str) -> None:
        """Drop the line."""

    def step(self, stage: str, done: int, total: int, detail: str) -> None:
        """Drop the step."""
