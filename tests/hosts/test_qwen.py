"""The Qwen family: published sizes, seats and what is left, weights drawn where they lie, images between text."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.vision_utils import get_vision_position_ids

from pytest_frt.contracts.structure import Structure
from pytest_frt.contracts.verdict import Pass, Refusal
from pytest_frt.errors import FrtError
from pytest_frt.lab.taps import zeroed
from pytest_frt.lab.witness import compare_checkpoint
from pytest_frt.rules.bands import HOST_BAND
from pytest_frt.seat import tree
from pytest_frt.spec.load import load_structure

CATALOG = Path(__file__).resolve().parents[2] / "catalog"
WHOLE = [load_structure(path.parent) for path in sorted(CATALOG.glob("*/structure.yaml"))]
STRUCTURES = [one for one in WHOLE if one.name in {"decoder_ffn", "linear_proj", "qkv_pack", "vision_ffn"}]
HOSTS = ("qwen25", "qwen3", "qwen3_vl")
PUBLISHED = {"qwen25": 1_543_714_304, "qwen3": 8_190_735_360, "qwen3_vl": 8_767_123_696}
SEATS = {
    "qwen25": {"decoder_ffn": 2, "qkv_pack": 2, "linear_proj": 3},
    "qwen3": {"decoder_ffn": 2, "qkv_pack": 2, "linear_proj": 3},
    # Of the linear ones, four are in vision blocks and four in mergers.
    "qwen3_vl": {"decoder_ffn": 2, "qkv_pack": 2, "linear_proj": 11, "vision_ffn": 2},
}
qwen: Any = import_module("pytest_frt.hosts._shared.qwen")
weights: Any = import_module("pytest_frt.hosts._shared.weights")
pixels: Any = import_module("pytest_frt.hosts.qwen3_vl.pixels")
steps: Any = import_module("pytest_frt.hosts.qwen3_vl.steps")


@pytest.fixture(params=HOSTS)
def family(request: pytest.FixtureRequest, tiny_host: Any) -> Any:
    """Return each host of the family in turn."""
    return tiny_host(request.param)


@pytest.fixture
def seeing(tiny_host: Any) -> Any:
    """Return the host that reads images."""
    return tiny_host("qwen3_vl")


def test_full_size_has_the_published_parameters(family: Any) -> None:
    model = qwen.constructed(family.program.FAMILY, "full", "meta")
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[family.spec.name]
    assert {(parameter.dtype, parameter.is_meta) for parameter in model.parameters()} == {(torch.bfloat16, True)}


def test_rotary_frequencies_stay_float32_at_full_size(family: Any) -> None:
    model = qwen.constructed(family.program.FAMILY, "full", "meta")
    assert {buffer.dtype for buffer in model.buffers()} == {torch.float32}


def test_full_size_draws_and_runs_the_same_in_bfloat16(family: Any, request_for: Any) -> None:
    shrunk = replace(family.program.FAMILY, settings={"full": family.program.TINY})
    model = qwen.build(shrunk, request_for(size="full"))
    pairs = zip(model.parameters(), family.model.parameters(), strict=True)
    assert all(torch.equal(half, single.bfloat16()) for half, single in pairs)
    for phase in family.spec.phases:
        got, want = (family.program.score(each, family.draw(1), phase.name)[0] for each in (model, family.model))
        assert float(nn.functional.cosine_similarity(got.flatten(), want.flatten(), dim=0)) > 0.99


def test_checkpoint_at_full_size_is_bfloat16(family: Any, tmp_path: Path, request_for: Any) -> None:
    family.model.save_pretrained(tmp_path / "saved")
    asked = request_for(size="full", checkpoint=str(tmp_path / "saved"))
    model = family.program.build(asked)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), family.model.buffers(), strict=True))
    assert compare_checkpoint(model, family.program.checkpoint(asked))[1:] == ((), ())


def test_checkpoint_is_not_read_for_a_size_that_is_not_there(family: Any, request_for: Any) -> None:
    with pytest.raises(FrtError, match="no size 'real'") as caught:
        family.program.build(request_for(size="real", checkpoint="absent"))
    assert "tiny or full" in caught.value.hint


def test_seats_of_the_host(family: Any) -> None:
    seats, _ = family.discovered(STRUCTURES)
    assert Counter(seat.structure for seat in seats) == SEATS[family.spec.name]
    biases = {seat.variant["bias"] for seat in seats if seat.structure == "qkv_pack"}
    assert biases == {"add" if family.spec.name == "qwen25" else "none"}


@pytest.mark.parametrize("structures", [WHOLE, STRUCTURES], ids=["whole_catalog", "projections"])
def test_every_linear_and_norm_is_a_seat_or_listed_with_a_reason(family: Any, structures: list[Structure]) -> None:
    norms = {path for path, _ in family.model.named_modules() if "norm" in path}
    assert norms <= {path for path, module in family.model.named_modules() if tree.is_norm(module)}
    family.assert_placed(structures)


def test_merger_is_no_vision_block_and_says_why(seeing: Any) -> None:
    _, rest = seeing.discovered(STRUCTURES)
    reasons = {row.path: row.reason for row in rest if row.kind == "vision_ffn"}
    assert set(reasons) == {"model.visual.merger", "model.visual.deepstack_merger_list.0"}
    assert all(reason == f"{path}.norm.weight is no slot of vision_ffn" for path, reason in reasons.items())


def test_zeroed_seats_of_any_structure_fail_the_host_band(family: Any) -> None:
    seats, _ = family.discovered(STRUCTURES)
    samples = family.draw(family.spec.heldout_samples)
    for phase in family.spec.phases:
        want = family.program.score(family.model, samples, phase.name)
        assert isinstance(family.judged(want, want), Pass)
        for structure in SEATS[family.spec.name]:
            with zeroed(family.model, [seat for seat in seats if seat.structure == structure]):
                verdict = family.judged(family.program.score(family.model, samples, phase.name), want)
            assert isinstance(verdict, Refusal)
            assert verdict.reason == HOST_BAND, f"{structure} in {phase.name}: {verdict}"


def test_matrix_follows_from_recipe_seed_and_name(tiny_host: Any) -> None:
    host, name = tiny_host("qwen25"), "model.layers.1.mlp.down_proj.weight"
    word = hashlib.sha256(f"fan_in_v1|7|{name}".encode()).digest()[:8]
    drawn = torch.randn(64, 160, generator=torch.Generator().manual_seed(int.from_bytes(word, "little") >> 1))
    assert torch.equal(host.model.get_parameter(name), drawn * 160**-0.5)


def test_origin_names_the_device_that_weights_are_drawn_on(seeing: Any, request_for: Any) -> None:
    tiny, full = (seeing.program.checkpoint(request_for(size=size, device="cuda")) for size in ("tiny", "full"))
    # Tiny weights are the same on every device.
    assert tiny == seeing.program.checkpoint(seeing.request)
    assert full.recipe == "synthetic(seed=7, recipe=fan_in_v2, drawn_on=cuda)"


def test_kernel_of_five_axes_counts_all_it_reads(seeing: Any) -> None:
    kernel = seeing.model.model.visual.patch_embed.proj.weight.detach()
    assert kernel.ndim == 5
    assert float(kernel.std()) == pytest.approx(kernel[0].numel() ** -0.5, rel=0.05)
    assert float(kernel.std()) < 0.5 * kernel.shape[-1] ** -0.5


def calls(host: Any, phase: str) -> Counter[str]:
    """Count the calls of every module in one run, by the first three parts of its path."""
    state, seen = host.program.prepare(host.model, host.draw(1), phase), Counter[str]()
    hooks = [
        module.register_forward_pre_hook(lambda _module, _args, path=path: seen.update([path]))
        for path, module in host.model.named_modules()
    ]
    host.program.run(host.model, state)
    for hook in hooks:
        hook.remove()
    return seen


def test_prefill_runs_vision_and_decoder(seeing: Any) -> None:
    seen = calls(seeing, "prefill")
    assert {path for path, module in seeing.model.named_modules() if seen[path] != 1} == {
        path for path, module in seeing.model.named_modules() if isinstance(module, nn.ModuleList)
    }


def test_decode_step_runs_no_vision(seeing: Any) -> None:
    seen = calls(seeing, "decode")
    assert seen["model.language_model.layers.1.mlp"] == 1
    assert not [path for path in seen if path.startswith("model.visual")]


def whole(host: Any, sample: Any, **changes: Tensor) -> Tensor:
    """Return the logits of one forward in which the model finds the positions itself."""
    given = {**sample, "pixel_values": sample["pixel_values"][0], **changes}
    with torch.no_grad():
        logits: Tensor = host.model(**given, use_cache=False).logits[0]
    host.model.model.rope_deltas = None
    return logits


def test_prefill_has_the_positions_that_the_model_finds(seeing: Any) -> None:
    (sample,) = seeing.draw(1)
    state = seeing.program.prepare(seeing.model, [sample], "prefill")
    got = seeing.program.run(seeing.model, state)
    torch.testing.assert_close(got, whole(seeing, sample)[state.kept], rtol=1e-4, atol=1e-4)
    flat = replace(state, positions=state.positions[:1].expand(4, -1, -1))
    assert not torch.allclose(seeing.program.run(seeing.model, flat), got, atol=1e-2)


def test_decoding_after_an_image_equals_a_forward_without_a_cache(seeing: Any) -> None:
    samples = seeing.draw(2)
    for sample, score in zip(samples, seeing.program.score(seeing.model, samples, "decode"), strict=True):
        first = steps._prefix(sample["mm_token_type_ids"])
        torch.testing.assert_close(score, whole(seeing, sample)[first : first + 12], rtol=1e-4, atol=1e-4)


def test_step_after_an_image_equals_the_first_scored_one(seeing: Any) -> None:
    sample = seeing.draw(1)
    state = seeing.program.prepare(seeing.model, sample, "decode")
    want = seeing.program.score(seeing.model, sample, "decode")[0][:1]
    torch.testing.assert_close(seeing.program.run(seeing.model, state), want, rtol=1e-4, atol=1e-4)


def test_model_keeps_nothing_of_an_image(seeing: Any) -> None:
    for phase in ("decode", "prefill"):
        seeing.program.run(seeing.model, seeing.program.prepare(seeing.model, seeing.draw(1), phase))
        seeing.program.score(seeing.model, seeing.draw(2), phase)
    assert seeing.model.model.rope_deltas is None


@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_other_image_gives_other_scores(seeing: Any, phase: str) -> None:
    one, other = seeing.draw(2)
    mixed = {**one, "pixel_values": other["pixel_values"]}
    scores = seeing.program.score(seeing.model, [one, mixed], phase)
    assert not torch.allclose(*scores, atol=1e-2)


@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_fresh_state_renews_text_and_image(seeing: Any, phase: str) -> None:
    state = seeing.program.prepare(seeing.model, seeing.draw(1), phase)
    before = seeing.program.run(seeing.model, state)
    states = [seeing.program.fresh(seeing.model, state, seed) for seed in (1, 1, 2)]
    first, again, other = (seeing.program.run(seeing.model, one) for one in states)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(seeing.program.run(seeing.model, state), before)


def test_fresh_prefill_leaves_markers_and_no_patch(seeing: Any) -> None:
    state = seeing.program.prepare(seeing.model, seeing.draw(1), "prefill")
    other = seeing.program.fresh(seeing.model, state, 1)
    marked = state.tokens >= seeing.model.config.vision_start_token_id
    assert torch.equal(other.tokens >= seeing.model.config.vision_start_token_id, marked)
    assert torch.equal(other.tokens[marked], state.tokens[marked])
    assert not (other.pixels == state.pixels).all(dim=1).any()


def test_patches_lie_where_the_model_takes_them_to_be(seeing: Any) -> None:
    layout = pixels.layout_of(seeing.model.config, 512, (4, 6))
    size = layout.patch
    image = torch.randn(3, 4 * size, 6 * size)
    places = get_vision_position_ids(torch.tensor([[1, 4, 6]]), layout.merge)
    for (row, column), patch in zip(places.tolist(), pixels.patches(image, layout), strict=True):
        want = image[:, row * size : (row + 1) * size, column * size : (column + 1) * size]
        assert torch.equal(patch.reshape(3, layout.frames, size, size), want[:, None].expand(-1, 2, -1, -1))


def test_repainted_patches_repeat_their_frames() -> None:
    got = pixels.repainted(torch.zeros(5, 2 * 3 * 16), 2, 3, seed=1).reshape(5, 3, 2, 16)
    assert torch.equal(got[:, :, 0], got[:, :, 1])
    assert got.unique().numel() == 5 * 3 * 16
    assert -1 <= float(got.min()) < -0.8 < 0.8 < float(got.max()) <= 1


def test_sample_holds_one_id_per_merged_patch(seeing: Any) -> None:
    (sample,) = seeing.draw(1)
    image = sample["input_ids"] == seeing.model.config.image_token_id
    assert torch.equal(image.long(), sample["mm_token_type_ids"])
    assert int(image.sum()) * 4 == sample["pixel_values"].shape[1] == int(sample["image_grid_thw"].prod())
    ids, first = sample["input_ids"][0], int(image[0].nonzero()[0])
    assert ids[first - 1] == seeing.model.config.vision_start_token_id
    assert ids[first + int(image.sum())] == seeing.model.config.vision_end_token_id


@pytest.mark.parametrize(("phase", "stacks"), [("decode", 1), ("prefill", 2)])
def test_vision_blocks_are_compiled_for_a_prefill(seeing: Any, phase: str, stacks: int, monkeypatch: Any) -> None:
    compiled: list[nn.Module] = []
    monkeypatch.setattr(nn.Module, "compile", lambda self, **_kwargs: compiled.append(self))
    seeing.program.compile(seeing.model, phase)
    both = [*seeing.model.model.language_model.layers, *seeing.model.model.visual.blocks]
    assert compiled == both[: 2 * stacks]


def test_projection_follows_the_vision_configuration(seeing: Any, monkeypatch: Any) -> None:
    before = seeing.program.projection(seeing.model)
    monkeypatch.setattr(seeing.model.config.vision_config, "deepstack_visual_indexes", [1])
    after = seeing.program.projection(seeing.model)
    assert {name for name in before if before[name] != after[name]} == {"vision.deepstack_visual_indexes"}
