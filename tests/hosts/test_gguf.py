"""The GGUF reader, tokenizer and names of the one-time conversion, against files the format's own library writes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pytest_frt.errors import CheckpointError, MissingExtra

gguf: Any = pytest.importorskip("gguf")
gguf_file: Any = import_module("pytest_frt.hosts.gemma3_270m.gguf_file")
convert: Any = import_module("pytest_frt.hosts.gemma3_270m.convert")
tokens: Any = import_module("pytest_frt.hosts.gemma3_270m.tokens")
VALUES = np.linspace(-2, 3, 6 * 256, dtype=np.float32).reshape(6, 256)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "a.gguf"
    writer = gguf.GGUFWriter(path, "gemma3")
    writer.add_uint32("gemma3.block_count", 2)
    writer.add_float32("gemma3.eps", 0.5)
    writer.add_bool("a.flag", val=True)
    writer.add_array("a.words", ["x", "\N{LOWER ONE EIGHTH BLOCK}y", ""])
    writer.add_array("a.numbers", [1.5, -2.0])
    writer.add_tensor("plain.weight", VALUES)
    packed = gguf.quantize(VALUES, gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("packed.weight", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_metadata_is_read_by_type(written: Path) -> None:
    read = gguf_file.GgufFile(written).metadata
    assert (read["gemma3.block_count"], read["gemma3.eps"], read["a.flag"]) == (2, 0.5, True)
    assert read["a.words"] == ["x", "\N{LOWER ONE EIGHTH BLOCK}y", ""]
    assert read["a.numbers"].tolist() == [1.5, -2.0]


def test_plain_tensor_is_exact(written: Path) -> None:
    assert np.array_equal(gguf_file.GgufFile(written).tensor("plain.weight").numpy(), VALUES)


@pytest.mark.parametrize("rows", [1, 4, 4096])
def test_packed_tensor_equals_the_library(rows: int, written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_file, "BLOCK_ROWS", rows)
    kind = gguf.GGMLQuantizationType.Q8_0
    want = gguf.dequantize(gguf.quantize(VALUES, kind), kind)
    assert np.array_equal(gguf_file.GgufFile(written).tensor("packed.weight").numpy(), want)


@pytest.mark.parametrize("size", [3, 20, 200], ids=["magic", "counts", "pairs"])
def test_file_that_ends_early_is_refused(size: int, written: Path) -> None:
    written.write_bytes(written.read_bytes()[:size])
    with pytest.raises(CheckpointError, match="no readable GGUF file"):
        gguf_file.GgufFile(written)


def test_tensor_data_that_ends_early_is_refused(written: Path) -> None:
    written.write_bytes(written.read_bytes()[:-2000])
    with pytest.raises(CheckpointError, match=r"ends before tensor packed\.weight"):
        gguf_file.GgufFile(written).tensor("packed.weight")


def test_other_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"PK34" + bytes(60))
    with pytest.raises(CheckpointError, match="it starts with b'PK34'"):
        gguf_file.GgufFile(tmp_path / "b")


def test_absent_tensor_is_named(written: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no tensor absent\.weight"):
        gguf_file.GgufFile(written).tensor("absent.weight")


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("blk.17.ffn_down.weight", "model.layers.17.mlp.down_proj.weight"),
        ("blk.0.post_ffw_norm.weight", "model.layers.0.post_feedforward_layernorm.weight"),
    ],
)
def test_tensor_names_of_the_host(name: str, want: str) -> None:
    assert convert._host_name(name) == want


@pytest.mark.parametrize("name", ["blk.0.odd.weight", "odd.weight", "x.0.attn_q.weight"])
def test_tensor_without_a_place_is_refused(name: str) -> None:
    with pytest.raises(CheckpointError, match="no place in this model"):
        convert._host_name(name)


def test_every_place_of_a_layer_is_named(tiny_host: Any) -> None:
    names = set(tiny_host("gemma3_270m").model.state_dict()) - {"lm_head.weight"}
    parts = {f"blk.{layer}.{part}.weight" for layer in range(3) for part in convert.LAYER_NAMES}
    assert names == {convert._host_name(name) for name in parts | {f"{part}.weight" for part in convert.OUTER_NAMES}}


class Source:
    """A packaged file of three tensors."""

    def __init__(self) -> None:
        self.entries = dict.fromkeys(["output_norm.weight", "blk.0.attn_q_norm.weight", "blk.0.attn_q.weight"])

    def tensor(self, name: str) -> torch.Tensor:
        return torch.full((2,), 3.001 if name else 0.0)  # rounds to 3 in bfloat16, and less 1 to 2


def test_norm_weights_become_offsets_from_one() -> None:
    got = dict(convert._weights(Source()))
    assert got["model.norm.weight"].tolist() == got["model.layers.0.self_attn.q_norm.weight"].tolist() == [2.0, 2.0]
    assert got["model.layers.0.self_attn.q_proj.weight"].tolist() == [3.0, 3.0]
    assert {value.dtype for value in got.values()} == {torch.float32}


def test_absent_package_is_a_missing_extra(request_for: Any, tiny_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, convert.PACKAGE, None)
    with pytest.raises(MissingExtra, match=convert.PACKAGE) as caught:
        tiny_host("gemma3_270m").program.build(request_for(size="real"))
    assert "pytest-frt[hosts]" in caught.value.hint


VOCABULARY = ["<pad>", "<eos>", "<bos>", "<unk>", "[img]", "  ", "   ", "ab", "abc", "a", "b", "c", "\u2581", "<0x0A>"]
KINDS = [3, 3, 3, 3, 4, 4, 4, 1, 1, 1, 1, 1, 1, 6]


@pytest.fixture
def tokenizer() -> Any:
    ids = {"bos": 2, "eos": 1, "unknown": 3, "padding": 0}
    metadata = {f"tokenizer.ggml.{name}_token_id": number for name, number in ids.items()}
    return tokens.build_tokenizer(
        metadata | {"tokenizer.ggml.tokens": VOCABULARY, "tokenizer.ggml.token_type": np.array(KINDS)}
    )


@pytest.mark.parametrize(
    ("text", "want"),
    {
        "merged": ("abc", [2, 8]),
        "spaces_merged": ("a   b", [2, 9, 6, 10]),
        "bytes": ("a\n", [2, 9, 13]),
        "unknown": ("z", [2, 3]),
        "added_whole": ("a[img]", [2, 9, 4]),
    }.values(),
)
def test_tokenizer_encodes(tokenizer: Any, text: str, want: list[int]) -> None:
    assert tokenizer(text).input_ids == want


def test_tokenizer_survives_saving(tokenizer: Any, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again("abc  a").input_ids == tokenizer("abc  a").input_ids
    assert again.decode(again("a   b\n").input_ids, skip_special_tokens=True) == "a   b\n"
    assert (again.bos_token_id, again.eos_token_id, again.pad_token_id, again.unk_token_id) == (2, 1, 0, 3)


def test_merges_come_in_vocabulary_order() -> None:
    pieces = ["a", "b", "ab", "aab", "aa"]
    merges = tokens._merges(pieces, {piece: i for i, piece in enumerate(pieces)})
    assert merges == [("a", "b"), ("aa", "b"), ("a", "ab"), ("a", "a")]
