from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_frt.contracts.evidence import NullControl
from pytest_frt.contracts.verdict import Pass, Refusal
from pytest_frt.gates import null_control

SOUND = NullControl(tensors=9, differing=(), missing=(), repeat_differing=(), rng_used=())


@pytest.mark.parametrize("weights", ["trained", "random"])
def test_sound_host(weights: str) -> None:
    assert isinstance(null_control.judge(SOUND, phase="decode", weights=weights), Pass)


@pytest.mark.parametrize(
    ("spoiled", "reason"),
    [
        pytest.param(replace(SOUND, tensors=0), "checkpoint_unread", id="nothing_compared"),
        pytest.param(replace(SOUND, differing=("tower.w", "tower.b")), "checkpoint_differs", id="tower_reinitialised"),
        pytest.param(replace(SOUND, missing=("head.w",)), "checkpoint_missing", id="head_not_in_the_file"),
        pytest.param(replace(SOUND, rng_used=("decode",)), "rng", id="random_numbers_in_the_graph"),
        pytest.param(replace(SOUND, repeat_differing=("decode",)), "not_repeatable", id="second_run_differs"),
    ],
)
def test_refusal(spoiled: NullControl, reason: str) -> None:
    verdict = null_control.judge(spoiled, phase="decode", weights="trained")
    assert isinstance(verdict, Refusal)
    assert verdict.reason == reason


def test_every_differing_tensor_is_named() -> None:
    names = tuple(f"layer.{index}.w" for index in range(50))
    verdict = null_control.judge(replace(SOUND, differing=names), phase="decode", weights="trained")
    assert isinstance(verdict, Refusal)
    assert all(name in verdict.detail for name in names)


def test_another_phase_is_another_record() -> None:
    spoiled = replace(SOUND, repeat_differing=("prefill",), rng_used=("prefill",))
    assert isinstance(null_control.judge(spoiled, phase="decode", weights="trained"), Pass)


def test_a_synthetic_host_has_no_file() -> None:
    assert isinstance(null_control.judge(replace(SOUND, tensors=0), phase="decode", weights="random"), Pass)
