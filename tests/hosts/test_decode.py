"""The decode step of a language model: a repeatable step on a restored cache equals the model without a cache."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch

causal_lm: Any = import_module("pytest_frt.hosts._shared.causal_lm")


@torch.no_grad()
def test_step_equals_a_forward_without_a_cache(decoder: Any) -> None:
    sample = decoder.draw(1)
    state = decoder.program.prepare(decoder.model, sample, "decode")
    whole = decoder.model(input_ids=sample[0]["input_ids"][:, : causal_lm.PREFIX + 1], use_cache=False).logits
    torch.testing.assert_close(decoder.program.run(decoder.model, state), whole[0, -1:], rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_teacher_forced_score_equals_a_forward_without_a_cache(decoder: Any) -> None:
    samples = decoder.draw(2)
    phase = decoder.spec.phases[0]
    last = causal_lm.PREFIX + phase.score_positions
    for sample, score in zip(samples, decoder.program.score(decoder.model, samples, "decode"), strict=True):
        whole = decoder.model(input_ids=sample["input_ids"][:, :last], use_cache=False).logits
        torch.testing.assert_close(score, whole[0, causal_lm.PREFIX :], rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_prefill_keeps_the_positions_it_names(decoder: Any) -> None:
    sample = decoder.draw(1)
    state = decoder.program.prepare(decoder.model, sample, "prefill")
    whole = decoder.model(input_ids=sample[0]["input_ids"], use_cache=False).logits
    assert state.kept.tolist() == list(range(7, 256, 8))
    torch.testing.assert_close(decoder.program.run(decoder.model, state), whole[0, state.kept], rtol=1e-4, atol=1e-4)


def test_step_on_a_cache_that_is_not_restored_differs(decoder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    state = decoder.program.prepare(decoder.model, decoder.draw(1), "decode")
    monkeypatch.setattr(causal_lm, "snapshot", lambda cache: cache)
    first, second = (decoder.program.run(decoder.model, state) for _ in range(2))
    assert not torch.equal(first, second)


def test_snapshot_copies_no_keys(decoder: Any) -> None:
    cache = decoder.program.prepare(decoder.model, decoder.draw(1), "decode").cache
    for own, copied in zip(cache.layers, causal_lm.snapshot(cache).layers, strict=True):
        assert own is not copied
        assert own.keys is copied.keys


@pytest.mark.parametrize(("count", "sizes"), [(1, [1]), (8, [8]), (9, [4, 5]), (12, [6, 6]), (17, [5, 6, 6])])
def test_samples_share_the_fewest_calls(count: int, sizes: list[int]) -> None:
    assert [len(group) for group in causal_lm.groups(list(range(count)), 8)] == sizes


@pytest.mark.parametrize(("length", "count", "want"), [(16, 4, [3, 7, 11, 15]), (5, 2, [1, 4]), (3, 9, [0, 1, 2])])
def test_scored_positions_end_with_the_last(length: int, count: int, want: list[int]) -> None:
    assert causal_lm.scored_positions(torch.zeros(1, length), count).tolist() == want
