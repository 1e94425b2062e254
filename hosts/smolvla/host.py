"""SmolVLA: vision and language read once a tick, and an expert that attends to itself and to what is left by turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn, cast

import torch
from torch import Tensor, nn

from pytest_frt.sdk import BuildRequest, Checkpoint, FrtError, Sample

from .._shared import causal_lm, lerobot, policy_weights, ticks
from .._shared.spec import phase_named, phases_beside
from .sizes import SIZES, STEPS, offline

PHASES: Final = phases_beside(__file__)
KIND: Final = "smolvla"
MODEL: Final = "model.vlm_with_expert"
PARTS: Final = {"prefix": f"{MODEL}.vlm.model.text_model", "expert": f"{MODEL}.lm_expert"}
VISION: Final = f"{MODEL}.vlm.model.vision_model"
SETTINGS: Final = (
    "chunk_size",
    "num_steps",
    "max_state_dim",
    "max_action_dim",
    "tokenizer_max_length",
    "attention_mode",
    "self_attn_every_n_layers",
    "num_vlm_layers",
    "num_expert_layers",
    "expert_width_multiplier",
    "add_image_special_tokens",
    "prefix_length",
    "min_period",
    "max_period",
    "resize_imgs_with_padding",
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
    """Build the policy in evaluation mode and float32.

    Raises:
        MissingExtra: lerobot or a package it needs is absent.
        CheckpointError: the checkpoint cannot be read or is not one of this policy.
        FrtError: the host has no such size.
    """
    folder, library, device = _folder(request), _library(), _drawn_on(request)
    parts = lerobot.policy_part("smolvla.smolvlm_with_expert")
    model: Any
    with offline(request.size, parts), torch.device(device), policy_weights.hushed():
        if folder is not None:
            model = policy_weights.load(library.SmolVLAPolicy, folder, config=_config(request, device))
        else:
            model = library.SmolVLAPolicy(_config(request, device)).eval()
            policy_weights.fill(model, request.seed, _sharpened)
    model.config.device = request.device
    return cast("nn.Module", model.to(request.device))


def checkpoint(request: BuildRequest) -> Checkpoint:
    """Return where the weights come from."""
    if (folder := _folder(request)) is None:
        return policy_weights.synthetic(request.seed, _drawn_on(request))
    return policy_weights.stored(folder, current=lambda name: name, ties={})


def samples(request: BuildRequest) -> Iterator[Sample]:
    """Yield observations of random pixels, ids and states, each with its noise."""
    config = _config(request, request.device)
    layout = ticks.Layout(
        cameras={key: tuple(feature.shape) for key, feature in config.image_features.items()},
        tokens=config.tokenizer_max_length,
        vocabulary=SIZES[request.size].backbone["text_config"]["vocab_size"],
        state=config.max_state_dim,
        noise=(config.chunk_size, config.max_action_dim),
    )
    yield from ticks.observations(layout, request.seed, request.device)


def prepare(model: nn.Module, samples: list[Sample], phase: str) -> ticks.Tick:
    """Lay out one tick over the first sample."""
    phase_named(PHASES, phase)
    return ticks.prepare(model, samples, _vocabulary(model))


def fresh(model: nn.Module, state: ticks.Tick, seed: int) -> ticks.Tick:  # noqa: ARG001 (the host protocol)
    """Return the tick with other pixels, ids, robot state and noise."""
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
    for part, path in PARTS.items():
        settings = causal_lm.projection(model.get_submodule(path).config)
        plain |= {f"{part}.{name}": value for name, value in settings.items()}
    return {name: ",".join(map(str, one)) if isinstance(one, list | tuple) else one for name, one in plain.items()}


def compile(model: nn.Module, phase: str) -> NoReturn:  # noqa: A001 (a name of the host protocol)
    """Refuse: the policy calls no layer as a module, so there is none to compile.

    Raises:
        FrtError: always; host.yaml declares the eager form alone.
    """
    raise FrtError(
        f"{type(model).__name__} has no compiled form for {phase}: it calls the parts of its layers, never a layer",
        hint="ask for the eager form",
    )


def _library() -> Any:  # noqa: ANN401 (an unstubbed library)
    """Return ``modeling_smolvla`` as it runs beside this release of transformers."""
    module = lerobot.policy_part("smolvla.modeling_smolvla")
    lerobot.crop_to_length(lerobot.policy_part("smolvla.smolvlm_with_expert"))
    return module


def _config(request: BuildRequest, device: str) -> Any:  # noqa: ANN401
    """Return the configuration of the policy, that of the checkpoint where there is one."""
    library = _library()
    # Weights of the backbone are not fetched: all are drawn, or in the checkpoint. No part is frozen, since frozen ones
    # stay in evaluation mode when the policy is asked to train, where no seat may answer.
    own = {"device": device, "load_vlm_weights": False, "train_expert_only": False, "freeze_vision_encoder": False}
    if (folder := _folder(request)) is not None:
        policy_weights.check(folder, KIND)
        return policy_weights.read_config(lerobot.policy_part("pretrained").PreTrainedConfig, folder, own)
    size = SIZES[request.size]
    numbers = size.settings["max_action_dim"]
    cameras = dict.fromkeys(size.cameras, (3, size.pixels, size.pixels))
    settings = {
        **lerobot.features(cameras, state=size.settings["max_state_dim"], action=numbers),
        **size.settings,
        "resize_imgs_with_padding": (size.pixels, size.pixels),
    }
    with policy_weights.hushed():
        return library.SmolVLAConfig(chunk_size=STEPS, n_action_steps=STEPS, **own, **settings)


def _folder(request: BuildRequest) -> Path | None:
    """Return the checkpoint directory to load, or None for random weights.

    Raises:
        FrtError: the host has no such size.
    """
    if request.size not in SIZES:
        raise FrtError(
            f"smolvla has no size {request.size!r}",
            hint=f"use {' or '.join(SIZES)}, with a checkpoint for trained weights",
        )
    return None if request.checkpoint is None else Path(request.checkpoint)


def _drawn_on(request: BuildRequest) -> str:
    """Return where the weights are made: tiny ones on the processor, so that they are the same on every device."""
    return "cpu" if request.size == "tiny" else request.device


def _sharpened(name: str) -> bool:
    """Return whether a parameter belongs to attention."""
    return ".self_attn." in name


def _vocabulary(model: nn.Module) -> int:
    prefix: Any = model.get_submodule(PARTS["prefix"])
    return int(prefix.config.vocab_size)
