"""Every host that runs a pipeline keeps its checks, and a fault that is planted in it breaks its own check."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from pytest_frt.contracts.pipeline import Broken, DecodeStages, Finding, Holds, NotShown, TickStages
from pytest_frt.fixtures.conformance import carried_out, stages_of
from pytest_frt.lab.hosting import Hosting
from pytest_frt.registry import PipelineEntry, Registry

# The library calls transformers by names that are going, from inside torch's own module call.
pytestmark = pytest.mark.filterwarnings("ignore:.past_key_values. is deprecated:FutureWarning")
POLICIES = ["groot_n17", "pi05", "smolvla"]
TEXT = ["gemma3_270m", "qwen25", "qwen3"]
SEAMS, FIXED, NOISE, CONDITION, CHUNK, READOUT, BLOCKERS = range(7)


@functools.cache
def registry() -> Registry:
    return Registry.load()


def told_by(tiny_host: Any, name: str) -> tuple[PipelineEntry, Any]:
    """Return the pipeline of a tiny host and what it tells of its stages."""
    needed = {"groot_n17": ["lerobot", "diffusers"], "pi05": ["lerobot"], "smolvla": ["lerobot"]}
    for package in needed.get(name, []):
        pytest.importorskip(package, reason=f"NOT_SUPPORTED: {package} is not installed")
    tiny = tiny_host(name)
    pipeline = registry().pipeline(tiny.spec.pipeline)
    return pipeline, stages_of(Hosting(tiny.spec, tiny.program, tiny.model), pipeline, tiny.request)


def found(pipeline: PipelineEntry, host: object) -> list[Finding]:
    with torch.no_grad():
        return [one.found for one in carried_out(pipeline, host)]


@pytest.mark.parametrize("name", POLICIES)
def test_policy_keeps_every_check(tiny_host: Any, name: str) -> None:
    assert [type(one) for one in found(*told_by(tiny_host, name))] == [Holds] * 7


@pytest.mark.parametrize("name", TEXT)
def test_decoder_of_text_keeps_every_check_but_those_of_images_and_buckets(tiny_host: Any, name: str) -> None:
    assert [type(one) for one in found(*told_by(tiny_host, name))] == [Holds, Holds, Holds, NotShown, NotShown]


def test_decoder_of_images_keeps_every_check_but_that_of_buckets(tiny_host: Any) -> None:
    assert [type(one) for one in found(*told_by(tiny_host, "qwen3_vl"))] == [Holds, Holds, Holds, Holds, NotShown]


def test_every_host_that_runs_a_pipeline_is_asked_here() -> None:
    asked = {name for name, entry in registry().hosts.items() if entry.spec.pipeline}
    assert asked == {*POLICIES, *TEXT, "qwen3_vl"}


@contextmanager
def before_each(module: nn.Module, meddle: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Have something done before each call of a module, with its arguments."""
    handle = module.register_forward_pre_hook(
        lambda _module, args, kwargs: meddle({**dict(enumerate(args)), **kwargs}), with_kwargs=True
    )
    try:
        yield
    finally:
        handle.remove()


def draws(_given: Any) -> None:
    torch.randn(1)


def reads(given: Any) -> None:
    float(next(iter(given.values())).sum())


MEDDLES = {"draws_in_the_loop": (draws, NOISE, "drawn_inside"), "hidden_item": (reads, BLOCKERS, "undeclared")}


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize(("meddle", "check", "reason"), MEDDLES.values(), ids=MEDDLES)
def test_what_a_layer_of_the_loop_does_beside_is_broken(
    tiny_host: Any, name: str, meddle: Callable[[Any], None], check: int, reason: str
) -> None:
    pipeline, host = told_by(tiny_host, name)
    with before_each(host.model.get_submodule(host.modules["action_denoise"][-1]), meddle):
        seen = found(pipeline, host)[check]
    assert isinstance(seen, Broken)
    assert seen.reason == reason, seen


def test_features_that_the_loop_writes_are_broken(tiny_host: Any) -> None:
    pipeline, host = told_by(tiny_host, "groot_n17")
    first = f"{host.loop.path}.transformer_blocks.0"

    def write(given: Any) -> None:
        given["encoder_hidden_states"].mul_(1)

    with before_each(host.model.get_submodule(first), write):
        seen = found(pipeline, host)[CONDITION]
    assert isinstance(seen, Broken)
    assert "encoder_hidden_states" in seen.detail


@pytest.mark.parametrize("name", POLICIES)
def test_another_number_of_steps_than_declared_is_broken(tiny_host: Any, name: str) -> None:
    pipeline, host = told_by(tiny_host, name)
    told: TickStages = replace(host, loop=replace(host.loop, steps=host.loop.steps + 1))
    seen = found(pipeline, told)[FIXED]
    assert isinstance(seen, Broken)
    assert seen.reason == "steps"


def test_prefix_with_one_key_turned_is_broken(tiny_host: Any) -> None:
    pipeline, host = told_by(tiny_host, "qwen3")

    def read(sample: Any) -> Any:
        state = host.read(sample)
        keys = state.step.cache.layers[0].keys.clone()
        keys[:, :, 5] *= -1
        state.step.cache.layers[0].keys = keys
        return state

    told: DecodeStages = replace(host, read=read)
    seen = found(pipeline, told)[0]
    assert isinstance(seen, Broken)
    assert seen.reason == "unread"
    assert seen.measured["error_in_eps"] > 100 * seen.measured["limit"]
