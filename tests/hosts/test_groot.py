"""GR00T N1.7 on the classes of lerobot: one tick on a given noise, its seats, checkpoints, and what must be refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pytest_frt.errors import CheckpointError, FrtError
from pytest_frt.lab.witness import compare_checkpoint

pytest.importorskip("lerobot", reason="NOT_SUPPORTED: lerobot is not installed")
pytest.importorskip("diffusers", reason="NOT_SUPPORTED: diffusers is not installed")
# The library calls transformers by names that are going.
pytestmark = pytest.mark.filterwarnings("ignore:.past_key_values. is deprecated:FutureWarning")
steps: Any = import_module("pytest_frt.hosts.groot_n17.steps")
sizes: Any = import_module("pytest_frt.hosts.groot_n17.sizes")
QWEN = "_groot_model.backbone.model"
TEXT = f"{QWEN}.model.language_model"
VISION = f"{QWEN}.model.visual"
BLOCKS = "_groot_model.action_head.model.transformer_blocks"
SEATS = {
    "adaln_producer": 4,
    "cadence_static": 4,
    "decoder_ffn": 2,
    "linear_proj": 33,
    "modnorm_qkv_chain": 4,
    "norm_fused": 10,
    "patch_projection": 1,
    "qkv_pack": 5,
    "vision_ffn": 2,
}


@pytest.fixture(scope="module")
def groot(tiny_host: Any) -> Any:
    return tiny_host("groot_n17")


def test_tick_has_the_rows_of_transformer_backbone_and_tower(groot: Any) -> None:
    regimes = {one.name: one for one in groot.spec.phases}
    want = {f"{BLOCKS}.{i}.ff": Counter({regimes["denoise"].timed_rows: 4}) for i in range(4)}
    want |= {f"{VISION}.blocks.{i}.mlp": Counter({regimes["prefill"].timed_rows: 1}) for i in range(2)}
    want |= {f"{TEXT}.layers.{i}.mlp": Counter({96: 1}) for i in range(2)}
    want["_groot_model.action_head.vl_self_attention.transformer_blocks.0.ff"] = Counter({96: 1})
    assert groot.calls("denoise", ".mlp", ".ff") == want


def test_every_second_block_reads_keys_of_the_backbone(groot: Any) -> None:
    rows = {path: set(seen) for path, seen in groot.calls("denoise", ".to_k").items() if path.startswith(BLOCKS)}
    assert rows == {f"{BLOCKS}.{i}.attn1.to_k": {41 if i % 2 else 96} for i in range(4)}


def test_seats_lie_in_transformer_backbone_and_tower(groot: Any) -> None:
    seats, rest = groot.served()
    counted = Counter(seat.structure for seat in seats)
    assert {name: counted[name] for name in SEATS} == SEATS
    second = Counter(seat.structure for seat in seats if seat.id.startswith(f"{BLOCKS}.0."))
    assert second == {"adaln_producer": 1, "cadence_static": 2, "linear_proj": 4, "modnorm_qkv_chain": 1}
    assert {row.path for row in rest if row.kind == "linear"} == {f"{QWEN}.lm_head"}
    assert not [row for row in rest if row.reason == "it is never called as a module"]


def test_head_that_is_left_out_runs_for_nothing(groot: Any, zeroed: Any) -> None:
    sample = groot.draw(1)
    (want,) = groot.program.score(groot.model, sample, "prefill")
    assert groot.calls("denoise", "lm_head") == {f"{QWEN}.lm_head": Counter({96: 1})}
    with zeroed(groot.model.get_submodule(f"{QWEN}.lm_head")):
        (got,) = groot.program.score(groot.model, sample, "prefill")
    assert torch.equal(got, want)


def test_given_noise_is_what_the_actions_start_from(groot: Any, zeroed: Any) -> None:
    state = groot.program.prepare(groot.model, groot.draw(1), "denoise")
    with zeroed(groot.model.get_submodule("_groot_model.action_head.action_decoder")):
        assert torch.equal(groot.program.run(groot.model, state), state.noise[0])


def test_noise_is_given_once_and_of_its_shape() -> None:
    library = SimpleNamespace(torch=torch)
    noise = torch.arange(6.0).reshape(1, 2, 3)
    with steps.drawing(library, noise):
        assert library.torch.ones(2).tolist() == [1, 1]
        assert torch.equal(library.torch.randn(size=(1, 2, 3), dtype=torch.float32, device="cpu"), noise)
        with pytest.raises(FrtError, match=r"draws noise of shape \(1, 2, 3\) and torch.float32; none is left"):
            library.torch.randn(size=(1, 2, 3), dtype=torch.float32, device="cpu")
    with steps.drawing(library, noise), pytest.raises(FrtError, match=r"\(1, 2, 3\) of torch.float32 is given"):
        library.torch.randn(size=(1, 9, 3), dtype=torch.float32, device="cpu")
    assert library.torch is torch


def test_first_tick_of_a_built_policy_hooks_nothing(groot: Any) -> None:
    def hooks(model: nn.Module) -> dict[str, list[int]]:
        return {name: list(module._forward_hooks) for name, module in model.named_modules()}

    model = groot.program.build(groot.request)
    before = hooks(model)
    groot.program.score(model, groot.draw(1), "prefill")
    assert hooks(model) == before


def test_tick_without_a_given_noise_draws_its_own(groot: Any) -> None:
    state = groot.program.prepare(groot.model, groot.draw(1), "denoise")
    before = torch.get_rng_state()
    with torch.no_grad():
        groot.model.predict_action_chunk(dict(state.batch))
    assert not torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", ["pixel_values", "input_ids", "state", "noise"])
def test_other_observation_gives_other_actions(groot: Any, name: str) -> None:
    one, other = groot.draw(2)
    scores = groot.program.score(groot.model, [one, {**one, name: other[name]}], "denoise")
    # The state is one of 41 rows, and weighs little.
    assert float((scores[0] - scores[1]).abs().max()) > 0.01


@pytest.mark.parametrize("size", ["tiny", "full"])
def test_images_lie_between_their_markers(groot: Any, request_for: Any, size: str) -> None:
    sample = next(groot.program.samples(request_for(size=size)))
    backbone = sizes.backbone_of(size, groot.program._part("groot_n1_7"))
    image, images = sample["input_ids"] == backbone.image_token_id, sizes.SIZES[size].images
    assert int(image.sum()) * 4 == sample["pixel_values"].shape[1] == int(sample["image_grid_thw"].prod(-1).sum())
    assert int((sample["input_ids"] == backbone.vision_start_token_id).sum()) == images
    assert sample["pixel_values"].shape[2] == 3 * 2 * backbone.vision_config.patch_size**2
    assert (sample["noise"].shape[1], sample["state"].shape[2]) == (40, sample["noise"].shape[2])


def test_fresh_tick_leaves_its_images_where_they_are(groot: Any) -> None:
    state = groot.program.prepare(groot.model, groot.draw(1), "denoise")
    other = groot.program.fresh(groot.model, state, 5)
    marked = state.batch["input_ids"] >= 500
    assert torch.equal(other.batch["input_ids"] >= 500, marked)
    assert not torch.equal(other.batch["input_ids"], state.batch["input_ids"])
    assert not (other.batch["pixel_values"] == state.batch["pixel_values"]).any(dim=1).any()


def without_tower(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: one for name, one in tensors.items() if ".visual." not in name}


def narrow_tower(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: one[:1].clone() if ".visual." in name else one for name, one in tensors.items()}


@pytest.mark.parametrize("fault", [without_tower, narrow_tower], ids=lambda fault: fault.__name__)
def test_checkpoint_whose_tower_does_not_load_is_refused(
    groot: Any, tmp_path: Path, request_for: Any, fault: Any
) -> None:
    groot.model.save_pretrained(tmp_path)
    save_file(fault(load_file(tmp_path / "model.safetensors")), tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"does not fit GrootPolicy: [\s\S]*visual"):
        groot.program.build(request_for(checkpoint=str(tmp_path)))


def test_checkpoint_with_another_tensor_is_caught(groot: Any, tmp_path: Path, request_for: Any) -> None:
    groot.model.save_pretrained(tmp_path)
    asked = request_for(checkpoint=str(tmp_path))
    model = groot.program.build(asked)
    with torch.no_grad():
        model.get_submodule(f"{VISION}.merger.norm").weight.add_(1)
    _, differing, missing = compare_checkpoint(model, groot.program.checkpoint(asked))
    assert (differing, missing) == ((f"{VISION}.merger.norm.weight",), ())


def test_policy_runs_in_the_dtype_of_the_full_size(
    groot: Any, request_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = {"tiny": replace(sizes.SIZES["tiny"], dtype=torch.bfloat16)}
    monkeypatch.setattr(groot.program, "SIZES", half)
    model = groot.program.build(request_for())
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    got, want = (groot.program.score(each, groot.draw(1), "denoise")[0] for each in (model, groot.model))
    assert float(nn.functional.cosine_similarity(got.flatten(), want.flatten(), dim=0)) > 0.98


def test_full_size_is_as_published(groot: Any, request_for: Any) -> None:
    library = groot.program._part("groot_n1_7")
    settings, backbone = sizes.settings_of("full", library), sizes.backbone_of("full", library)
    assert (settings.action_horizon, settings.select_layer, settings.num_inference_timesteps) == (40, 16, 4)
    assert settings.diffusion_model_cfg["num_layers"] == backbone.text_config.num_attention_heads * 2 == 32
    config = groot.program._config(request_for(size="full"))
    assert (config.max_action_dim, config.use_bf16, len(config.image_features)) == (132, False, 2)


def test_projection_follows_each_part(groot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = groot.program.projection(groot.model)
    monkeypatch.setattr(groot.model.get_submodule(QWEN).config.text_config, "rms_norm_eps", 0.5)
    monkeypatch.setattr(groot.model.get_submodule("_groot_model").config, "attend_text_every_n_blocks", 4)
    after = groot.program.projection(groot.model)
    assert {name for name in before if before[name] != after[name]} == {
        "text.rms_norm_eps",
        "attend_text_every_n_blocks",
    }
    assert all(isinstance(value, str | int | float | bool | None) for value in before.values())
