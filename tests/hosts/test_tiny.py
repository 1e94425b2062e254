"""Every host at tiny size keeps what the host protocol promises."""

from __future__ import annotations

import inspect
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_frt.contracts.host import HostProgram

TIMING_WINDOWS = 4


def cosine(a: Tensor, b: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(a.double().flatten(), b.double().flatten(), dim=0))


def test_program_defines_the_protocol(tiny: Any) -> None:
    for name, member in inspect.getmembers(HostProgram, inspect.isfunction):
        if not name.startswith("_"):
            asked = list(inspect.signature(member).parameters)[1:]
            assert list(inspect.signature(getattr(tiny.program, name)).parameters) == asked


def test_recipe_gives_the_same_weights_whatever_was_drawn_before(tiny: Any) -> None:
    torch.randn(3)
    again = tiny.program.build(tiny.request)
    assert all(torch.equal(a, b) for a, b in zip(tiny.model.parameters(), again.parameters(), strict=True))


def test_other_seed_gives_other_weights(tiny: Any, request_for: Any) -> None:
    other = tiny.program.build(request_for(seed=8))
    assert not any(torch.equal(a, b) for a, b in zip(tiny.model.parameters(), other.parameters(), strict=True))


def test_every_vector_is_distinct_and_no_norm_is_the_identity(tiny: Any) -> None:
    vectors = [parameter for parameter in tiny.model.parameters() if parameter.ndim == 1]
    assert all(vector.unique().numel() == vector.numel() and vector.std() > 0.1 for vector in vectors)


def test_host_is_in_evaluation_mode_and_float32(tiny: Any) -> None:
    assert not any(module.training for module in tiny.model.modules())
    assert {parameter.dtype for parameter in tiny.model.parameters()} == {torch.float32}


def test_run_is_idempotent_bit_for_bit(tiny: Any) -> None:
    first, second = tiny.draw(2)
    for phase in tiny.spec.phases:
        state = tiny.program.prepare(tiny.model, [first], phase.name)
        want = tiny.program.run(tiny.model, state).clone()
        tiny.program.run(tiny.model, tiny.program.prepare(tiny.model, [second], phase.name))
        assert torch.equal(tiny.program.run(tiny.model, state), want)


def test_run_shows_the_seats_the_rows_of_the_phase(tiny: Any) -> None:
    *_, layer = (m for name, m in tiny.model.named_modules() if name.endswith((".mlp", ".intermediate")))
    rows: list[int] = []
    handle = layer.register_forward_pre_hook(lambda _module, args: rows.append(args[0].numel() // args[0].shape[-1]))
    for phase in tiny.spec.phases:
        state = tiny.program.prepare(tiny.model, tiny.draw(1), phase.name)
        rows.clear()
        tiny.program.run(tiny.model, state)
        assert rows == [phase.timed_rows]
        assert phase.rows[0] <= phase.timed_rows <= phase.rows[1]
    handle.remove()


def test_score_is_deterministic_and_of_the_declared_shape(tiny: Any) -> None:
    samples = tiny.draw(3)
    for phase in tiny.spec.phases:
        first, second = (tiny.program.score(tiny.model, samples, phase.name) for _ in range(2))
        assert [score.shape[0] for score in first] == [phase.score_positions] * 3
        assert all(score.dtype == torch.float32 and torch.isfinite(score).all() for score in first)
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_score_of_a_sample_does_not_depend_on_its_company(tiny: Any) -> None:
    samples = tiny.draw(10)
    for phase in tiny.spec.phases:
        together = tiny.program.score(tiny.model, samples, phase.name)[9]
        (alone,) = tiny.program.score(tiny.model, samples[9:], phase.name)
        torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


def test_samples_are_distinct_and_follow_the_seed(tiny: Any, request_for: Any) -> None:
    wanted = tiny.spec.calibration_samples + tiny.spec.heldout_samples + TIMING_WINDOWS
    drawn, again = tiny.draw(wanted), tiny.draw(wanted)
    other = next(tiny.program.samples(request_for(seed=8)))
    assert len({tuple(sample["input_ids"].flatten().tolist()) for sample in drawn}) == wanted
    assert all(torch.equal(a["input_ids"], b["input_ids"]) for a, b in zip(drawn, again, strict=True))
    assert not torch.equal(drawn[0]["input_ids"], other["input_ids"])


def test_zeroing_one_seat_collapses_the_output(tiny: Any, zeroed: Any) -> None:
    suffixes = (".mlp", ".self_attn.o_proj", ".output.dense", ".self_attn.v_proj", ".self.value")
    seats = {name: module for name, module in tiny.model.named_modules() if name.endswith(suffixes)}
    phase = tiny.spec.phases[0].name
    want = tiny.program.score(tiny.model, tiny.draw(1), phase)[0]
    assert seats
    for name, seat in seats.items():
        with zeroed(seat):
            got = tiny.program.score(tiny.model, tiny.draw(1), phase)[0]
        assert cosine(got, want) < 0.98, name


def test_projection_is_flat_and_follows_the_configuration(tiny: Any) -> None:
    before = tiny.program.projection(tiny.model)
    assert all(isinstance(value, str | int | float | bool | None) for value in before.values())
    eps = next(name for name in before if name.endswith("norm_eps"))
    config = tiny.model.config.get_text_config()
    kept = getattr(config, eps)
    setattr(config, eps, 0.5)
    after = tiny.program.projection(tiny.model)
    setattr(config, eps, kept)
    assert {name for name in before if before[name] != after[name]} == {eps}


def test_unknown_size_and_phase_are_named(tiny: Any, request_for: Any) -> None:
    with pytest.raises(Exception, match="no size 'huge'"):
        tiny.program.build(request_for(size="huge"))
    with pytest.raises(Exception, match="no phase 'warmup'"):
        tiny.program.prepare(tiny.model, tiny.draw(1), "warmup")


def test_nothing_is_compiled_for_an_unknown_phase(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[torch.nn.Module] = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **_kwargs: compiled.append(self))
    with pytest.raises(Exception, match="no phase 'warmup'"):
        tiny.program.compile(tiny.model, "warmup")
    assert compiled == []


def test_samples_stay_in_the_vocabulary(tiny: Any) -> None:
    ids = torch.cat([sample["input_ids"] for sample in islice(tiny.program.samples(tiny.request), 20)])
    assert ids.shape == (20, max(phase.timed_rows for phase in tiny.spec.phases))
    assert 0 <= int(ids.min()) <= int(ids.max()) < tiny.model.config.get_text_config().vocab_size
