"""SmolVLA: vision and language read once a tick, and an expert that attends to itself and to what is left by turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from torch import nn

from pytest_frt.sdk import Blocker, BuildRequest, Checkpoint, FrtError, Loop, Sample, TickStages

from .._shared import lerobot, policy_weights, ticks, weights
from .._shared.spec import phases_beside
from .._shared.stages import layers, tick
from .sizes import SIZES, STEPS, offline

PHASES: Final = phases_beside(__file__)
KIND: Final = "smolvla"
MODEL: Final = "model.vlm_with_expert"
PREFIX: Final = f"{MODEL}.vlm.model.text_model"
EXPERT: Final = f"{MODEL}.lm_expert"
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
BLOCKERS: Final = (Blocker("aten::lift_fresh", 2, "the time of a step and its mask are made of Python numbers"),)
POLICY: Final = ticks.Policy(PHASES, SETTINGS, vision=VISION, prefix=PREFIX, expert=EXPERT)
prepare, fresh, run, score = POLICY.prepare, POLICY.fresh, ticks.run, POLICY.score
shorter, projection = POLICY.shorter, POLICY.projection


def build(request: BuildRequest) -> nn.Module:
    """Build the policy in evaluation mode and float32.

    Raises:
        MissingExtra: lerobot or a package it needs is absent.
        CheckpointError: the checkpoint cannot be read or is not one of this policy.
        FrtError: the host has no such size.
    """
    folder, library = _folder(request), _library()
    with offline(request.size, lerobot.policy_part("smolvla.smolvlm_with_expert")):
        return policy_weights.build(library.SmolVLAPolicy, folder, request, _config(request), sharpened=_sharpened)


def checkpoint(request: BuildRequest) -> Checkpoint:
    """Return where the weights come from."""
    return policy_weights.checkpoint(_folder(request), request, current=lambda name: name, ties={})


def samples(request: BuildRequest) -> Iterator[Sample]:
    """Yield observations of random pixels, ids and states, each with its noise."""
    layout = ticks.layout_of(_config(request), SIZES[request.size].backbone["text_config"]["vocab_size"])
    yield from ticks.observations(layout, request.seed, request.device)


def compile(model: nn.Module, phase: str) -> NoReturn:  # noqa: A001 (a name of the host protocol)
    """Refuse: the policy calls no layer as a module, so there is none to compile.

    Raises:
        FrtError: always; host.yaml declares the eager form alone.
    """
    raise FrtError(
        f"{type(model).__name__} has no compiled form for {phase}: it calls the parts of its layers, never a layer",
        hint="ask for the eager form",
    )


def stages(model: nn.Module, samples: list[Sample]) -> TickStages:
    """Tell what a tick runs: the tower and the prefix before the loop, the expert and its projections in each step.

    No layer is called as a module, so that of each layer its feed-forward part stands for it.
    """
    experts = (f"{layer}.mlp" for layer in layers(model, f"{EXPERT}.layers"))
    modules = {
        "obs_encode": (VISION, *(f"{layer}.mlp" for layer in layers(model, f"{PREFIX}.layers"))),
        "action_denoise": ("model.action_in_proj", *experts, "model.action_out_proj"),
    }
    loop = Loop("model", model.config.num_steps, ("x_t", "timestep"), "denoise_step")  # type: ignore[union-attr, arg-type]
    return tick(model, samples, modules, loop, blockers=BLOCKERS, prepare=prepare, run=run)


def _library() -> Any:  # noqa: ANN401 (an unstubbed library)
    """Return ``modeling_smolvla`` as it runs beside this release of transformers."""
    module = lerobot.policy_part("smolvla.modeling_smolvla")
    lerobot.crop_to_length(lerobot.policy_part("smolvla.smolvlm_with_expert"))
    return module


def _config(request: BuildRequest) -> Any:  # noqa: ANN401
    """Return the configuration of the policy, that of the checkpoint where there is one."""
    # Weights of the backbone are not fetched: all are drawn, or in the checkpoint. No part is frozen, since frozen ones
    # stay in evaluation mode when the policy is asked to train, where no seat may answer.
    own = {
        "device": weights.made_on(request),
        "load_vlm_weights": False,
        "train_expert_only": False,
        "freeze_vision_encoder": False,
    }
    if (folder := _folder(request)) is not None:
        return policy_weights.read_config(folder, KIND, own)
    size = SIZES[request.size]
    numbers = size.settings["max_action_dim"]
    cameras = dict.fromkeys(size.cameras, (3, size.pixels, size.pixels))
    settings = {
        **lerobot.features(cameras, state=size.settings["max_state_dim"], action=numbers),
        **size.settings,
        "resize_imgs_with_padding": (size.pixels, size.pixels),
    }
    with policy_weights.hushed():
        return _library().SmolVLAConfig(chunk_size=STEPS, n_action_steps=STEPS, **own, **settings)


def _folder(request: BuildRequest) -> Path | None:
    return weights.folder_of("smolvla", SIZES, request)


def _sharpened(name: str) -> bool:
    """Return whether a parameter belongs to attention."""
    return ".self_attn." in name
