"""Timed executions run on values that no earlier one saw: same work, other content, nothing else changed."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
import torch

windows: Any = import_module("pytest_frt.hosts._shared.windows")
CONFIG = SimpleNamespace(vocab_size=512)


@torch.no_grad()
@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_fresh_state_has_the_shapes_and_other_values(decoder: Any, phase: str) -> None:
    program, model = decoder.program, decoder.model
    state = program.prepare(model, decoder.draw(1), phase)
    before = program.run(model, state)
    outputs = [program.run(model, program.fresh(model, state, seed)) for seed in (1, 2)]
    assert [output.shape for output in outputs] == [before.shape] * 2
    assert not torch.equal(*outputs)
    assert torch.equal(program.run(model, state), before)


@torch.no_grad()
def test_one_seed_gives_one_content(decoder: Any) -> None:
    state = decoder.program.prepare(decoder.model, decoder.draw(1), "decode")
    once, again = (decoder.program.fresh(decoder.model, state, 3) for _ in range(2))
    assert torch.equal(once.tokens, again.tokens)


def test_window_keeps_its_ends_and_most_ids() -> None:
    tokens = torch.arange(1000, 1256)[None]
    renewed = windows.renewed(tokens, CONFIG, 5)
    changed = renewed != tokens
    assert not changed[0, 0]
    assert changed[0, 1]
    assert not changed[0, -1]
    assert 0.15 < changed.float().mean() < 0.35


def test_step_of_one_token_gets_another() -> None:
    drawn = {int(windows.renewed(torch.tensor([[7]]), CONFIG, seed)) for seed in range(50)}
    assert len(drawn) > 40
