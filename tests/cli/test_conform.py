"""``frt conform``: a line per check and what it measured; broken is 1, not shown decides nothing, a wrong word is 4."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Frt = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]
YAML = """
name: robot
summary: A toy.
output: values
sizes: [tiny]
weights: {tiny: random}
forms: [eager]
pipeline: vla_tick_pipeline
phases: [{name: denoise, rows: [10, 64], timed_rows: 10, score_positions: 4}]
calibration_samples: 2
heldout_samples: 3
"""
HOST = """
import torch
from torch import nn
from pytest_frt.sdk import Blocker, Loop, TickStages

STEPS = 2


class Robot(nn.Module):
    def __init__(self):
        super().__init__()
        self.see, self.act = nn.Linear(4, 4), nn.Linear(4, 4)

    @torch.no_grad()
    def tick(self, sample):
        x, cond = sample["noise"], self.see(sample["obs"])
        for index in range(STEPS):
            x = x + self.act(x + cond)
        return x[0]


def build(request):
    return Robot()


def samples(request):
    while True:
        yield {"obs": torch.randn(1, 1, 4), "noise": torch.randn(1, 10, 4)}


def stages(model, samples):
    return TickStages(
        model=model,
        modules={"obs_encode": ("see",), "action_denoise": ("act",)},
        windows={"observation": ("obs",), "noise": ("noise",)},
        samples=tuple(samples),
        run=model.tick,
        loop=Loop("act", STEPS, ("input",)),
    )
"""
TWICE = "x = x + self.act(x + cond) + 0 * self.see(cond)"


@pytest.fixture
def robot(tmp_path: Path) -> Write:
    """Return a function that writes a toy host with something replaced, and returns its folder."""

    def write(old: str = "", new: str = "", *, yaml: str = YAML) -> Path:
        folder = tmp_path / "robot"
        folder.mkdir()
        (folder / "host.yaml").write_text(yaml)
        (folder / "host.py").write_text(HOST.replace(old, new) if old else HOST)
        return folder

    return write


def test_every_check_has_a_line_and_what_cannot_be_shown_is_no_failure(frt: Frt, robot: Write) -> None:
    status, out, _ = frt("conform", robot())
    assert status == 0
    assert "robot (tiny) as vla_tick_pipeline version 1" in out
    assert "condition_read_only_in_loop         NOT_SHOWN  no tensor but input is handed to a step" in out
    assert "      steps 2, modules 2" in out
    assert out.endswith("6 HOLDS, 0 BROKEN, 1 NOT_SHOWN\n")


def test_broken_check_is_1_and_those_that_need_it_are_not_shown(frt: Frt, robot: Write) -> None:
    status, out, _ = frt("conform", robot("x = x + self.act(x + cond)", TWICE))
    assert status == 1
    assert "BROKEN(in_the_loop)" in out
    assert out.count("stage_seam_exists did not hold") == 5
    assert out.count("hot_loop_fixed_shape_fixed_steps did not hold") == 1
    assert out.endswith("0 HOLDS, 1 BROKEN, 6 NOT_SHOWN\n")


def test_json_holds_the_same(frt: Frt, robot: Write) -> None:
    status, out, _ = frt("conform", robot(), "--json")
    told = json.loads(out)
    assert (status, told["host"], told["pipeline"]["name"]) == (0, "robot", "vla_tick_pipeline")
    outcomes = {check["name"]: check["outcome"] for check in told["checks"]}
    assert outcomes["stage_seam_exists"] == "HOLDS"
    assert outcomes["condition_read_only_in_loop"] == "NOT_SHOWN"
    assert told["checks"][1]["measured"] == {"steps": 2, "modules": 2}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def stages(", "def told(", "stages() is missing, and host.yaml says pipeline: vla_tick_pipeline"),
        ("return TickStages(", "return dict(", "returns dict, which lacks ['blockers', 'loop', 'model', 'modules'"),
        ('"action_denoise": ("act",)', '"act": ("act",)', "modules: vla_tick_pipeline has no ['act']"),
        ('{"observation": ("obs",), ', "{", "needs ['observation'] as well"),
        ('yield {"obs"', 'yield {"wind": torch.randn(1, 1, 4), "obs"', "['wind'] of a sample are in no window"),
    ],
    ids=["no_stages", "another_type", "unknown_stage", "missing_window", "undeclared_window"],
)
def test_host_that_does_not_tell_its_stages_is_4(frt: Frt, robot: Write, old: str, new: str, words: str) -> None:
    status, out, err = frt("conform", robot(old, new))
    assert (status, out) == (4, "")
    assert words in err


def test_host_without_distinct_samples_is_told(frt: Frt, robot: Write) -> None:
    status, _, err = frt(
        "conform", robot('torch.randn(1, 1, 4), "noise": torch.randn', 'torch.ones(1, 1, 4), "noise": torch.ones')
    )
    assert status == 1
    assert "yields 1 distinct samples, needs 2" in err


@pytest.mark.parametrize(
    ("yaml", "more", "words"),
    [
        (YAML.replace("pipeline: vla_tick_pipeline\n", ""), [], "host robot runs no pipeline"),
        (YAML.replace("vla_tick", "vla_tack"), [], "did you mean 'vla_tick_pipeline'"),
        (YAML, ["--size=huge"], "host robot has no size 'huge'"),
    ],
    ids=["no_pipeline", "unknown_pipeline", "unknown_size"],
)
def test_wrong_word_is_a_usage_fault(frt: Frt, robot: Write, yaml: str, more: list[str], words: str) -> None:
    status, out, err = frt("conform", robot(yaml=yaml), *more)
    assert (status, out) == (4, "")
    assert words in err


def test_unknown_host_is_a_usage_fault(frt: Frt) -> None:
    status, _, err = frt("conform", "robot")
    assert status == 4
    assert "no hosts entry is called 'robot'" in err


def test_pipelines_are_listed_with_their_hosts(frt: Frt) -> None:
    rows = {row["name"]: row for row in json.loads(frt("list", "pipelines", "--json")[1])["pipelines"]}
    assert {"groot_n17", "pi05", "smolvla"} <= set(rows["vla_tick_pipeline"]["hosts"])
    assert rows["video_generation_pipeline"]["hosts"] == []
    assert "action_denoise (tick)" in rows["vla_tick_pipeline"]["stages"]
