"""No planted impl passes: each is refused at the right gate, in the right word, and spoils no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.contracts.verdict import NotRun, Outcome, Pass
from pytest_frt.rules.fold import CORRECTNESS_GATES
from pytest_frt.spec.modules import load_file

planted: Any = load_file(Path(__file__).with_name("planted.py"))


def check(trial: Any, name: str, one: Any) -> None:
    found = trial.outcome(name)
    word = Outcome[one.reason] if one.reason in Outcome.__members__ else Outcome.REFUSED
    assert (found.outcome, found.gate, found.reason) == (word, one.gate, one.reason.lower()), found
    assert one.says in found.detail


@pytest.mark.parametrize("name", planted.REFUSED)
def test_is_refused_in_the_right_word(trial: Any, name: str) -> None:
    check(trial, name, planted.REFUSED[name])


@pytest.mark.parametrize("name", planted.HANGS)
def test_hang_is_a_time_out(trial: Any, hurried: Callable[[float], None], name: str) -> None:
    hurried(4.0)
    check(trial, name, planted.HANGS[name])


@pytest.mark.parametrize("name", planted.SOUND)
def test_sound_impl_beside_them_passes(trial: Any, name: str) -> None:
    results = trial.gates(name)
    assert {gate: type(results[gate].verdict) for gate in CORRECTNESS_GATES} == dict.fromkeys(CORRECTNESS_GATES, Pass)
    assert isinstance(results["net_win"].verdict, NotRun)
    assert not any(result.refused for result in results.values())
    assert len(results["contract"].survivors) == 2
