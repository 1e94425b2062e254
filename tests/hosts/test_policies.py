"""Every robot policy of lerobot, built tiny, keeps what the host protocol promises."""

from __future__ import annotations

import functools
import inspect
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_frt.contracts.host import HostProgram
from pytest_frt.contracts.verdict import Pass, Refusal
from pytest_frt.errors import CheckpointError, FrtError
from pytest_frt.lab import taps
from pytest_frt.lab.witness import compare_checkpoint
from pytest_frt.rules.bands import HOST_BAND

pytest.importorskip("lerobot", reason="NOT_SUPPORTED: lerobot is not installed")
# The library calls transformers by names that are going, from inside torch's own module call.
pytestmark = pytest.mark.filterwarnings("ignore:.past_key_values. is deprecated:FutureWarning")
KIND = {"groot_n17": "groot", "pi05": "pi05", "smolvla": "smolvla"}
"""Host to what its library calls the policy."""


@pytest.fixture(params=sorted(KIND))
def policy(request: pytest.FixtureRequest, tiny_host: Any) -> Any:
    """Return each policy in turn."""
    if request.param == "groot_n17":
        pytest.importorskip("diffusers", reason="NOT_SUPPORTED: diffusers is not installed")
    return tiny_host(request.param)


@pytest.fixture
def saved(policy: Any, tmp_path: Path) -> Path:
    policy.model.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def test_program_defines_the_protocol(policy: Any) -> None:
    for name, member in inspect.getmembers(HostProgram, inspect.isfunction):
        if not name.startswith("_"):
            asked = list(inspect.signature(member).parameters)[1:]
            assert list(inspect.signature(getattr(policy.program, name)).parameters) == asked


def test_recipe_gives_the_same_weights_whatever_was_drawn_before(policy: Any) -> None:
    torch.randn(3)
    again = policy.program.build(policy.request)
    assert all(torch.equal(a, b) for a, b in zip(policy.model.parameters(), again.parameters(), strict=True))


def test_run_is_idempotent_and_draws_nothing(policy: Any) -> None:
    first, second = policy.draw(2)
    state = policy.program.prepare(policy.model, [first], "denoise")
    before = torch.get_rng_state()
    want = policy.program.run(policy.model, state).clone()
    policy.program.run(policy.model, policy.program.prepare(policy.model, [second], "prefill"))
    assert torch.equal(policy.program.run(policy.model, state), want)
    assert torch.equal(torch.get_rng_state(), before)


def test_training_reaches_every_part_and_evaluation_as_well(policy: Any) -> None:
    model = policy.program.build(policy.request)
    assert not any(module.training for module in model.modules())
    model.train()
    assert all(module.training for module in model.modules())
    model.eval()
    assert not any(module.training for module in model.modules())


def test_fresh_tick_has_the_shapes_and_other_values(policy: Any) -> None:
    state = policy.program.prepare(policy.model, policy.draw(1), "denoise")
    before = policy.program.run(policy.model, state)
    first, again, other = (policy.program.fresh(policy.model, state, seed) for seed in (1, 1, 2))
    assert torch.equal(policy.program.run(policy.model, first), policy.program.run(policy.model, again))
    assert not torch.equal(policy.program.run(policy.model, first), policy.program.run(policy.model, other))
    words = next(one for name, one in first.batch.items() if name.endswith(("tokens", "input_ids")))
    assert words.unique().numel() > 16  # of a vocabulary of 512
    assert {name: one.shape for name, one in first.batch.items()} == {
        name: one.shape for name, one in state.batch.items()
    }
    assert torch.equal(policy.program.run(policy.model, state), before)


def test_samples_are_distinct_and_follow_the_seed(policy: Any, request_for: Any) -> None:
    wanted = policy.spec.calibration_samples + policy.spec.heldout_samples + 4
    drawn, again = policy.draw(wanted), policy.draw(wanted)
    other = next(policy.program.samples(request_for(seed=8)))
    words = next(name for name in other if name.endswith(("tokens", "input_ids")))
    for name in ("noise", words):
        assert len({tuple(sample[name].flatten().tolist()) for sample in drawn}) == wanted
        assert all(torch.equal(a[name], b[name]) for a, b in zip(drawn, again, strict=True))
        assert not torch.equal(drawn[0][name], other[name])


def test_every_linear_and_norm_is_a_seat_or_listed_with_a_reason(policy: Any) -> None:
    policy.assert_placed()


def test_names_of_the_library_are_given_back(policy: Any) -> None:
    def names() -> dict[str, dict[str, Any]]:
        parts = {name: module for name, module in sys.modules.items() if name.startswith("lerobot.policies.")}
        return {name: dict(vars(module)) for name, module in parts.items()}

    before = names()
    policy.program.build(policy.request)
    assert names() == before


def test_truncated_checkpoint_is_refused(policy: Any, saved: Path, request_for: Any) -> None:
    whole = (saved / "model.safetensors").read_bytes()
    (saved / "model.safetensors").write_bytes(whole[:-8])
    with pytest.raises(CheckpointError, match="cannot be read"):
        policy.program.build(request_for(checkpoint=str(saved)))


def test_checkpoint_of_another_policy_is_refused(policy: Any, saved: Path, request_for: Any) -> None:
    text = (saved / "config.json").read_text().replace(f'"type": "{KIND[policy.spec.name]}"', '"type": "act"')
    (saved / "config.json").write_text(text)
    with pytest.raises(
        CheckpointError, match=f"describes the policy 'act'; this host loads '{KIND[policy.spec.name]}'"
    ):
        policy.program.build(request_for(checkpoint=str(saved)))


def test_setting_that_the_library_does_not_know_is_refused(policy: Any, saved: Path, request_for: Any) -> None:
    text = (saved / "config.json").read_text().replace("{", '{"steering": 1,', 1)
    (saved / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"cannot be read by lerobot: .*steering"):
        policy.program.build(request_for(checkpoint=str(saved)))


def test_unknown_size_and_phase_are_named(policy: Any, request_for: Any) -> None:
    with pytest.raises(FrtError, match="no size 'real'"):
        policy.program.build(request_for(size="real"))
    with pytest.raises(FrtError, match="no phase 'decode'"):
        policy.program.prepare(policy.model, policy.draw(1), "decode")


def test_building_says_nothing(policy: Any, saved: Path, request_for: Any, capfd: Any) -> None:
    capfd.readouterr()
    policy.program.build(request_for(checkpoint=str(saved)))
    assert capfd.readouterr() == ("", "")


def test_saved_policy_is_read_back_bit_for_bit(policy: Any, saved: Path, request_for: Any) -> None:
    asked = request_for(checkpoint=str(saved), seed=99)
    model = policy.program.build(asked)
    assert compare_checkpoint(model, policy.program.checkpoint(asked)) == (len(model.state_dict()), (), ())
    sample = list(islice(policy.program.samples(request_for(checkpoint=str(saved))), 1))
    pairs = zip(*(policy.program.score(one, sample, "denoise") for one in (model, policy.model)), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


PARTS = [
    ("groot_n17", "_groot_model.backbone.model.model.language_model"),
    ("groot_n17", "_groot_model.backbone.model.model.visual"),
    ("pi05", "model.paligemma_with_expert.gemma_expert"),
    ("pi05", "model.paligemma_with_expert.paligemma.model.language_model"),
    ("pi05", "model.paligemma_with_expert.paligemma.model.vision_tower"),
    ("smolvla", "model.vlm_with_expert.lm_expert"),
    ("smolvla", "model.vlm_with_expert.vlm.model.text_model"),
    ("smolvla", "model.vlm_with_expert.vlm.model.vision_model"),
]


@pytest.fixture(scope="module")
def heldout(tiny_host: Any) -> Any:
    """Return a function that gives a policy's held-out samples and their scores, once per module."""

    @functools.cache
    def scored(name: str) -> Any:
        host = tiny_host(name)
        samples = host.draw(host.spec.heldout_samples)
        return samples, host.program.score(host.model, samples, "denoise")

    return scored


@pytest.mark.parametrize(("name", "part"), PARTS, ids=lambda text: text.rpartition(".")[2])
def test_zeroed_ffns_fail_the_host_band(tiny_host: Any, heldout: Any, name: str, part: str) -> None:
    if name == "groot_n17":
        pytest.importorskip("diffusers", reason="NOT_SUPPORTED: diffusers is not installed")
    host, (samples, want) = tiny_host(name), heldout(name)
    seats, _ = host.discovered()
    ffns = [seat for seat in seats if seat.structure.endswith("_ffn") and seat.id.startswith(part)]
    with taps.zeroed(host.model, ffns):
        verdict = host.judged(host.program.score(host.model, samples, "denoise"), want)
    assert isinstance(host.judged(want, want), Pass)
    assert isinstance(verdict, Refusal)
    assert verdict.reason == HOST_BAND
