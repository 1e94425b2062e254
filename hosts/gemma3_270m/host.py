"""Gemma 3 270M: trained weights from a package, or a small random twin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from torch import nn

from pytest_frt.sdk import BuildRequest, Checkpoint, DecodeStages, FrtError, Sample

from .._shared import causal_lm, weights, windows
from .._shared.library import quiet, require
from .._shared.once import made_once
from .._shared.spec import phases_beside
from .._shared.stages import decoding, layers
from .convert import convert, source_id

PHASES: Final = phases_beside(__file__)
WINDOW: Final = PHASES["prefill"].timed_rows  # tokens of one sample
TIES: Final = {"lm_head.weight": "model.embed_tokens.weight"}
VOCABULARY: Final = 512  # of the tiny host
TINY: Final = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "query_pre_attn_scalar": 32,
    "max_position_embeddings": 1024,
    # Shorter than the prefix of a decode step, so that a step meets layers whose window is full.
    "sliding_window": 32,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
}
DECODER: Final = causal_lm.Decoder(PHASES)
prepare, fresh, run, score = DECODER.prepare, causal_lm.fresh, causal_lm.run, DECODER.score
shorter, projection, compile = DECODER.shorter, DECODER.projection, DECODER.compile  # noqa: A001 (the host protocol)


def build(request: BuildRequest) -> nn.Module:
    """Build the host in float32 and evaluation mode.

    Raises:
        MissingExtra: a package of the ``hosts`` extra is absent.
        CheckpointError: the checkpoint cannot be read or is not one of this class.
    """
    library = require("transformers")
    if (folder := _folder(request)) is not None:
        return weights.load_pretrained(library.Gemma3ForCausalLM, folder, request.device)
    with quiet():
        model: nn.Module = library.Gemma3ForCausalLM(library.Gemma3TextConfig(**TINY)).float()
    weights.fill_fan_in(model, request.seed)
    return model.eval().to(request.device)


def checkpoint(request: BuildRequest) -> Checkpoint:
    """Return where the weights come from."""
    folder = _folder(request)
    return weights.synthetic(request.seed) if folder is None else weights.stored(folder, ties=TIES)


def samples(request: BuildRequest) -> Iterator[Sample]:
    """Yield token windows: text at real size, random ids at tiny size."""
    folder = _folder(request)
    if request.size == "real" and folder is not None:
        yield from windows.text_windows(
            weights.tokenizer_file(folder),
            first="<bos>",
            last="",
            length=WINDOW,
            seed=request.seed,
            device=request.device,
            cache=Path(request.cache, "gemma3_270m"),
        )
        return
    vocabulary = VOCABULARY
    if folder is not None:
        vocabulary = weights.config_of(folder, require("transformers").Gemma3ForCausalLM)["vocab_size"]
    yield from windows.random_windows(vocabulary, WINDOW, request.seed, request.device)


def stages(model: nn.Module, samples: list[Sample]) -> DecodeStages:
    """Tell what prefill and decode run: every layer."""
    return decoding(model, samples, PHASES, {"decode": layers(model, "model.layers")})


def _folder(request: BuildRequest) -> Path | None:
    """Return the checkpoint directory to load, converting the packaged one at need; None for random weights."""
    if request.checkpoint is not None:
        return Path(request.checkpoint)
    if request.size == "tiny":
        return None
    if request.size == "real":
        return made_once(Path(request.cache, "gemma3_270m", source_id()), convert)
    raise FrtError(f"gemma3_270m has no size {request.size!r}", hint="use tiny or real")
