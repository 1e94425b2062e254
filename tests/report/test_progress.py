"""Progress shows life: one live line on a terminal, few lines in a log."""

from __future__ import annotations

import pytest

from pytest_frt.report.progress import EVERY_S, TerminalProgress


class Clock:
    """Time that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_log_gets_notes_ends_and_one_step_per_period() -> None:
    said: list[str] = []
    clock = Clock()
    progress = TerminalProgress(said.append, clock=clock)
    progress.note("witness")
    for done in range(1, 101):
        clock.now += EVERY_S / 40
        progress.step("time", done, 100, "w16a32")
    assert said[0] == "[   0 s] witness"
    assert said[-1] == "[  25 s] time 100/100 w16a32"
    assert [line.split()[4] for line in said[1:]] == ["40/100", "80/100", "100/100"]


def test_live_line_is_overwritten_and_cleared_once() -> None:
    plain: list[str] = []
    live: list[str] = []
    progress = TerminalProgress(plain.append, live=live.append, clock=Clock())
    progress.clear()
    progress.step("time", 1, 9, "")
    progress.step("time", 2, 9, "")
    progress.clear()
    progress.clear()
    assert [text.strip() for text in live] == ["[   0 s] time 1/9", "[   0 s] time 2/9", ""]
    assert plain == []


def test_progress_passes_the_capture_of_pytest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from pytest_frt.report.progress import TerminalProgress
        def test_long(request):
            print("captured")
            TerminalProgress.of(request.config).note("still here")
        """
    )
    text = pytester.runpytest_inprocess("-p", "no:cacheprovider").stdout.str()
    assert "s] still here" in text
    assert "captured" not in text


def test_very_quiet_run_says_nothing(pytester: pytest.Pytester) -> None:
    said = TerminalProgress.of(pytester.parseconfig("-qq"))
    said.note("nobody hears this")
    assert said._live is None
