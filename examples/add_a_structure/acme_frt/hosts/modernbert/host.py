"""ModernBERT: an encoder on seeded random weights, in the shape of the published base model or a small one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
import yaml
from torch import Tensor, nn

from pytest_frt.sdk import BuildRequest, Checkpoint, FrtError, Sample

ROWS: Final = yaml.safe_load(Path(__file__).with_name("host.yaml").read_text())["phases"][0]["timed_rows"]
FIRST: Final = 3  # ids below are markers
SIZES: Final[dict[str, dict[str, Any]]] = {
    "tiny": {
        "vocab_size": 512,
        "hidden_size": 64,
        "intermediate_size": 160,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "cls_token_id": 1,
        "sep_token_id": 2,
    },
    "full": {},  # the library's own start: ModernBERT-base
}


def build(request: BuildRequest) -> nn.Module:
    """Build the host in float32.

    Raises:
        FrtError: the host has no such size, or a checkpoint is given.
    """
    from transformers import ModernBertConfig, ModernBertModel

    if request.size not in SIZES:
        raise FrtError(f"modernbert has no size {request.size!r}", hint=f"use {' or '.join(SIZES)}")
    if request.checkpoint is not None:
        raise FrtError("modernbert reads no checkpoint: its weights are drawn", hint="leave --frt-checkpoint out")
    model: nn.Module = ModernBertModel(ModernBertConfig(**SIZES[request.size])).float()
    generator = torch.Generator().manual_seed(request.seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            # The library's own start is so small that every GELU looks linear, and leaves all norm weights at 1.
            parameter.copy_(1 + 0.2 * noise if parameter.ndim == 1 else noise * parameter.shape[-1] ** -0.5)
    return model.eval().to(request.device)


def checkpoint(request: BuildRequest) -> Checkpoint:
    """Return where the weights come from."""
    return Checkpoint("synthetic", recipe=f"synthetic(seed={request.seed}, recipe=acme_fan_in_v1)")


def samples(request: BuildRequest) -> Iterator[Sample]:
    """Yield endless windows of drawn ids, ``input_ids`` int64 ``[1, rows]``."""
    generator = torch.Generator().manual_seed(request.seed)
    while True:
        yield {"input_ids": _drawn(generator, request.device)}


def prepare(model: nn.Module, samples: list[Sample], phase: str) -> Tensor:  # noqa: ARG001 (there is one phase)
    """Return the ids that `run` reads."""
    return samples[0]["input_ids"].to(next(model.parameters()).device)


def fresh(model: nn.Module, state: Tensor, seed: int) -> Tensor:  # noqa: ARG001 (ids know no model)
    """Return other ids of the same shape."""
    return _drawn(torch.Generator().manual_seed(seed), state.device)


@torch.no_grad()
def run(model: nn.Module, state: Tensor) -> Tensor:
    """Run one forward and return the hidden states ``[rows, D]``."""
    hidden: Tensor = model(input_ids=state).last_hidden_state
    return hidden[0]


def score(model: nn.Module, samples: list[Sample], phase: str) -> list[Tensor]:
    """Return float32 hidden states ``[rows, D]`` per sample."""
    return [run(model, prepare(model, [sample], phase)).float().cpu() for sample in samples]


def projection(model: nn.Module) -> dict[str, str | int | float | bool | None]:
    """Return the settings that decide what the seats compute."""
    names = ("model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "hidden_activation", "mlp_bias")
    return {name: getattr(model.config, name) for name in names}


def _drawn(generator: torch.Generator, device: torch.device | str) -> Tensor:
    """Return ids ``[1, rows]`` that every size has."""
    return torch.randint(FIRST, SIZES["tiny"]["vocab_size"], (1, ROWS), generator=generator).to(device)
