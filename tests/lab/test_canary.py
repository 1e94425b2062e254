"""The canary settles by runs and by time before the one run that counts."""

from __future__ import annotations

import pytest

from pytest_frt.lab.canary import PRELUDE, PRELUDE_S, Canary


@pytest.mark.parametrize(
    ("run_s", "untimed"),
    [(PRELUDE_S / 20, 20), (PRELUDE_S / 2, PRELUDE), (PRELUDE_S * 3, PRELUDE)],
    ids=["fast machine", "by runs", "slow machine"],
)
def test_canary_settles_before_it_is_timed(monkeypatch: pytest.MonkeyPatch, run_s: float, untimed: int) -> None:
    canary, now, runs = Canary("cpu"), 0.0, 0

    def work() -> None:
        nonlocal now, runs
        now, runs = now + run_s, runs + 1

    monkeypatch.setattr(canary, "_work", work)
    monkeypatch.setattr(canary, "_clock", lambda: now)
    assert canary.seconds() == pytest.approx(run_s)
    assert runs in {untimed + 1, untimed + 2}  # the sum of many small times may end below the limit


def test_canary_takes_time() -> None:
    assert 0.0 < Canary("cpu").seconds() < 10.0
