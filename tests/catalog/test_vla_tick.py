"""``vla_tick_pipeline``: a small policy keeps every check, and each planted fault breaks the check it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.contracts.pipeline import Blocker, Broken, Finding, Holds, Loop, NotShown, TickStages
from pytest_frt.spec.load import load_structure
from pytest_frt.spec.modules import load_file
from pytest_frt.spec.pipelines import load_pipeline, read_finding

from . import policies
from .conftest import CATALOG
from .policies import STEPS, Policy, told

FOLDER = CATALOG / "vla_tick_pipeline"
CHECKS = [check.name for check in load_pipeline(FOLDER).checks]
SEAMS, FIXED, NOISE, CONDITION, CHUNK, READOUT, BLOCKERS = CHECKS


def found(check: str, host: TickStages) -> Finding:
    return read_finding(getattr(load_file(FOLDER / "conformance.py"), check)(host), check)


@pytest.mark.parametrize("check", CHECKS)
def test_plain_policy_holds(check: str) -> None:
    torch.manual_seed(0)
    assert isinstance(found(check, told(Policy())), Holds)


FAULTS: dict[str, tuple[type[Policy], str, str]] = {
    "encoder_in_the_loop": (policies.EncodesInTheLoop, SEAMS, "in_the_loop"),
    "encoder_called_for_the_first_observation_alone": (policies.KeepsTheEncoding, SEAMS, "off_cadence"),
    "step_module_called_after_the_loop": (policies.BodyTwice, SEAMS, "off_cadence"),
    "module_called_once_more_for_one_observation": (policies.ExtraStep, SEAMS, "moving_cadence"),
    "extra_step_for_one_observation": (policies.ExtraStep, FIXED, "steps"),
    "extra_step_always": (policies.AlwaysOneMore, FIXED, "steps"),
    "shape_grows_in_the_loop": (policies.GrowingCondition, FIXED, "shape"),
    "shape_follows_the_observation": (policies.ShapeFollowsWhatIsSeen, FIXED, "shape"),
    "tick_draws_its_own_noise": (policies.DrawsItsOwn, NOISE, "drawn_inside"),
    "tick_draws_from_a_generator_of_its_own": (policies.DrawsFromItsOwnGenerator, NOISE, "drawn_inside"),
    "tick_seeds_what_others_draw_from": (policies.SeedsTheGenerator, NOISE, "drawn_inside"),
    "tick_counts_itself": (policies.Counts, NOISE, "not_repeatable"),
    "noise_is_ignored": (policies.IgnoresTheNoise, NOISE, "ignored"),
    "condition_written_in_place_with_its_own_bits": (policies.WritesTheCondition, CONDITION, "written"),
    "cache_rebound_to_other_bits": (policies.RebindsTheCache, CONDITION, "changed"),
    "half_a_chunk": (policies.HalfAChunk, CHUNK, "chunk"),
    "chunk_of_the_tick_before": (policies.AnswersTheLastOne, CHUNK, "left_over"),
    "one_action_of_every_chunk_stays": (policies.OneActionStays, CHUNK, "stale"),
    "readout_that_nobody_states": (policies.ReadsOutUnsaid, READOUT, "unreported"),
    "hidden_item": (policies.Item, BLOCKERS, "undeclared"),
    "truth_of_a_tensor_between_steps": (policies.ItemBetweenSteps, BLOCKERS, "undeclared"),
    "list_in_the_last_step_alone": (policies.ListInTheLastStep, BLOCKERS, "undeclared"),
    "tensor_made_of_numbers": (policies.MadeOfNumbers, BLOCKERS, "undeclared"),
    "index_by_a_mask": (policies.Masks, BLOCKERS, "undeclared"),
}


@pytest.mark.parametrize(("policy", "check", "reason"), FAULTS.values(), ids=FAULTS)
def test_planted_fault_is_broken(policy: type[Policy], check: str, reason: str) -> None:
    torch.manual_seed(0)
    seen = found(check, told(policy()))
    assert isinstance(seen, Broken)
    assert seen.reason == reason, seen


READ_OUT = {"obs_encode": ("encode",), "action_denoise": ("body",), "readout": ("readout",)}
STATED: dict[str, tuple[type[Policy], str, str]] = {
    "readout_in_the_loop": (policies.ReadsOutInTheLoop, SEAMS, "in_the_loop"),
    "more_than_the_readout_computes": (policies.ReadsOutMoreThanSaid, READOUT, "unreported"),
}


@pytest.mark.parametrize(("policy", "check", "reason"), STATED.values(), ids=STATED)
def test_fault_beside_a_stated_readout_is_broken(policy: type[Policy], check: str, reason: str) -> None:
    seen = found(check, told(policy(), modules=READ_OUT))
    assert isinstance(seen, Broken)
    assert seen.reason == reason, seen


TOLD: dict[str, tuple[dict[str, Any], str, str]] = {
    "module_that_is_not_there": (
        {"modules": {"obs_encode": ("eyes",), "action_denoise": ("body",)}},
        SEAMS,
        "no_such_module",
    ),
    "loop_that_is_not_called": ({"loop": Loop("readout", STEPS, ("input",))}, SEAMS, "loop_never_ran"),
    "readout_that_is_not_called": ({"modules": READ_OUT}, SEAMS, "off_cadence"),
    "noise_of_two_tensors": ({"windows": {"noise": ("noise", "obs")}}, NOISE, "sites"),
    "blocker_that_is_gone": ({"blockers": (Blocker("aten::nonzero", 1, "was once"),)}, BLOCKERS, "undeclared"),
}


@pytest.mark.parametrize(("changes", "check", "reason"), TOLD.values(), ids=TOLD)
def test_wrong_word_of_the_host_is_broken(changes: dict[str, Any], check: str, reason: str) -> None:
    seen = found(check, told(Policy(), **changes))
    assert isinstance(seen, Broken)
    assert seen.reason == reason, seen


def test_declared_blocker_holds_and_is_counted() -> None:
    blockers = (Blocker("aten::lift_fresh", 1, "one number"),)
    seen = found(BLOCKERS, told(policies.MadeOfNumbers(), blockers=blockers))
    assert isinstance(seen, Holds)
    assert seen.measured == {"aten::lift_fresh": 1}


def test_stated_readout_holds_with_its_cost() -> None:
    host = told(policies.ReadsOutUnsaid(), modules=READ_OUT)
    seen = found(READOUT, host)
    assert isinstance(seen, Holds)
    assert seen.measured["aten::addmm"] == 1
    assert 0 < seen.measured["stage_s"] < seen.measured["whole_s"]
    assert isinstance(found(SEAMS, host), Holds)


NOT_SHOWN: dict[str, tuple[Callable[[Policy], TickStages], str, str]] = {
    "no_condition": (lambda policy: told(policy, loop=Loop("body", STEPS, ("x", "cond", "t"))), CONDITION, "no tensor"),
    "one_step": (lambda policy: told(policy, run=lambda s: policy.step(*policy.begin(s), 0)[0]), BLOCKERS, "1 steps"),
    "compiled": (lambda policy: told(policy, loop=Loop("kept", STEPS, ())), BLOCKERS, "out of sight"),
}


class Silent(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


@pytest.mark.parametrize(("make", "check", "why"), NOT_SHOWN.values(), ids=NOT_SHOWN)
def test_what_cannot_be_seen_is_not_shown(make: Callable[[Policy], TickStages], check: str, why: str) -> None:
    policy = Policy()
    policy.kept = Silent()
    policy.end = lambda x: policy.kept(policy.kept(x))[0]  # type: ignore[method-assign]
    seen = found(check, make(policy))
    assert isinstance(seen, NotShown)
    assert why in seen.why


def test_method_that_was_watched_is_the_classes_own_again() -> None:
    policy = Policy()
    host = told(policy, loop=Loop("", STEPS, ("x", "index"), "step"))
    assert isinstance(found(FIXED, host), Holds)
    assert "step" not in vars(policy)


def test_embedded_structures_are_structures() -> None:
    assert all(load_structure(CATALOG / name).name == name for name in load_pipeline(FOLDER).embeds)
