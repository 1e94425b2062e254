"""Pi0.5: vision and language read once a tick, and an expert that denoises a chunk of actions over what they left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from torch import nn

from pytest_frt.sdk import Blocker, BuildRequest, Checkpoint, Loop, Sample, TickStages

from .._shared import causal_lm, lerobot, policy_weights, ticks, weights
from .._shared.spec import phase_named, phases_beside
from .._shared.stages import layers, tick
from .sizes import PIXELS, SIZES, STEPS, VOCABULARIES, dimensions

PHASES: Final = phases_beside(__file__)
KIND: Final = "pi05"
MODEL: Final = "model.paligemma_with_expert."
PREFIX: Final = f"{MODEL}paligemma.model.language_model"
VISION: Final = f"{MODEL}paligemma.model.vision_tower"
EXPERT: Final = f"{MODEL}gemma_expert.model"
STACKS: Final = (f"{EXPERT}.layers", f"{PREFIX}.layers", f"{VISION}.encoder.layers")
TIES: Final = {f"{PREFIX}.embed_tokens.weight": f"{MODEL}paligemma.lm_head.weight"}
OLD_VISION: Final = "vision_tower.vision_model."
"""Where files of earlier releases hold the tower."""
SETTINGS: Final = (
    "dtype",
    "chunk_size",
    "num_inference_steps",
    "max_action_dim",
    "tokenizer_max_length",
    "min_period",
    "max_period",
    "image_resolution",
)
POLICY: Final = ticks.Policy(PHASES, SETTINGS, vision=VISION, prefix=PREFIX, expert=EXPERT)
prepare, fresh, run, score = POLICY.prepare, POLICY.fresh, ticks.run, POLICY.score
shorter, projection = POLICY.shorter, POLICY.projection


def build(request: BuildRequest) -> nn.Module:
    """Build the policy in evaluation mode: tiny in float32, full as published, a checkpoint as it says of itself.

    Raises:
        MissingExtra: lerobot or a package it needs is absent.
        CheckpointError: the checkpoint cannot be read or is not one of this policy.
        FrtError: the host has no such size.
    """
    folder, library = _folder(request), _library()
    with dimensions(request.size, library):
        return policy_weights.build(library.PI05Policy, folder, request, _config(request), sharpened=_sharpened)


def checkpoint(request: BuildRequest) -> Checkpoint:
    """Return where the weights come from."""
    return policy_weights.checkpoint(_folder(request), request, current=current_name, ties=TIES)


def samples(request: BuildRequest) -> Iterator[Sample]:
    """Yield observations of random pixels, ids and states, each with its noise."""
    layout = ticks.layout_of(_config(request), VOCABULARIES[request.size])
    yield from ticks.observations(layout, request.seed, request.device)


def compile(model: nn.Module, phase: str) -> None:  # noqa: A001 (a name of the host protocol)
    """Compile every layer of the expert, the prefix and the tower in place: each phase runs them all."""
    phase_named(PHASES, phase)
    for stack in STACKS:
        causal_lm.compile_layers(model.get_submodule(stack))


def stages(model: nn.Module, samples: list[Sample]) -> TickStages:
    """Tell what a tick runs: the tower and the prefix before the loop, the expert and its projections in each step."""
    modules = {
        "obs_encode": (VISION, *layers(model, f"{PREFIX}.layers")),
        "action_denoise": ("model.action_in_proj", *layers(model, f"{EXPERT}.layers"), "model.action_out_proj"),
    }
    # The time of a step, its mask, and for each layer a key and a value that its copy of the cache begins with.
    built = 2 + 2 * len(layers(model, f"{EXPERT}.layers"))
    blockers = (Blocker("aten::lift_fresh", built, "tensors that a step makes of Python numbers"),)
    loop = Loop("model", model.config.num_inference_steps, ("x_t", "timestep"), "denoise_step")  # type: ignore[union-attr, arg-type]
    return tick(model, samples, modules, loop, blockers=blockers, prepare=prepare, run=run)


def current_name(stored: str) -> str:
    """Return the name in the policy of a tensor that a file of any release holds."""
    whole = stored if stored.startswith("model.") else f"model.{stored}"
    return whole.replace(OLD_VISION, "vision_tower.")


def _library() -> Any:  # noqa: ANN401 (an unstubbed library)
    """Return ``modeling_pi05`` as it runs beside this release of transformers."""
    module: Any = lerobot.policy_part("pi05.modeling_pi05")
    lerobot.accept_cache_positions(lerobot.policy_part("pi_gemma"))
    lerobot.rename_stored(module.PI05Policy, current_name)
    return module


def _config(request: BuildRequest) -> Any:  # noqa: ANN401
    """Return the configuration of the policy, that of the checkpoint where there is one."""
    own = {"device": weights.made_on(request)}
    if (folder := _folder(request)) is not None:
        return policy_weights.read_config(folder, KIND, own)
    size = SIZES[request.size]
    numbers = size.settings["max_action_dim"]
    cameras = dict.fromkeys(size.cameras, (3, PIXELS, PIXELS))
    features = lerobot.features(cameras, state=size.settings["max_state_dim"], action=numbers)
    with policy_weights.hushed():
        return _library().PI05Config(chunk_size=STEPS, n_action_steps=STEPS, **own, **features, **size.settings)


def _folder(request: BuildRequest) -> Path | None:
    return weights.folder_of("pi05", SIZES, request)


def _sharpened(name: str) -> bool:
    """Return whether a parameter belongs to attention or to a norm that follows the time of a step."""
    return ".self_attn." in name or "norm.dense." in name
