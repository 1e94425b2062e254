"""Progress on a terminal (one live line) or as plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import pytest

EVERY_S = 10.0
"""Seconds between plain lines of one stage: a log stays short and still shows life."""


class TerminalProgress:
    """Writes to the real standard error, which pytest does not capture.

    Args:
        stream: Where to write.
        live: Overwrite one line instead of adding lines.
    """

    def __init__(self, stream: TextIO, *, live: bool) -> None:
        self._stream, self._live, self._last, self._began = stream, live, 0.0, time.monotonic()

    @classmethod
    def of(cls, config: pytest.Config) -> TerminalProgress:
        """Return the progress of a run: silent streams of test workers included."""
        stream = sys.__stderr__ or sys.stderr
        return cls(stream, live=stream.isatty() and config.option.verbose <= 0)

    def note(self, text: str) -> None:
        """Say one line."""
        self._write(text, force=True)

    def step(self, stage: str, done: int, total: int, detail: str) -> None:
        """Report a step; plain lines come at most every ``EVERY_S`` seconds."""
        self._write(f"{stage} {done}/{total} {detail}", force=done == total)

    def _write(self, text: str, *, force: bool) -> None:
        now = time.monotonic()
        if self._live:
            self._stream.write(f"\r\x1b[2K[{now - self._began:5.0f} s] {text[:100]}")
        elif force or now - self._last >= EVERY_S:
            self._stream.write(f"[{now - self._began:5.0f} s] {text}\n")
            self._last = now
        self._stream.flush()
