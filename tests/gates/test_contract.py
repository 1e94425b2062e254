from __future__ import annotations

import pytest

from pytest_frt.contracts.evidence import Check
from pytest_frt.contracts.verdict import Pass, Refusal
from pytest_frt.gates import contract

DETACH = Check("detach_exact", ok=True, detail="")
PICKLE = Check("pickle", ok=False, detail="lost a packed weight")
STATE = Check("state_dict", ok=False, detail="a name changed")


def test_all_declared_outcomes_held() -> None:
    assert isinstance(contract.judge([DETACH], required=["detach_exact"]), Pass)


@pytest.mark.parametrize(
    ("checks", "required", "reason", "words"),
    [
        pytest.param([DETACH, PICKLE], [], "lifecycle", ["pickle", "lost a packed weight"], id="one_broken"),
        pytest.param([STATE, PICKLE], [], "lifecycle", ["state_dict", "pickle"], id="all_broken_are_named"),
        pytest.param([], [], "unchecked", ["all of them"], id="nothing_checked"),
        pytest.param([PICKLE], ["detach_exact"], "lifecycle", ["pickle"], id="broken_is_told_before_missing"),
        pytest.param([DETACH], ["pickle"], "unchecked", ["pickle"], id="required_check_missing"),
    ],
)
def test_refusal(checks: list[Check], required: list[str], reason: str, words: list[str]) -> None:
    verdict = contract.judge(checks, required=required)
    assert isinstance(verdict, Refusal)
    assert verdict.reason == reason
    assert all(word in verdict.detail for word in words)
