"""Running the model: one decode step after a prefix that holds the image, one prefill with it, and their scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor, nn

from pytest_frt.sdk import PhaseSpec, Sample

from .._shared import causal_lm
from .pixels import repainted

TAIL: Final = 16  # text tokens of the prefix after the image


@dataclass(frozen=True, slots=True)
class Step:
    """A decode step that can be repeated.

    Attributes:
        tokens: int64 ``[1, rows]``.
        positions: int64 ``[4, 1, rows]``: in the text, in time, in height, in width.
        cache: The key-value cache after the prefix; never handed to the model itself.
    """

    tokens: Tensor
    positions: Tensor
    cache: Any


@dataclass(frozen=True, slots=True)
class Prefill:
    """A prefill that can be repeated.

    Attributes:
        tokens: int64 ``[1, rows]``.
        positions: int64 ``[4, 1, rows]``.
        pixels: ``[patches, values of a patch]``.
        grid: int64 ``[1, 3]``: frames, height and width in patches.
        kept: int64 ``[P]`` positions whose logits are returned.
    """

    tokens: Tensor
    positions: Tensor
    pixels: Tensor
    grid: Tensor
    kept: Tensor


State = Step | Prefill


@dataclass(frozen=True, slots=True)
class _Batch:
    """Samples of one layout side by side, and the patches of their images one after another.

    Attributes:
        tokens: int64 ``[B, L]``.
        positions: int64 ``[4, B, L]``.
        pixels: ``[B * patches, values of a patch]``.
        grid: int64 ``[B, 3]``.
        prefix: Tokens in the cache when decoding starts: the image is among them.
    """

    tokens: Tensor
    positions: Tensor
    pixels: Tensor
    grid: Tensor
    prefix: int


@torch.no_grad()
def prepare(model: nn.Module, samples: list[Sample], phase: PhaseSpec) -> State:
    """Build what `run` repeats, from the first sample.

    Args:
        model: A Qwen3-VL model.
        samples: As ``pixels.image_windows`` yields them.
        phase: A phase of ``causal_lm.STEPPED`` reads the prefix into a cache once; any other is a prefill.
    """
    batch = _batch(model, samples[:1])
    if phase.name in causal_lm.STEPPED:
        step = slice(batch.prefix, batch.prefix + phase.timed_rows)
        return Step(batch.tokens[:, step], batch.positions[..., step], _cache_after(model, batch))
    kept = causal_lm.scored_positions(batch.tokens, phase.score_positions)
    return Prefill(batch.tokens, batch.positions, batch.pixels, batch.grid, kept)


def fresh(model: nn.Module, state: State, seed: int) -> State:
    """Return the state with other ids, and in a prefill another image; a cache after the prefix is shared."""
    config: Any = model.config
    generator = torch.Generator().manual_seed(seed)
    markers = (config.vision_start_token_id, config.image_token_id, config.vision_end_token_id)
    text = ~torch.isin(state.tokens, torch.tensor(markers, device=state.tokens.device))
    below = min(*markers, config.video_token_id)
    drawn = torch.randint(below, state.tokens.shape, generator=generator).to(state.tokens.device)
    renewed = replace(state, tokens=torch.where(text, drawn, state.tokens))
    if isinstance(renewed, Step):
        return renewed
    vision = config.vision_config
    pixels = repainted(renewed.pixels, vision.temporal_patch_size, vision.in_channels, seed)
    return replace(renewed, pixels=pixels)


@torch.no_grad()
def run(model: nn.Module, state: State) -> Tensor:
    """Run one decode step or one prefill; the state stays as it was.

    Returns:
        Logits ``[rows, V]`` of the step, or ``[P, V]`` of the kept positions.
    """
    match state:
        case Step(tokens, positions, cache):
            return _step(model, tokens, positions, causal_lm.snapshot(cache))[0]
        case Prefill(tokens, positions, pixels, grid, kept):
            logits: Tensor = model(
                tokens,
                position_ids=positions,
                pixel_values=pixels,
                image_grid_thw=grid,
                use_cache=False,
                logits_to_keep=kept,
            ).logits
            return logits[0]


@torch.no_grad()
def score(model: nn.Module, samples: list[Sample], phase: PhaseSpec) -> list[Tensor]:
    """Return the logits that host-level parity compares, one float32 tensor ``[P, V]`` per sample.

    Decoding is teacher-forced: ``P`` steps after the prefix, several samples in one batch so that a step has as many
    rows as the phase admits. A shortened sample ends earlier.
    """
    if phase.name not in causal_lm.STEPPED:
        return [run(model, prepare(model, [sample], phase)).float().cpu() for sample in samples]
    scores: list[Tensor] = []
    for group in causal_lm.groups(samples, phase.rows[1]):
        batch = _batch(model, group)
        cache = _cache_after(model, batch)
        last = min(batch.prefix + phase.score_positions, batch.tokens.shape[1])
        steps = [
            _step(model, batch.tokens[:, at : at + 1], batch.positions[..., at : at + 1], cache)[:, 0].float().cpu()
            for at in range(batch.prefix, last)
        ]
        scores += list(torch.stack(steps, dim=1))
    return scores


def shorter(sample: Sample, phase: PhaseSpec) -> Sample:
    """Return the beginning of a sample: few steps after the prefix. A prefill has one length, and stays."""
    if phase.name not in causal_lm.STEPPED:
        return sample
    last = _prefix(sample["mm_token_type_ids"]) + causal_lm.FEW_STEPS
    return {**sample, **{name: sample[name][:, :last] for name in ("input_ids", "mm_token_type_ids")}}


def _batch(model: nn.Module, samples: list[Sample]) -> _Batch:
    device = next(model.parameters()).device
    tokens, kinds, grid = (
        torch.cat([sample[name] for sample in samples]).to(device)
        for name in ("input_ids", "mm_token_type_ids", "image_grid_thw")
    )
    pixels = torch.cat([sample["pixel_values"].flatten(0, 1) for sample in samples]).to(device)
    return _Batch(tokens, _positions(model, tokens, kinds, grid), pixels, grid, _prefix(kinds))


def _positions(model: Any, tokens: Tensor, kinds: Tensor, grid: Tensor) -> Tensor:  # noqa: ANN401 (an unstubbed library)
    """Return positions ``[4, B, L]``, as generation computes them.

    They are given to every call, since the model would else keep an offset of the last image it saw.
    """
    seen, _ = model.model.get_rope_index(tokens, mm_token_type_ids=kinds, image_grid_thw=grid)
    text = torch.arange(tokens.shape[1], device=tokens.device).expand(1, *tokens.shape)
    return torch.cat([text, seen])


def _prefix(kinds: Tensor) -> int:
    """Return how many tokens are in the cache when decoding starts; samples of a batch agree in where images are."""
    last_of_image = int(kinds[0].nonzero()[-1])
    return last_of_image + 2 + TAIL  # the marker that closes the image, and some text


def _step(model: nn.Module, tokens: Tensor, positions: Tensor, cache: Any) -> Tensor:  # noqa: ANN401
    given = causal_lm.with_cache(model, cache)
    logits: Tensor = model(tokens, position_ids=positions, use_cache=True, **given).logits
    return logits


def _cache_after(model: nn.Module, batch: _Batch) -> Any:  # noqa: ANN401
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    model(
        batch.tokens[:, : batch.prefix],
        position_ids=batch.positions[..., : batch.prefix],
        pixel_values=batch.pixels,
        image_grid_thw=batch.grid,
        use_cache=True,
        logits_to_keep=1,
        **causal_lm.with_cache(model, cache),
    )
    return cache
