"""The hosts with trained weights."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import torch

from pytest_frt.lab.witness import compare_checkpoint
from tests import trained


def built(name: str) -> Any:
    """Return a program, its trained host, and the request that built it."""
    if why := trained.absent(name):
        pytest.skip(why)
    program = trained.program(name)
    return program, program.build(trained.REQUEST), trained.REQUEST


@pytest.fixture(scope="module")
def minilm() -> Any:
    return built("minilm")


def test_trained_encoder_equals_its_file(minilm: Any) -> None:
    program, model, request = minilm
    assert compare_checkpoint(model, program.checkpoint(request)) == (len(model.state_dict()), (), ())


def test_trained_encoder_scores_text_twice_alike(minilm: Any) -> None:
    program, model, request = minilm
    drawn = list(islice(program.samples(request), 3))
    assert all(sample["input_ids"][0, 0] == 101 and sample["input_ids"][0, -1] == 102 for sample in drawn)
    for phase, rows in (("denoise", 16), ("prefill", 32)):
        first, second = (program.score(model, drawn, phase) for _ in range(2))
        assert [score.shape for score in first] == [(rows, 384)] * 3
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_trained_encoder_needs_its_seats(minilm: Any, zeroed: Callable[..., Any]) -> None:
    program, model, request = minilm
    (sample,) = islice(program.samples(request), 1)
    want = program.score(model, [sample], "denoise")[0]
    with zeroed(model.encoder.layer[0].output.dense):
        got = program.score(model, [sample], "denoise")[0]
    assert torch.nn.functional.cosine_similarity(got.flatten(), want.flatten(), dim=0) < 0.98


def test_trained_decoder_equals_its_file() -> None:
    program, model, request = built("gemma3_270m")
    assert compare_checkpoint(model, program.checkpoint(request)) == (len(model.state_dict()), (), ())
    assert {parameter.data_ptr() % 64 for parameter in model.parameters()} == {0}
    state = program.prepare(model, list(islice(program.samples(request), 1)), "decode")
    assert torch.equal(program.run(model, state), program.run(model, state))
