"""The canary settles by runs and by time before the one run that counts."""

from __future__ import annotations

import pytest

from pytest_frt.lab.canary import PRELUDE, Canary


@pytest.mark.parametrize(
    ("run_s", "untimed"),
    [(1 / 16, 16), (1 / 2, PRELUDE), (3.0, PRELUDE)],
    ids=["fast machine", "by runs", "slow machine"],
)
def test_canary_settles_before_it_is_timed(monkeypatch: pytest.MonkeyPatch, run_s: float, untimed: int) -> None:
    canary, now, runs = Canary("cpu"), 0.0, 0

    def work() -> None:
        nonlocal now, runs
        now, runs = now + run_s, runs + 1

    monkeypatch.setattr("pytest_frt.lab.canary.PRELUDE_S", 1.0)  # a sum of these times is exact
    monkeypatch.setattr(canary, "_work", work)
    monkeypatch.setattr(canary, "_clock", lambda: now)
    assert canary.seconds() == run_s
    assert runs == untimed + 1


def test_canary_takes_time() -> None:
    assert 0.0 < Canary("cpu").seconds() < 10.0
