"""SmolVLA on the classes of lerobot: one tick, its seats and what is in none, checkpoints, and what must be refused."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pytest_frt.contracts.evidence import NullControl
from pytest_frt.contracts.verdict import Refusal
from pytest_frt.errors import CheckpointError, FrtError
from pytest_frt.gates import null_control
from pytest_frt.lab.witness import compare_checkpoint

pytest.importorskip("lerobot", reason="NOT_SUPPORTED: lerobot is not installed")
lerobot: Any = import_module("pytest_frt.hosts._shared.lerobot")
MODEL = "model.vlm_with_expert."
EXPERT = f"{MODEL}lm_expert"
PREFIX = f"{MODEL}vlm.model.text_model"
VISION = f"{MODEL}vlm.model.vision_model"
SEATS = {"cadence_static": 4, "decoder_ffn": 8, "linear_proj": 18, "norm_fused": 5, "qkv_pack": 8, "vision_ffn": 2}


@pytest.fixture(scope="module")
def smolvla(tiny_host: Any) -> Any:
    return tiny_host("smolvla")


def test_tick_has_the_rows_of_expert_prefix_and_tower(smolvla: Any) -> None:
    regimes = {one.name: one for one in smolvla.spec.phases}
    want = {f"{EXPERT}.layers.{i}.mlp": Counter({regimes["denoise"].timed_rows: 3}) for i in range(4)}
    want |= {f"{VISION}.encoder.layers.{i}.mlp": Counter({regimes["prefill"].timed_rows: 1}) for i in range(2)}
    want |= {f"{PREFIX}.layers.{i}.mlp": Counter({97: 1}) for i in range(4)}
    assert smolvla.calls("denoise", ".mlp") == want


def test_every_other_layer_of_the_expert_reads_keys_of_the_prefix(smolvla: Any) -> None:
    rows = {path: set(seen) for path, seen in smolvla.calls("denoise", ".k_proj").items() if path.startswith(EXPERT)}
    assert rows == {f"{EXPERT}.layers.{i}.self_attn.k_proj": {97 if i % 2 else 50} for i in range(4)}


def test_no_layer_is_called_as_a_module(smolvla: Any) -> None:
    assert smolvla.calls("denoise", *(f"layers.{i}" for i in range(4))).keys() == {
        f"{VISION}.encoder.layers.{i}" for i in range(2)
    }
    with pytest.raises(FrtError, match="has no compiled form for denoise"):
        smolvla.program.compile(smolvla.model, "denoise")
    assert smolvla.spec.forms == ("eager",)


def test_seats_lie_in_expert_prefix_and_tower(smolvla: Any) -> None:
    seats, rest = smolvla.served()
    counted = Counter(seat.structure for seat in seats)
    assert {name: counted[name] for name in SEATS} == SEATS
    expert = Counter(seat.structure for seat in seats if seat.id.startswith(EXPERT))
    # Siblings in the layers that attend to themselves; query, key, value and output each in those that read the prefix.
    assert expert == {"cadence_static": 4, "decoder_ffn": 4, "qkv_pack": 2, "linear_proj": 6}
    assert {row.path for row in rest if row.kind == "linear"} == {f"{MODEL}vlm.lm_head"}
    assert not [row for row in rest if row.reason == "it is never called as a module"]


def test_head_that_is_left_out_never_runs(smolvla: Any) -> None:
    assert smolvla.calls("denoise", "lm_head") == {}


def test_what_follows_the_last_keys_of_the_prefix_is_dead_and_no_earlier_layer_is(smolvla: Any, zeroed: Any) -> None:
    sample = smolvla.draw(1)
    (want,) = smolvla.program.score(smolvla.model, sample, "prefill")
    for layer, dead in ((2, False), (3, True)):
        for part in ("mlp", "self_attn.o_proj"):
            with zeroed(smolvla.model.get_submodule(f"{PREFIX}.layers.{layer}.{part}")):
                (got,) = smolvla.program.score(smolvla.model, sample, "prefill")
            assert torch.equal(got, want) is dead, f"layer {layer} {part}"


def test_other_robot_state_gives_other_actions(smolvla: Any) -> None:
    one, other = smolvla.draw(2)
    scores = smolvla.program.score(
        smolvla.model, [one, {**one, "observation.state": other["observation.state"]}], "denoise"
    )
    assert float(nn.functional.cosine_similarity(scores[0].flatten(), scores[1].flatten(), dim=0)) < 0.99


def without_tower(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: one for name, one in tensors.items() if "vision_model" not in name}


def tower_of_other_names(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.replace("vision_model", "vision_tower"): one for name, one in tensors.items()}


@pytest.mark.parametrize("fault", [without_tower, tower_of_other_names], ids=lambda fault: fault.__name__)
def test_null_control_refuses_a_checkpoint_whose_tower_did_not_load(
    smolvla: Any, tmp_path: Path, request_for: Any, fault: Any
) -> None:
    smolvla.model.save_pretrained(tmp_path)
    save_file(fault(load_file(tmp_path / "model.safetensors")), tmp_path / "model.safetensors")
    asked = request_for(checkpoint=str(tmp_path), seed=99)
    model = smolvla.program.build(asked)  # the library prints a line and goes on
    null = NullControl(*compare_checkpoint(model, smolvla.program.checkpoint(asked)), (), ())
    verdict = null_control.judge(null, phase="denoise", weights="random")
    assert isinstance(verdict, Refusal)
    assert (verdict.reason, "vision_model" in verdict.detail) == ("checkpoint_missing", True)


def test_checkpoint_of_other_dimensions_is_refused(smolvla: Any, tmp_path: Path, request_for: Any) -> None:
    smolvla.model.save_pretrained(tmp_path)
    narrow = {name: one[..., :8].clone() for name, one in load_file(tmp_path / "model.safetensors").items()}
    save_file(narrow, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"does not fit SmolVLAPolicy: [\s\S]*size mismatch"):
        smolvla.program.build(request_for(checkpoint=str(tmp_path)))


def test_projection_follows_each_part(smolvla: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = smolvla.program.projection(smolvla.model)
    monkeypatch.setattr(smolvla.model.get_submodule(EXPERT).config, "rms_norm_eps", 0.5)
    monkeypatch.setattr(smolvla.model.config, "self_attn_every_n_layers", 4)
    after = smolvla.program.projection(smolvla.model)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"expert.rms_norm_eps", "self_attn_every_n_layers"}
    assert all(isinstance(value, str | int | float | bool | None) for value in before.values())


def test_full_size_is_as_published(smolvla: Any, request_for: Any) -> None:
    config = smolvla.program._config(request_for(size="full"))
    sample = next(smolvla.program.samples(request_for(size="full")))
    assert (config.chunk_size, config.num_steps, config.num_vlm_layers) == (50, 10, 16)
    assert sum(one.shape[-2:] == (512, 512) for one in sample.values()) == 3
    assert (sample["noise"].shape, sample["observation.language.tokens"].shape) == ((1, 50, 32), (1, 48))


def cache(*lengths: int) -> Any:
    """Return a cache whose layers have so many rows."""
    kept = import_module("transformers").DynamicCache()
    for index, length in enumerate(lengths):
        kept.update(torch.arange(float(length))[None, None, :, None], torch.zeros(1, 1, length, 1), index)
    return kept


def test_layers_of_a_cache_are_cut_each_by_itself() -> None:
    module = SimpleNamespace(DynamicCache=type(cache()))
    for _ in range(2):
        lerobot.crop_to_length(module)
    grown = cache(5, 3)
    grown.__class__ = module.DynamicCache
    grown.crop(3)
    assert [layer.keys.flatten().tolist() for layer in grown.layers] == [[0, 1, 2], [0, 1, 2]]
    assert isinstance(grown, type(cache()))
