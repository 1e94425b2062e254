"""Running a decoder-only language model of transformers: one decode step, one prefill, and their scores."""

from __future__ import annotations

import copy
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor, nn

from pytest_frt.sdk import PhaseSpec, Sample

from . import windows
from .spec import flat, phase_named

STEPPED: Final = frozenset({"decode", "verify"})
"""Phases that run steps over a cached prefix: one token, or several at a time."""
PREFIX: Final = 64  # tokens already in the cache when decoding starts
FEW_STEPS: Final = 4  # scored steps of a shortened sample
LAYER_SHAPES: Final = 4  # shapes one compiled layer meets: a step, a batched step, a growing cache, a prefill


@dataclass(frozen=True, slots=True)
class Step:
    """A decode step that can be repeated.

    Attributes:
        tokens: int64 ``[1, rows]``.
        cache: The key-value cache after the prefix; never handed to the model itself.
    """

    tokens: Tensor
    cache: Any


@dataclass(frozen=True, slots=True)
class Prefill:
    """A prefill that can be repeated.

    Attributes:
        tokens: int64 ``[1, rows]``.
        kept: int64 ``[P]`` positions whose logits are returned.
    """

    tokens: Tensor
    kept: Tensor


State = Step | Prefill


@torch.no_grad()
def prepare(model: nn.Module, samples: list[Sample], phase: PhaseSpec) -> State:
    """Build what `run` repeats, from the first sample.

    Args:
        model: A causal language model.
        samples: ``input_ids`` int64 ``[1, L]``, L at least the prefix and the scored steps of decode, and the timed
            rows of a prefill.
        phase: Those of ``STEPPED`` read a prefix into a cache once; any other is a prefill.
    """
    tokens = _tokens(model, samples[:1])
    if phase.name in STEPPED:
        return Step(tokens[:, PREFIX : PREFIX + phase.timed_rows], _cache_after(model, tokens[:, :PREFIX]))
    tokens = tokens[:, : phase.timed_rows]
    return Prefill(tokens, scored_positions(tokens, phase.score_positions))


def fresh(model: nn.Module, state: State, seed: int) -> State:
    """Return the state with other ids; the cache after the prefix is shared."""
    return replace(state, tokens=windows.renewed(state.tokens, model.config, seed))


@torch.no_grad()
def run(model: nn.Module, state: State) -> Tensor:
    """Run one decode step or one prefill; the state stays as it was.

    Returns:
        Logits ``[rows, V]`` of the step, or ``[P, V]`` of the kept positions.
    """
    match state:
        case Step(tokens, cache):
            return _step(model, tokens, snapshot(cache))[0]
        case Prefill(tokens, kept):
            logits: Tensor = model(input_ids=tokens, use_cache=False, logits_to_keep=kept).logits
            return logits[0]


@torch.no_grad()
def score(model: nn.Module, samples: list[Sample], phase: PhaseSpec) -> list[Tensor]:
    """Return the logits that host-level parity compares, one float32 tensor ``[P, V]`` per sample.

    Decoding is teacher-forced: ``P`` steps after the prefix, several samples in one batch so that a step has as many
    rows as the phase admits.
    """
    if phase.name not in STEPPED:
        return [run(model, prepare(model, [sample], phase)).float().cpu() for sample in samples]
    scores: list[Tensor] = []
    for group in groups(samples, phase.rows[1]):
        tokens = _tokens(model, group)
        cache = _cache_after(model, tokens[:, :PREFIX])
        columns = tokens[:, PREFIX : PREFIX + phase.score_positions, None].unbind(dim=1)
        steps = [_step(model, column, cache)[:, 0].float().cpu() for column in columns]
        scores += [torch.stack([step[i] for step in steps]) for i in range(len(group))]
    return scores


def shorter(sample: Sample, phase: PhaseSpec) -> Sample:
    """Return the beginning of a sample: few steps after the prefix. A prefill has one length, and stays."""
    if phase.name not in STEPPED:
        return sample
    return {name: tensor[:, : PREFIX + FEW_STEPS] for name, tensor in sample.items()}


@dataclass(frozen=True, slots=True)
class Decoder:
    """What the program of a host defines beside `fresh` and `run` where the host is a decoder of text alone.

    Attributes:
        phases: Those of its host.yaml, by name.
    """

    phases: Mapping[str, PhaseSpec]

    def prepare(self, model: nn.Module, samples: list[Sample], phase: str) -> State:
        """Prefill a prefix for a decode step, or lay out a prefill."""
        return prepare(model, samples, phase_named(self.phases, phase))

    def score(self, model: nn.Module, samples: list[Sample], phase: str) -> list[Tensor]:
        """Return float32 logits ``[P, V]`` per sample."""
        return score(model, samples, phase_named(self.phases, phase))

    def shorter(self, sample: Sample, phase: str) -> Sample:
        """Return the beginning of a sample, with fewer scored positions."""
        return shorter(sample, phase_named(self.phases, phase))

    def projection(self, model: nn.Module) -> dict[str, str | int | float | bool | None]:
        """Return the settings that decide what the seats compute."""
        return projection(model.config)

    def compile(self, model: nn.Module, phase: str) -> None:
        """Compile every decoder layer in place."""
        phase_named(self.phases, phase)
        compile_layers(model.get_submodule("model.layers"))


def compile_layers(stack: nn.Module) -> None:
    """Compile every layer of a stack for itself, in place: seconds, where the whole model takes minutes.

    Layers share their code but differ in their index into the cache, so each needs its own compiled entries.
    """
    layers = list(stack.children())
    if "isolate_recompiles" in inspect.signature(torch.compile).parameters:
        for layer in layers:
            layer.compile(isolate_recompiles=True)
        return
    # An older torch keeps one list of entries per code object, for the whole process: make room for all layers.
    limits = torch._dynamo.config  # noqa: SLF001 (the documented place of this setting)
    limits.recompile_limit = max(limits.recompile_limit, LAYER_SHAPES * len(layers))
    for layer in layers:
        layer.compile()


def projection(config: Any) -> dict[str, str | int | float | bool | None]:  # noqa: ANN401
    """Return the settings of a decoder configuration that decide what its seats compute."""
    plain: dict[str, Any] = {name: getattr(config, name, None) for name in _SETTINGS}
    rope = getattr(config, "rope_parameters", None) or {}
    # One table of rope settings, or one per layer type.
    tables = rope if all(isinstance(table, dict) for table in rope.values()) else {"all": rope}
    for kind, table in sorted(tables.items()):
        plain |= {f"rope.{kind}.{name}": value for name, value in sorted(table.items())}
    return flat(plain | {"layer_types": getattr(config, "layer_types", None) or ()})


_SETTINGS: Final = (
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_activation",
    "hidden_act",
    "rms_norm_eps",
    "attention_bias",
    "query_pre_attn_scalar",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "sliding_window",
    "max_position_embeddings",
    "vocab_size",
    "tie_word_embeddings",
)


def scored_positions(tokens: Tensor, count: int) -> Tensor:
    """Return ``count`` positions of a window ``[1, L]``, evenly spread and ending with the last one."""
    length = tokens.shape[1]
    count = min(count, length)
    return (torch.arange(1, count + 1, device=tokens.device) * length).div(count, rounding_mode="floor") - 1


def snapshot(cache: Any) -> Any:  # noqa: ANN401 (a cache class of an unstubbed library)
    """Return a cache that can grow without changing the original.

    A dynamic cache layer appends by binding new tensors and counters to its attributes, so copying the layer objects
    is enough: no key or value is copied, and the cost does not depend on the length.
    """
    twin = copy.copy(cache)
    twin.layers = [copy.copy(layer) for layer in cache.layers]
    return twin


def groups(samples: list[Sample], rows: int) -> Iterator[list[Sample]]:
    """Yield the samples in the fewest groups of at most ``rows``, as equal in size as they can be."""
    count = math.ceil(len(samples) / rows) or 1
    for i in range(count):
        yield samples[i * len(samples) // count : (i + 1) * len(samples) // count]


def _step(model: nn.Module, tokens: Tensor, cache: Any) -> Tensor:  # noqa: ANN401
    logits: Tensor = model(input_ids=tokens, use_cache=True, **with_cache(model, cache)).logits
    return logits


def _cache_after(model: nn.Module, tokens: Tensor) -> Any:  # noqa: ANN401
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    model(input_ids=tokens, use_cache=True, logits_to_keep=1, **with_cache(model, cache))
    return cache


def with_cache(model: nn.Module, cache: Any) -> dict[str, Any]:  # noqa: ANN401 (a cache class of an unstubbed library)
    """Return the argument that hands a cache to a model."""
    return {_cache_keyword(type(model).forward): cache}


@functools.cache
def _cache_keyword(forward: Callable[..., Any]) -> str:
    # transformers renamed the argument and warns about the old name.
    return "cache" if "cache" in inspect.signature(forward).parameters else "past_key_values"


def _tokens(model: nn.Module, samples: list[Sample]) -> Tensor:
    return torch.cat([sample["input_ids"] for sample in samples]).to(next(model.parameters()).device)
