"""Checkpoints: read through the library's own loader, equal to their files, and refused when they are not whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pytest_frt.errors import CheckpointError
from pytest_frt.lab.witness import compare_checkpoint

weights: Any = import_module("pytest_frt.hosts._shared.weights")


@pytest.fixture
def saved(tiny: Any, tmp_path: Path) -> Path:
    folder = tmp_path / "saved"
    tiny.model.save_pretrained(folder)
    return folder


def test_reload_is_exact_to_the_bit(tiny: Any, saved: Path, request_for: Any) -> None:
    again = tiny.program.build(request_for(checkpoint=str(saved)))
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in tiny.model.state_dict().items())
    phase = tiny.spec.phases[0].name
    states = [tiny.program.prepare(model, tiny.draw(1), phase) for model in (tiny.model, again)]
    assert torch.equal(tiny.program.run(tiny.model, states[0]), tiny.program.run(again, states[1]))


def test_every_tensor_of_the_host_equals_its_file(tiny: Any, saved: Path, request_for: Any) -> None:
    request = request_for(checkpoint=str(saved))
    model, origin = tiny.program.build(request), tiny.program.checkpoint(request)
    assert compare_checkpoint(model, origin) == (len(model.state_dict()), (), ())


def test_a_changed_tensor_is_found(tiny: Any, saved: Path, request_for: Any) -> None:
    request = request_for(checkpoint=str(saved))
    model, origin = tiny.program.build(request), tiny.program.checkpoint(request)
    name, parameter = list(model.named_parameters())[-1]
    with torch.no_grad():
        parameter.view(-1)[0] += 1e-6
    assert compare_checkpoint(model, origin)[1] == (name,)


def test_half_precision_is_widened_exactly(tiny: Any, saved: Path, request_for: Any) -> None:
    rewrite(saved, lambda tensors: {name: value.bfloat16() for name, value in tensors.items()})
    request = request_for(checkpoint=str(saved))
    model = tiny.program.build(request)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert compare_checkpoint(model, tiny.program.checkpoint(request))[1:] == ((), ())


def test_shards_are_all_listed(tiny: Any, tmp_path: Path, request_for: Any) -> None:
    tiny.model.save_pretrained(tmp_path / "shards", max_shard_size="150KB")
    request = request_for(checkpoint=str(tmp_path / "shards"))
    origin = tiny.program.checkpoint(request)
    assert len(origin.files) > 1
    assert compare_checkpoint(tiny.program.build(request), origin)[1:] == ((), ())


def test_origin_of_random_weights_names_recipe_and_seed(tiny: Any) -> None:
    recipe = "fan_in_v2, drawn_on=cpu" if tiny.spec.name == "qwen3_vl" else "fan_in_v1"
    assert tiny.program.checkpoint(tiny.request).recipe == f"synthetic(seed=7, recipe={recipe})"


def test_samples_follow_the_vocabulary_of_the_checkpoint(tiny: Any, saved: Path, request_for: Any) -> None:
    request = request_for(checkpoint=str(saved))
    assert torch.equal(next(tiny.program.samples(request))["input_ids"], tiny.draw(1)[0]["input_ids"])


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file, metadata={"format": "pt"})


def reconfigure(folder: Path, **changes: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def truncate(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def last_dropped(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensors[name] for name in sorted(tensors)[:-1]}


def last_reshaped(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return tensors | {max(tensors): torch.ones(3)}


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (truncate, "cannot be read"),
    "empty_file": (lambda f: (f / "model.safetensors").write_bytes(b""), "cannot be read"),
    "no_weights": (lambda f: (f / "model.safetensors").unlink(), "holds no model.safetensors"),
    "no_config": (lambda f: (f / "config.json").unlink(), "config.json cannot be read"),
    "broken_config": (lambda f: (f / "config.json").write_text("{"), "config.json cannot be read"),
    "config_is_a_list": (lambda f: (f / "config.json").write_text("[]"), "no JSON object"),
    "other_family": (lambda f: reconfigure(f, model_type="llama"), "model_type 'llama'"),
    "other_class": (lambda f: reconfigure(f, architectures=["Other"]), "describes Other"),
    "quantised": (lambda f: reconfigure(f, quantization_config={"bits": 4}), "quantised weights"),
    "missing_tensor": (lambda f: rewrite(f, last_dropped), "missing keys"),
    "surplus_tensor": (lambda f: rewrite(f, lambda t: t | {"odd.weight": torch.ones(2)}), "unexpected keys"),
    "other_shape": (lambda f: rewrite(f, last_reshaped), "mismatched keys"),
}


@pytest.mark.parametrize(("spoil", "message"), FAULTS.values(), ids=FAULTS)
def test_unfit_checkpoint_is_refused(
    spoil: Callable[[Path], object], message: str, tiny_host: Any, tmp_path: Path, request_for: Any
) -> None:
    host = tiny_host("qwen3")
    host.model.save_pretrained(tmp_path / "saved")
    spoil(tmp_path / "saved")
    with pytest.raises(CheckpointError, match=message) as caught:
        host.program.build(request_for(checkpoint=str(tmp_path / "saved")))
    assert caught.value.hint


def test_index_that_names_an_absent_shard_is_refused(tiny_host: Any, tmp_path: Path, request_for: Any) -> None:
    host = tiny_host("qwen3")
    host.model.save_pretrained(tmp_path / "saved", max_shard_size="150KB")
    next(iter(sorted((tmp_path / "saved").glob("*.safetensors")))).unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        host.program.build(request_for(checkpoint=str(tmp_path / "saved")))


def test_ties_are_renamed_only_where_the_file_lacks_the_tensor(tmp_path: Path) -> None:
    save_file({"a": torch.ones(1), "b": torch.ones(1)}, tmp_path / "model.safetensors")
    assert weights.stored(tmp_path, ties={"a": "b", "c": "b", "d": "e"}).renames == {"c": "b"}


def test_tie_is_looked_for_among_the_present_names(tmp_path: Path) -> None:
    save_file({"head": torch.zeros(1), "old.x": torch.zeros(1)}, tmp_path / "model.safetensors")
    ties = {"model.embedding": "model.head", "model.x": "model.head"}
    found = weights.stored(tmp_path, current=lambda name: f"model.{name.removeprefix('old.')}", ties=ties)
    assert found.renames == {"model.head": "head", "model.x": "old.x", "model.embedding": "head"}


def test_fill_keeps_tied_weights_tied(tiny_host: Any) -> None:
    model: nn.Module = tiny_host("gemma3_270m").model
    assert model.get_parameter("lm_head.weight") is model.get_parameter("model.embed_tokens.weight")


def test_checkpoint_without_a_tokenizer_is_named(tiny_host: Any, tmp_path: Path, request_for: Any) -> None:
    host = tiny_host("gemma3_270m")
    host.model.save_pretrained(tmp_path / "saved")
    with pytest.raises(CheckpointError, match=r"no tokenizer\.json"):
        next(host.program.samples(request_for(size="real", checkpoint=str(tmp_path / "saved"))))
