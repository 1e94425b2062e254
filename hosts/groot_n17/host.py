"""GR00T N1.7: vision and language read once a tick, and a diffusion transformer that reads them by turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn, cast

import torch
from torch import Tensor, nn

from pytest_frt.sdk import BuildRequest, Checkpoint, FrtError, Sample

from .._shared import causal_lm, lerobot, policy_weights, ticks
from .._shared.spec import phase_named, phases_beside
from . import steps
from .sizes import GRID, SIZES, STEPS, backbone_of, offline, settings_of

PHASES: Final = phases_beside(__file__)
PHASE: Final = next(iter(PHASES))
KIND: Final = "groot"
NEEDED: Final = ("diffusers", "tree")
QWEN: Final = "_groot_model.backbone.model"
TEXT: Final = f"{QWEN}.model.language_model"
TIES: Final = {
    f"{QWEN}.lm_head.weight": f"{TEXT}.embed_tokens.weight",
    f"{TEXT}.embed_tokens.weight": f"{QWEN}.lm_head.weight",
}
SETTINGS: Final = (
    "select_layer",
    "action_horizon",
    "hidden_size",
    "input_embedding_dim",
    "backbone_embedding_dim",
    "max_state_dim",
    "max_action_dim",
    "max_num_embodiments",
    "num_inference_timesteps",
    "num_timestep_buckets",
    "add_pos_embed",
    "use_vlln",
    "use_alternate_vl_dit",
    "attend_text_every_n_blocks",
)
VISION_SETTINGS: Final = (
    "depth",
    "hidden_size",
    "intermediate_size",
    "num_heads",
    "hidden_act",
    "patch_size",
    "temporal_patch_size",
    "spatial_merge_size",
    "out_hidden_size",
    "num_position_embeddings",
    "deepstack_visual_indexes",
)


def build(request: BuildRequest) -> nn.Module:
    """Build the policy in evaluation mode: tiny in float32, full in bfloat16.

    Raises:
        MissingExtra: lerobot or a package it needs is absent.
        CheckpointError: the checkpoint cannot be read or is not one of this policy.
        FrtError: the host has no such size.
    """
    folder, library, device = _folder(request), _part("modeling_groot"), _drawn_on(request)
    model: Any
    with offline(request.size, library, _part("groot_n1_7")), torch.device(device), policy_weights.hushed():
        if folder is not None:
            model = policy_weights.load(library.GrootPolicy, folder, config=_config(request, device))
        else:
            model = library.GrootPolicy(_config(request, device)).eval()
            policy_weights.fill(model, request.seed, _sharpened, stacked=_stacked)
    for parameter in model.parameters():
        # Parameters alone: rotary frequencies among the buffers stay float32 in every dtype.
        parameter.data = parameter.data.to(SIZES[request.size].dtype)
    model.config.device = request.device
    # One tick, in which the backbone hooks its layers for good: later changes to the model are an impl's.
    run(model.to(request.device), prepare(model, [next(samples(request))], PHASE))
    return cast("nn.Module", model)


def checkpoint(request: BuildRequest) -> Checkpoint:
    """Return where the weights come from."""
    if (folder := _folder(request)) is None:
        return policy_weights.synthetic(request.seed, _drawn_on(request))
    return policy_weights.stored(folder, current=lambda name: name, ties=TIES)


def samples(request: BuildRequest) -> Iterator[Sample]:
    """Yield observations of random pixels, ids and states, each with its noise."""
    _folder(request)
    library, size = _part("groot_n1_7"), SIZES[request.size]
    configs = settings_of(request.size, library), backbone_of(request.size, library)
    layout = steps.layout_of(*configs, images=size.images, tokens=size.tokens, grid=GRID)
    yield from steps.observations(layout, request.seed, request.device)


def prepare(model: nn.Module, samples: list[Sample], phase: str) -> steps.Tick:
    """Lay out one tick over the first sample."""
    phase_named(PHASES, phase)
    configs: tuple[Any, Any] = model.get_submodule("_groot_model").config, model.get_submodule(QWEN).config
    images, tokens = samples[0][steps.GRIDS].shape[1], samples[0][steps.IDS].shape[1]
    return steps.prepare(model, samples, steps.layout_of(*configs, images=images, tokens=tokens, grid=GRID))


def fresh(model: nn.Module, state: steps.Tick, seed: int) -> steps.Tick:  # noqa: ARG001 (the host protocol)
    """Return the tick with other pixels, text, robot state and noise."""
    return steps.fresh(state, seed)


def run(model: nn.Module, state: steps.Tick) -> Tensor:
    """Run one tick and return its actions ``[steps, numbers]``."""
    return steps.run(model, state, _part("groot_n1_7"))


def score(model: nn.Module, samples: list[Sample], phase: str) -> list[Tensor]:
    """Return how far the actions are from their noise, float32 ``[P, numbers]`` per sample."""
    states = [prepare(model, [sample], phase) for sample in samples]
    return [ticks.moved(run(model, state), state.noise, phase_named(PHASES, phase)) for state in states]


def projection(model: nn.Module) -> dict[str, str | int | float | bool | None]:
    """Return the settings that decide what the seats compute: those of the policy, and of each part by its name."""
    settings: Any = model.get_submodule("_groot_model").config
    qwen: Any = model.get_submodule(QWEN).config
    plain = {name: getattr(settings, name) for name in SETTINGS}
    plain |= {f"vision.{name}": getattr(qwen.vision_config, name) for name in VISION_SETTINGS}
    plain |= {f"text.{name}": value for name, value in causal_lm.projection(qwen.text_config).items()}
    for part in ("diffusion_model_cfg", "vl_self_attention_cfg"):
        plain |= {f"{part}.{name}": value for name, value in sorted(getattr(settings, part).items())}
    return {name: ",".join(map(str, one)) if isinstance(one, list | tuple) else one for name, one in plain.items()}


def compile(model: nn.Module, phase: str) -> NoReturn:  # noqa: A001 (a name of the host protocol)
    """Refuse: host.yaml declares the eager form alone.

    Raises:
        FrtError: always.
    """
    raise FrtError(f"{type(model).__name__} has no compiled form for {phase}", hint="ask for the eager form")


def _part(name: str) -> Any:  # noqa: ANN401 (an unstubbed library)
    """Return a module of the policy."""
    return lerobot.policy_part(f"groot.{name}", *NEEDED, install=lerobot.INSTALL_GROOT)


def _config(request: BuildRequest, device: str) -> Any:  # noqa: ANN401
    """Return the configuration of the policy, that of the checkpoint where there is one."""
    modeling, library, size = _part("modeling_groot"), _part("groot_n1_7"), SIZES[request.size]
    # Under autocast no seat could be served: the parameters themselves have the dtype of the size.
    own = {"device": device, "use_bf16": False, "model_params_fp32": False}
    if (folder := _folder(request)) is not None:
        policy_weights.check(folder, KIND)
        return policy_weights.read_config(lerobot.policy_part("pretrained").PreTrainedConfig, folder, own)
    settings = settings_of(request.size, library)
    dims = {"max_state_dim": settings.max_state_dim, "max_action_dim": settings.max_action_dim}
    pixels = GRID * backbone_of(request.size, library).vision_config.patch_size
    cameras = {f"camera{index}": (3, pixels, pixels) for index in range(size.images)}
    features = lerobot.features(cameras, state=settings.max_state_dim, action=settings.max_action_dim)
    with policy_weights.hushed():
        return modeling.GrootConfig(chunk_size=STEPS, n_action_steps=STEPS, **dims, **own, **features)


def _folder(request: BuildRequest) -> Path | None:
    """Return the checkpoint directory to load, or None for random weights.

    Raises:
        FrtError: the host has no such size.
    """
    if request.size not in SIZES:
        raise FrtError(
            f"groot_n17 has no size {request.size!r}",
            hint=f"use {' or '.join(SIZES)}, with a checkpoint for trained weights",
        )
    return None if request.checkpoint is None else Path(request.checkpoint)


def _drawn_on(request: BuildRequest) -> str:
    """Return where the weights are made: tiny ones on the processor, so that they are the same on every device."""
    return "cpu" if request.size == "tiny" else request.device


def _sharpened(name: str) -> bool:
    """Return whether a parameter belongs to attention or to a norm that follows the time of a step."""
    return any(part in name for part in (".self_attn.", ".attn.", ".attn1.", ".norm1.linear.", ".proj_out_1."))


def _stacked(name: str) -> bool:
    """Return whether a tensor holds one matrix or vector for each robot."""
    return name.endswith((".W", ".b"))
