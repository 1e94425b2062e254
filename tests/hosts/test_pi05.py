"""Pi0.5 on the classes of lerobot: one tick, its seats and what is in none, checkpoints, and what must be refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pytest_frt.contracts.evidence import NullControl
from pytest_frt.contracts.verdict import Refusal
from pytest_frt.gates import null_control
from pytest_frt.lab.witness import compare_checkpoint

pytest.importorskip("lerobot", reason="NOT_SUPPORTED: lerobot is not installed")
pytestmark = [
    # The library calls transformers by names that are going, from inside torch's own module call.
    pytest.mark.filterwarnings("ignore:.past_key_values. is deprecated:FutureWarning"),
]
MODEL = "model.paligemma_with_expert."
EXPERT = f"{MODEL}gemma_expert.model"
PREFIX = f"{MODEL}paligemma.model.language_model"
VISION = f"{MODEL}paligemma.model.vision_tower"
SEATS = {"adaln_producer": 5, "decoder_ffn": 4, "linear_proj": 11, "norm_fused": 5, "qkv_pack": 6, "vision_ffn": 2}


@pytest.fixture(scope="module")
def pi05(tiny_host: Any) -> Any:
    return tiny_host("pi05")


@pytest.fixture
def saved(pi05: Any, tmp_path: Path) -> Path:
    pi05.model.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def test_classes_are_those_of_the_library(pi05: Any) -> None:
    kinds = {type(module).__module__.partition(".")[0] for module in pi05.model.modules()}
    assert type(pi05.model).__qualname__ == "PI05Policy"
    assert kinds == {"lerobot", "transformers", "torch"}
    assert not any("forward" in vars(module) for module in pi05.model.modules())


def test_every_vector_is_distinct_and_no_adaptive_norm_ignores_its_condition(pi05: Any) -> None:
    tensors = dict(pi05.model.named_parameters())
    assert all(one.unique().numel() == one.numel() for one in tensors.values() if one.ndim == 1)
    style = [one for name, one in tensors.items() if name.endswith("norm.dense.weight")]
    assert len(style) == 5
    assert all(0.2 < float(one.detach().std()) < 0.5 for one in style)  # gain 2.5 over a fan-in of 48


def test_score_is_how_far_the_actions_are_from_their_noise(pi05: Any) -> None:
    sample = pi05.draw(1)
    actions = pi05.program.run(pi05.model, pi05.program.prepare(pi05.model, sample, "denoise"))
    (score,) = pi05.program.score(pi05.model, sample, "denoise")
    assert score.shape == (32, 8)
    assert torch.equal(score[-1], actions[-1] - sample[0]["noise"][0, -1])


@pytest.mark.parametrize("phase", ["denoise", "prefill"])
def test_tick_has_the_rows_of_both_regimes(pi05: Any, phase: str) -> None:
    regimes = {one.name: one for one in pi05.spec.phases}
    want = {f"{EXPERT}.layers.{i}.mlp": Counter({regimes["denoise"].timed_rows: 3}) for i in range(2)}
    want |= {f"{VISION}.encoder.layers.{i}.mlp": Counter({regimes["prefill"].timed_rows: 1}) for i in range(2)}
    want |= {f"{PREFIX}.layers.{i}.mlp": Counter({288: 1}) for i in range(2)}
    assert pi05.calls(phase, ".mlp") == want
    assert all(regimes["prefill"].rows[0] <= prefix <= regimes["prefill"].rows[1] for prefix in (288, 968))


def test_seats_lie_in_expert_prefix_and_tower(pi05: Any) -> None:
    seats, _ = pi05.served()
    counted = Counter(seat.structure for seat in seats)
    assert {name: counted[name] for name in SEATS} == SEATS
    parts = {part: Counter(seat.structure for seat in seats if seat.id.startswith(part)) for part in (EXPERT, PREFIX)}
    assert parts[EXPERT] == {"adaln_producer": 5, "decoder_ffn": 2, "linear_proj": 2, "qkv_pack": 2}
    assert parts[PREFIX] == {"decoder_ffn": 2, "linear_proj": 2, "qkv_pack": 2}


def test_heads_alone_are_linears_in_no_seat(pi05: Any) -> None:
    _, rest = pi05.served()
    assert {row.path for row in rest if row.kind == "linear"} == {
        f"{MODEL}paligemma.lm_head",
        f"{MODEL}gemma_expert.lm_head",
    }
    assert not [row for row in rest if row.reason == "it is never called as a module"]


def test_heads_that_are_left_out_never_run(pi05: Any) -> None:
    seen: list[nn.Module] = []
    heads = [pi05.model.get_submodule(f"{MODEL}{part}.lm_head") for part in ("paligemma", "gemma_expert")]
    hooks = [head.register_forward_pre_hook(lambda module, _args: seen.append(module)) for head in heads]
    pi05.program.score(pi05.model, pi05.draw(1), "denoise")
    for hook in hooks:
        hook.remove()
    assert seen == []


def test_what_follows_the_last_keys_of_the_prefix_is_dead_and_no_earlier_layer_is(pi05: Any, zeroed: Any) -> None:
    sample = pi05.draw(1)
    (want,) = pi05.program.score(pi05.model, sample, "prefill")
    for layer, dead in ((0, False), (1, True)):
        for part in ("mlp", "self_attn.o_proj"):
            with zeroed(pi05.model.get_submodule(f"{PREFIX}.layers.{layer}.{part}")):
                (got,) = pi05.program.score(pi05.model, sample, "prefill")
            assert torch.equal(got, want) is dead, f"layer {layer} {part}"


def test_other_noise_image_or_instruction_gives_other_actions(pi05: Any) -> None:
    one, other = pi05.draw(2)
    image, tokens = "observation.images.base_0_rgb", "observation.language.tokens"
    mixed = [one, *({**one, name: other[name]} for name in ("noise", image, tokens))]
    scores = pi05.program.score(pi05.model, mixed, "denoise")
    assert all(
        float(nn.functional.cosine_similarity(a.flatten(), scores[0].flatten(), dim=0)) < 0.98 for a in scores[1:]
    )


def test_shortened_observation_keeps_its_chunk_and_its_regime(pi05: Any) -> None:
    sample = pi05.draw(1)
    short = [pi05.program.shorter(sample[0], "prefill")]
    assert short[0]["observation.language.tokens"].shape[1] == 16
    (whole,), (few,) = (pi05.program.score(pi05.model, one, "prefill") for one in (sample, short))
    assert few.shape == whole.shape


def rewritten(saved: Path, change: Any) -> None:
    """Save a checkpoint again with other tensors."""
    save_file(change(load_file(saved / "model.safetensors")), saved / "model.safetensors")


def test_file_of_an_earlier_release_is_read(pi05: Any, saved: Path, request_for: Any) -> None:
    def earlier(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        old = ((name.removeprefix("model."), one) for name, one in tensors.items())
        kept = {name.replace("vision_tower.", "vision_tower.vision_model."): one for name, one in old}
        kept["paligemma_with_expert.paligemma.lm_head.weight"] = kept.pop(
            "paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight"
        )
        return kept

    rewritten(saved, earlier)
    asked = request_for(checkpoint=str(saved))
    model = pi05.program.build(asked)
    compared, differing, missing = compare_checkpoint(model, pi05.program.checkpoint(asked))
    # The embedding is not in such a file: it is the head's. The library looks for it where it has no prefix yet.
    assert (compared, differing, missing) == (len(model.state_dict()), (), ())


def without_tower(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: one for name, one in tensors.items() if "vision_tower" not in name}


def tower_of_other_width(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: one[..., :8].clone() if "vision_tower" in name else one for name, one in tensors.items()}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(without_tower, "checkpoint_missing"), (tower_of_other_width, "checkpoint_differs")],
    ids=["without_tower", "tower_of_other_width"],
)
def test_null_control_refuses_a_checkpoint_whose_tower_did_not_load(
    pi05: Any, saved: Path, request_for: Any, fault: Any, reason: str
) -> None:
    rewritten(saved, fault)
    asked = request_for(checkpoint=str(saved), seed=99)
    model = pi05.program.build(asked)  # the library prints a line and goes on
    null = NullControl(*compare_checkpoint(model, pi05.program.checkpoint(asked)), (), ())
    verdict = null_control.judge(null, phase="denoise", weights="random")
    assert isinstance(verdict, Refusal)
    assert verdict.reason == reason
    assert "vision_tower" in verdict.detail


def test_projection_is_flat_and_follows_the_configuration(pi05: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = pi05.program.projection(pi05.model)
    assert all(isinstance(value, str | int | float | bool | None) for value in before.values())
    monkeypatch.setattr(pi05.model.get_submodule(EXPERT).config, "rms_norm_eps", 0.5)
    after = pi05.program.projection(pi05.model)
    assert {name for name in before if before[name] != after[name]} == {"expert.rms_norm_eps"}


def test_every_layer_is_compiled_for_either_phase(pi05: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[nn.Module] = []
    monkeypatch.setattr(nn.Module, "compile", lambda self, **_kwargs: compiled.append(self))
    pi05.program.compile(pi05.model, "denoise")
    stacks = (f"{EXPERT}.layers", f"{PREFIX}.layers", f"{VISION}.encoder.layers")
    assert compiled == [layer for stack in stacks for layer in pi05.model.get_submodule(stack)]


def test_full_size_is_as_published(pi05: Any, request_for: Any) -> None:
    config = pi05.program._config(request_for(size="full"))
    layout = next(pi05.program.samples(request_for(size="full")))
    assert (config.chunk_size, config.num_inference_steps, config.dtype) == (50, 10, "bfloat16")
    assert sum(one.shape[-2:] == (224, 224) for one in layout.values()) == 3
    assert layout["observation.language.tokens"].shape == (1, 200)
    assert layout["noise"].shape == (1, 50, 32)
