"""Pi0.5: vision and language read once a tick, and an expert that denoises a chunk of actions over what they left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

from pytest_frt.sdk import BuildRequest, Checkpoint, FrtError, Sample

from .._shared import causal_lm, lerobot, policy_weights, ticks
from .._shared.spec import phase_named, phases_beside
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
VISION_SETTINGS: Final = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "patch_size",
    "image_size",
    "hidden_act",
    "layer_norm_eps",
)


def build(request: BuildRequest) -> nn.Module:
    """Build the policy in evaluation mode: tiny in float32, full as published, a checkpoint as it says of itself.

    Raises:
        MissingExtra: lerobot or a package it needs is absent.
        CheckpointError: the checkpoint cannot be read or is not one of this policy.
        FrtError: the host has no such size.
    """
    folder, library, device = _folder(request), _library(), _drawn_on(request)
    with dimensions(request.size, library), torch.device(device), policy_weights.hushed():
        model: Any
        if folder is not None:
            model = policy_weights.load(library.PI05Policy, folder, config=_config(request, device))
        else:
            model = library.PI05Policy(_config(request, device)).eval()
            policy_weights.fill(model, request.seed, _sharpened)
    model.config.device = request.device
    return cast("nn.Module", model.to(request.device))


def checkpoint(request: BuildRequest) -> Checkpoint:
    """Return where the weights come from."""
    if (folder := _folder(request)) is None:
        return policy_weights.synthetic(request.seed, _drawn_on(request))
    return policy_weights.stored(folder, current=current_name, ties=TIES)


def samples(request: BuildRequest) -> Iterator[Sample]:
    """Yield observations of random pixels and ids, each with its noise."""
    config = _config(request, request.device)
    layout = ticks.Layout(
        cameras={key: tuple(feature.shape) for key, feature in config.image_features.items()},
        tokens=config.tokenizer_max_length,
        vocabulary=VOCABULARIES[request.size],
        state=config.max_state_dim,
        noise=(config.chunk_size, config.max_action_dim),
    )
    yield from ticks.observations(layout, request.seed, request.device)


def prepare(model: nn.Module, samples: list[Sample], phase: str) -> ticks.Tick:
    """Lay out one tick over the first sample."""
    phase_named(PHASES, phase)
    return ticks.prepare(model, samples, _vocabulary(model))


def fresh(model: nn.Module, state: ticks.Tick, seed: int) -> ticks.Tick:  # noqa: ARG001 (the host protocol)
    """Return the tick with other pixels, ids and noise."""
    return ticks.fresh(state, seed)


def run(model: nn.Module, state: ticks.Tick) -> Tensor:
    """Run one tick and return its actions ``[steps, numbers]``."""
    return ticks.run(model, state)


def score(model: nn.Module, samples: list[Sample], phase: str) -> list[Tensor]:
    """Return how far the actions are from their noise, float32 ``[P, numbers]`` per sample."""
    return ticks.score(model, samples, phase_named(PHASES, phase), _vocabulary(model))


def shorter(sample: Sample, phase: str) -> Sample:
    """Return an observation with less room for its instruction."""
    phase_named(PHASES, phase)
    return ticks.shorter(sample)


def projection(model: nn.Module) -> dict[str, str | int | float | bool | None]:
    """Return the settings that decide what the seats compute: those of the policy, and of each part by its name."""
    config: Any = model.config
    plain = {name: getattr(config, name) for name in SETTINGS}
    vision: Any = model.get_submodule(VISION).config
    plain |= {f"vision.{name}": getattr(vision, name) for name in VISION_SETTINGS}
    for part, path in (("prefix", PREFIX), ("expert", EXPERT)):
        settings = causal_lm.projection(model.get_submodule(path).config)
        plain |= {f"{part}.{name}": value for name, value in settings.items()}
    return {name: ",".join(map(str, one)) if isinstance(one, list | tuple) else one for name, one in plain.items()}


def compile(model: nn.Module, phase: str) -> None:  # noqa: A001 (a name of the host protocol)
    """Compile every layer of the expert, the prefix and the tower in place: each phase runs them all."""
    phase_named(PHASES, phase)
    for stack in STACKS:
        causal_lm.compile_layers(model.get_submodule(stack))


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


def _config(request: BuildRequest, device: str) -> Any:  # noqa: ANN401
    """Return the configuration of the policy, that of the checkpoint where there is one."""
    library = _library()
    if (folder := _folder(request)) is not None:
        policy_weights.check(folder, KIND)
        return policy_weights.read_config(library.PreTrainedConfig, folder, {"device": device})
    size = SIZES[request.size]
    numbers = size.settings["max_action_dim"]
    cameras = dict.fromkeys(size.cameras, (3, PIXELS, PIXELS))
    features = lerobot.features(cameras, state=size.settings["max_state_dim"], action=numbers)
    with policy_weights.hushed():
        return library.PI05Config(device=device, chunk_size=STEPS, n_action_steps=STEPS, **features, **size.settings)


def _folder(request: BuildRequest) -> Path | None:
    """Return the checkpoint directory to load, or None for random weights.

    Raises:
        FrtError: the host has no such size.
    """
    if request.size not in SIZES:
        raise FrtError(
            f"pi05 has no size {request.size!r}",
            hint=f"use {' or '.join(SIZES)}, with a checkpoint for trained weights",
        )
    return None if request.checkpoint is None else Path(request.checkpoint)


def _drawn_on(request: BuildRequest) -> str:
    """Return where the weights are made: tiny ones on the processor, so that they are the same on every device."""
    return "cpu" if request.size == "tiny" else request.device


def _sharpened(name: str) -> bool:
    """Return whether a parameter belongs to attention or to a norm that follows the time of a step."""
    return ".self_attn." in name or "norm.dense." in name


def _vocabulary(model: nn.Module) -> int:
    prefix: Any = model.get_submodule(PREFIX)
    return int(prefix.config.vocab_size)
