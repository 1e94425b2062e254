"""A form is that of both arms: the compiled base is timed against the compiled candidate, each on a host of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch

from pytest_frt.lab.arms import Arms

Built = Callable[[str, str], Arms]
COMPILES = """
class Compilable(Toy):
    passes = 4

    def forward(self, x):
        for _ in range(self.passes):
            y = self.proj(x)
        return y

def build(request):
    torch.manual_seed(request.seed)
    return Compilable()

def compile(model, phase):
    model.passes = 1
"""


@pytest.fixture
def built(toy: Any, tmp_path: Path) -> Built:
    """Return a function that binds a base and the fast toy impl in two forms; compiling saves three of four passes."""
    job = toy.job("faster")
    folder = tmp_path / "toy"
    folder.mkdir()
    for file in Path(job.host.folder).glob("*.*"):
        (folder / file.name).write_text(file.read_text() + (COMPILES if file.name == "host.py" else ""))

    def build(form: str, base_form: str) -> Arms:
        host = replace(job.host, folder=str(folder))
        return Arms(replace(job, host=host, form=form, base_form=base_form), ("base", "faster"))

    return build


def passes(arms: Arms, name: str) -> Any:
    return arms._stages[name].host.model.passes


@pytest.mark.parametrize(
    ("form", "base_form", "base", "arm"),
    [
        pytest.param("eager", "eager", 4, 4, id="eager_record"),
        pytest.param("compiled", "compiled", 1, 1, id="compiled_record"),
        pytest.param("eager", "compiled", 1, 4, id="comparison"),
    ],
)
@torch.no_grad()
def test_each_arm_is_in_its_form(built: Built, form: str, base_form: str, base: int, arm: int) -> None:
    arms = built(form, base_form)
    assert (passes(arms, "base"), passes(arms, "faster")) == (base, arm)


@torch.no_grad()
def test_compiled_arms_share_no_host_and_stay_attached(built: Built) -> None:
    arms = built("compiled", "compiled")
    base, arm = (arms._stages[name] for name in ("base", "faster"))
    assert base.host.model is not arm.host.model
    for name in ("faster", "base", "faster"):
        arms.switch(name)
        assert (base.attached, arm.attached) == ("base", "faster")


@torch.no_grad()
def test_null_cycle_of_a_compiled_arm_ends_where_it_began(built: Built) -> None:
    arms = built("compiled", "compiled")
    arms.switch("base", cycle="faster")
    assert arms._stages["faster"].attached == "faster"
    assert arms._current == "base"


@torch.no_grad()
def test_compiled_base_is_what_a_compiled_arm_must_beat(built: Built) -> None:
    import time

    arms = built("compiled", "compiled")

    def seconds(name: str, instance: int) -> float:
        arms.switch(name)
        calls = arms.calls(instance, "decode", 0, 0, 8)
        began = time.perf_counter()
        for call in calls:
            call()
        return time.perf_counter() - began

    for name, instance in (("base", 0), ("faster", 1)):
        seconds(name, instance)
    # A pass of the base costs three products, one of the arm costs one; an eager base would cost twelve.
    assert 1.3 < median(seconds("base", 0) / seconds("faster", 1) for _ in range(9)) < 7
