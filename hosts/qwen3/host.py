"""Qwen3: a decoder with normed queries and keys, on seeded random weights or a local checkpoint of its class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from torch import nn

from pytest_frt.sdk import BuildRequest, Checkpoint, DecodeStages, Sample

from .._shared import causal_lm, qwen, weights, windows
from .._shared.spec import phases_beside
from .._shared.stages import decoding, layers

PHASES: Final = phases_beside(__file__)
WINDOW: Final = PHASES["prefill"].timed_rows  # tokens of one sample
TINY: Final = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": False,
}
FULL: Final = {  # as published for Qwen3-8B
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
    "tie_word_embeddings": False,
}
FAMILY: Final = qwen.Family(
    host="qwen3",
    model="Qwen3ForCausalLM",
    config="Qwen3Config",
    settings={"tiny": TINY, "full": FULL},
    recipes={"tiny": weights.RECIPE, "full": qwen.IN_PLACE},
    ties={"lm_head.weight": "model.embed_tokens.weight"},  # smaller models of the family tie the two
)
DECODER: Final = causal_lm.Decoder(PHASES)
prepare, fresh, run, score = DECODER.prepare, causal_lm.fresh, causal_lm.run, DECODER.score
shorter, projection, compile = DECODER.shorter, DECODER.projection, DECODER.compile  # noqa: A001 (the host protocol)


def build(request: BuildRequest) -> nn.Module:
    """Build the host in evaluation mode: tiny in float32, full in bfloat16.

    Raises:
        MissingExtra: a package of the ``hosts`` extra is absent.
        CheckpointError: the checkpoint cannot be read or is not one of this class.
    """
    return qwen.build(FAMILY, request)


def checkpoint(request: BuildRequest) -> Checkpoint:
    """Return where the weights come from."""
    return qwen.checkpoint(FAMILY, request)


def samples(request: BuildRequest) -> Iterator[Sample]:
    """Yield windows of random ids."""
    vocabulary = qwen.configured(FAMILY, request).vocab_size
    yield from windows.random_windows(vocabulary, WINDOW, request.seed, request.device)


def stages(model: nn.Module, samples: list[Sample]) -> DecodeStages:
    """Tell what prefill and decode run: every layer."""
    return decoding(model, samples, PHASES, {"decode": layers(model, "model.layers")})
