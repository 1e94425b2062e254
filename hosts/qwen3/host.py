"""Qwen3: a small decoder of the real class on seeded random weights, or a local checkpoint of that class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from torch import Tensor, nn

from pytest_frt.sdk import BuildRequest, Checkpoint, FrtError, Sample

from .._shared import causal_lm, weights, windows
from .._shared.library import quiet, require
from .._shared.spec import phase_named, phases_beside

PHASES: Final = phases_beside(__file__)
WINDOW: Final = PHASES["prefill"].timed_rows  # tokens of one sample
TIES: Final = {"lm_head.weight": "model.embed_tokens.weight"}  # smaller models of the family tie the two
VOCABULARY: Final = 512  # of the tiny host
TINY: Final = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": False,
}


def build(request: BuildRequest) -> nn.Module:
    """Build the host in float32 and evaluation mode.

    Raises:
        MissingExtra: a package of the ``hosts`` extra is absent.
        CheckpointError: the checkpoint cannot be read or is not one of this class.
    """
    library = require("transformers")
    if (folder := _folder(request)) is not None:
        return weights.load_pretrained(library.Qwen3ForCausalLM, folder, request.device)
    with quiet():
        model: nn.Module = library.Qwen3ForCausalLM(library.Qwen3Config(**TINY)).float()
    weights.fill_fan_in(model, request.seed)
    return model.eval().to(request.device)


def checkpoint(request: BuildRequest) -> Checkpoint:
    """Return where the weights come from."""
    folder = _folder(request)
    return weights.synthetic(request.seed) if folder is None else weights.stored(folder, ties=TIES)


def samples(request: BuildRequest) -> Iterator[Sample]:
    """Yield windows of random ids."""
    vocabulary, folder = VOCABULARY, _folder(request)
    if folder is not None:
        vocabulary = weights.config_of(folder, require("transformers").Qwen3ForCausalLM)["vocab_size"]
    yield from windows.random_windows(vocabulary, WINDOW, request.seed, request.device)


def prepare(model: nn.Module, samples: list[Sample], phase: str) -> causal_lm.State:
    """Prefill a prefix for a decode step, or lay out a prefill."""
    return causal_lm.prepare(model, samples, phase_named(PHASES, phase))


def fresh(model: nn.Module, state: causal_lm.State, seed: int) -> causal_lm.State:
    """Return the state with other ids."""
    return causal_lm.fresh(model, state, seed)


def run(model: nn.Module, state: causal_lm.State) -> Tensor:
    """Run one decode step (logits ``[rows, V]``) or one prefill (logits ``[P, V]``)."""
    return causal_lm.run(model, state)


def score(model: nn.Module, samples: list[Sample], phase: str) -> list[Tensor]:
    """Return float32 logits ``[P, V]`` per sample."""
    return causal_lm.score(model, samples, phase_named(PHASES, phase))


def shorter(sample: Sample, phase: str) -> Sample:
    """Return the beginning of a sample, with fewer scored positions."""
    return causal_lm.shorter(sample, phase_named(PHASES, phase))


def projection(model: nn.Module) -> dict[str, str | int | float | bool | None]:
    """Return the settings that decide what the seats compute."""
    return causal_lm.projection(model.config)


def compile(model: nn.Module, phase: str) -> None:  # noqa: A001 (a name of the host protocol)
    """Compile every decoder layer in place."""
    phase_named(PHASES, phase)
    causal_lm.compile_layers(model.get_submodule("model.layers"))


def _folder(request: BuildRequest) -> Path | None:
    """Return the checkpoint directory to load, or None for random weights."""
    if request.checkpoint is not None:
        return Path(request.checkpoint)
    if request.size == "tiny":
        return None
    raise FrtError(f"qwen3 has no size {request.size!r}", hint="use tiny, with a checkpoint for trained weights")
