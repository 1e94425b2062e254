"""Progress beside pytest's own output: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import pytest

EVERY_S: Final = 10.0
"""Seconds between plain lines of one stage: a log stays short and still shows life."""


class TerminalProgress:
    """Says what is going on while an item runs, past pytest's capture.

    Args:
        plain: Writes a line of its own.
        live: Overwrites the current line; None where lines stay.
        aside: Context in which what is written reaches the terminal.
        clock: Seconds.
    """

    def __init__(
        self,
        plain: Callable[[str], None],
        *,
        live: Callable[[str], None] | None = None,
        aside: Callable[[], AbstractContextManager[None]] = nullcontext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plain, self._live, self._aside, self._clock = plain, live, aside, clock
        self._began, self._last = clock(), float("-inf")

    @classmethod
    def of(cls, config: pytest.Config) -> TerminalProgress:
        """Return the progress of a run: on the reporter, or on standard error where there is none (test workers)."""
        capture = config.pluginmanager.get_plugin("capturemanager")
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        aside = capture.global_and_fixture_disabled if capture else nullcontext
        if config.option.verbose < -1:
            return cls(lambda _: None)
        if reporter is None:
            return cls(_to_standard_error, aside=aside)

        def plain(text: str) -> None:
            reporter.ensure_newline()
            reporter.write_line(text)

        def live(text: str) -> None:
            reporter.ensure_newline()
            reporter.rewrite(text[: shutil.get_terminal_size().columns - 1], erase=True)
            if not text:
                reporter.rewrite("")

        return cls(plain, live=live if reporter.isatty and config.option.verbose <= 0 else None, aside=aside)

    def note(self, text: str) -> None:
        """Say one line."""
        self._write(text, force=True)

    def step(self, stage: str, done: int, total: int, detail: str) -> None:
        """Report a step; plain lines come at most every ``EVERY_S`` seconds, and at the end of a stage."""
        self._write(f"{stage} {done}/{total} {detail}", force=done == total)

    def clear(self) -> None:
        """Blank the live line, if one was written, so that pytest's next word does not end it."""
        if self._live is not None and self._last > float("-inf"):
            with self._aside():
                self._live("")
            self._last = float("-inf")

    def _write(self, text: str, *, force: bool) -> None:
        now = self._clock()
        if self._live is None and not force and now - self._last < EVERY_S:
            return
        self._last = now
        with self._aside():
            (self._live or self._plain)(f"[{now - self._began:4.0f} s] {text}")


def _to_standard_error(text: str) -> None:
    stream = sys.__stderr__ or sys.stderr
    stream.write(f"{text}\n")
    stream.flush()
