"""``video_generation_pipeline``: a small generator keeps every check, and each planted fault breaks its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_frt.contracts.pipeline import Broken, Finding, Holds, Loop, NotShown
from pytest_frt.spec.load import load_structure
from pytest_frt.spec.modules import load_file
from pytest_frt.spec.pipelines import check_told, load_pipeline, read_finding

from . import generators
from .conftest import CATALOG
from .generators import FRAMES, STEPS, WIDTH, Generator, Skips, Told, near, told

FOLDER = CATALOG / "video_generation_pipeline"
CHECKS = [check.name for check in load_pipeline(FOLDER).checks]
SHAPE, CONDITION, NOISE, UPDATE, SKIPPED, DECODE = CHECKS


def found(check: str, host: Told) -> Finding:
    return read_finding(getattr(load_file(FOLDER / "conformance.py"), check)(host), check)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_toy_tells_what_the_pipeline_asks_for() -> None:
    host = told(Generator())
    check_told(load_pipeline(FOLDER), host.modules, host.windows, host.samples[0], "toy")


@pytest.mark.parametrize("check", CHECKS)
def test_plain_generator_holds(check: str) -> None:
    assert isinstance(found(check, told(Generator())), Holds)


def test_skipped_steps_that_pass_a_gate_hold() -> None:
    seen = found(SKIPPED, told(Skips(), skipped=2, gate=near(0.2)))
    assert isinstance(seen, Holds), seen
    assert seen.measured["skipped"] == 2


MOVING = ("latent", "time")
WORDS: dict[str, tuple[type[Generator], dict[str, Any], str, str]] = {
    "another_shape_declared": (Generator, {"shapes": {"latent": (1, 9, WIDTH), "time": (1,)}}, SHAPE, "shape"),
    "shape_not_declared": (Generator, {"shapes": {"latent": (1, FRAMES, WIDTH)}}, SHAPE, "undeclared"),
    "module_that_is_not_there": (Generator, {"loop": Loop("unet", STEPS, MOVING)}, SHAPE, "no_such_module"),
    "another_number_of_steps": (Generator, {"loop": Loop("network", STEPS - 1, MOVING)}, SHAPE, "steps"),
    "condition_written": (generators.WritesThePrompt, {}, CONDITION, "written"),
    "latent_drawn_inside": (generators.DrawsItsLatent, {}, NOISE, "drawn_inside"),
    "latent_moved_beside_the_scheduler": (generators.MovesTheLatent, {}, UPDATE, "hidden_update"),
    "steps_skipped_and_not_told": (Skips, {}, SKIPPED, "undeclared"),
    "steps_told_and_not_skipped": (Generator, {"skipped": 2}, SKIPPED, "undeclared"),
    "no_gate": (Skips, {"skipped": 2}, SKIPPED, "no_gate"),
    "gate_that_takes_all": (Skips, {"skipped": 2, "gate": lambda _got, _want: True}, SKIPPED, "gate_takes_all"),
    "gate_that_takes_what_is_no_number": (
        Skips,
        {"skipped": 2, "gate": lambda got, want: not (got - want).norm() > 0.2 * want.norm()},
        SKIPPED,
        "gate_takes_all",
    ),
    "gate_that_takes_another_request": (
        Skips,
        {"skipped": 2, "gate": lambda got, _want: bool(got.isfinite().all())},
        SKIPPED,
        "gate_takes_all",
    ),
    "quality_below_the_gate": (Skips, {"skipped": 2, "gate": near(1e-6)}, SKIPPED, "quality"),
    "decoded_twice_and_stated_never": (
        generators.DecodesUnsaid,
        {"modules": {"denoise": ("network.inner",)}},
        DECODE,
        "unreported",
    ),
}


@pytest.mark.parametrize(("generator", "changes", "check", "reason"), WORDS.values(), ids=WORDS)
def test_planted_fault_is_broken(generator: type[Generator], changes: dict[str, Any], check: str, reason: str) -> None:
    seen = found(check, told(generator(), **changes))
    assert isinstance(seen, Broken)
    assert seen.reason == reason, seen


def test_cost_of_the_decoder_is_stated() -> None:
    seen = found(DECODE, told(Generator()))
    assert isinstance(seen, Holds)
    assert seen.measured["aten::addmm"] == 1
    assert 0 < seen.measured["stage_s"] < seen.measured["whole_s"]


def test_update_of_one_step_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generators, "STEPS", 1)
    assert isinstance(found(UPDATE, told(Generator())), NotShown)


def test_embedded_structures_are_structures() -> None:
    assert all(load_structure(CATALOG / name).name == name for name in load_pipeline(FOLDER).embeds)
