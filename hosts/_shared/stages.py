"""What hosts tell of their stages to the conformance checks of the pipeline that they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn

from pytest_frt.sdk import Blocker, DecodeStages, Loop, PhaseSpec, Sample, TickStages

from . import causal_lm
from .ticks import NOISE, Tick

SEVERAL: Final = 8  # rows a step may be asked for


def tick(
    model: nn.Module,
    samples: list[Sample],
    modules: Mapping[str, tuple[str, ...]],
    loop: Loop,
    *,
    blockers: tuple[Blocker, ...],
    prepare: Callable[[nn.Module, list[Sample], str], Tick],
    run: Callable[[nn.Module, Tick], Tensor],
) -> TickStages:
    """Return the stages of a flow policy.

    Args:
        model: The policy.
        samples: Two of its own.
        modules: Stage to modules that are called whenever it runs.
        loop: The call of one step.
        blockers: What stands between the loop and its capture.
        prepare: That of the host program.
        run: That of the host program.
    """
    first, second = samples

    def answer(sample: Sample) -> Tensor:
        return run(model, prepare(model, [sample], "denoise"))

    windows = {"observation": tuple(name for name in first if name != NOISE), NOISE: (NOISE,)}
    return TickStages(model, modules, windows, (first, second), answer, loop, blockers)


def layers(model: nn.Module, *stacks: str) -> tuple[str, ...]:
    """Return the paths of every layer of some stacks."""
    return tuple(f"{path}.{name}" for path in stacks for name, _ in model.get_submodule(path).named_children())


@dataclass(frozen=True, slots=True)
class Reading:
    """A request of which some tokens are in the cache.

    Attributes:
        whole: The request as the host lays out a prefill of all of it.
        step: The request as the host lays out a step: the tokens that follow, and the cache.
        taken: Tokens of the step that are in the cache as well.
    """

    whole: Any
    step: Any
    taken: int = 0


def decoding(
    model: nn.Module,
    samples: list[Sample],
    phases: Mapping[str, PhaseSpec],
    modules: Mapping[str, tuple[str, ...]],
    *,
    prepare: Callable[[nn.Module, list[Sample], PhaseSpec], Any] = causal_lm.prepare,
    run: Callable[[nn.Module, Any], Tensor] = causal_lm.run,
    modality: tuple[str, ...] = (),
) -> DecodeStages:
    """Return the stages of a decoder.

    Args:
        model: The decoder.
        samples: Two of its own.
        phases: Those of its host.yaml.
        modules: Stage to modules that are called whenever it runs; for decode the blocks, which prefill runs as well.
        prepare: Lays out a phase: steps have ``tokens`` and a ``cache``, prefills ``tokens`` and ``kept``, and either
            ``positions`` where the host gives them.
        run: Runs a prefill.
        modality: Names of what a sample has beside its tokens.
    """
    first, second = samples
    several = replace(phases["decode"], timed_rows=SEVERAL)

    def read(sample: Sample) -> Reading:
        return Reading(prepare(model, [sample], phases["prefill"]), prepare(model, [sample], several))

    windows = {"tokens": tuple(name for name in first if name not in modality)}
    return DecodeStages(
        model=model,
        modules={**modules, "prefill": modules["decode"], "token_select": ()},
        windows={**windows, **({"modality": modality} if modality else {})},
        samples=(first, second),
        vocabulary=model.get_output_embeddings().weight.shape[0],  # type: ignore[operator]
        read=read,
        step=partial(_step, model),
        whole=partial(_whole, model, run),
        lengths=lambda state: tuple(layer.get_seq_length() for layer in state.step.cache.layers),
        held=lambda state: tuple(part for layer in state.step.cache.layers for part in (layer.keys, layer.values)),
        select=lambda logits: logits.argmax(dim=-1),
    )


def _rows(laid_out: Any, first: int, last: int | None) -> dict[str, Tensor | None]:  # noqa: ANN401 (of one of two hosts)
    """Return some of the tokens, and their positions where the host gives them."""
    positions = getattr(laid_out, "positions", None)
    return {
        "tokens": laid_out.tokens[:, first:last],
        "positions": None if positions is None else positions[..., first:last],
    }


@torch.no_grad()
def _step(model: nn.Module, state: Reading, rows: int) -> tuple[Tensor, Reading]:
    """Run the next tokens over a copy of the cache that grows for itself."""
    cache, at = causal_lm.snapshot(state.step.cache), state.taken
    asked = _rows(state.step, at, at + rows)
    given = {"input_ids": asked["tokens"], "position_ids": asked["positions"], **causal_lm.with_cache(model, cache)}
    logits: Tensor = model(use_cache=True, **given).logits
    return logits[0], Reading(state.whole, replace(state.step, cache=cache), at + rows)


@torch.no_grad()
def _whole(model: nn.Module, run: Callable[[nn.Module, Any], Tensor], state: Reading, rows: int) -> Tensor:
    """Run one prefill that ends with the tokens that a step of so many rows answers."""
    read = state.step.cache.layers[0].get_seq_length()
    asked = {name: one for name, one in _rows(state.whole, 0, read + rows).items() if one is not None}
    kept = torch.arange(read, read + rows, device=state.whole.tokens.device)
    return run(model, replace(state.whole, **asked, kept=kept))
