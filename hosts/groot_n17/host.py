"""GR00T N1.7: vision and language read once a tick, and a diffusion transformer that reads them by turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from torch import Tensor, nn

from pytest_frt.sdk import Blocker, BuildRequest, Checkpoint, FrtError, Loop, Sample, TickStages

from .._shared import causal_lm, lerobot, policy_weights, ticks, weights
from .._shared.spec import flat, phase_named, phases_beside
from .._shared.stages import tick
from . import steps
from .sizes import GRID, SIZES, STEPS, backbone_of, offline, settings_of

PHASES: Final = phases_beside(__file__)
PHASE: Final = next(iter(PHASES))
KIND: Final = "groot"
NEEDED: Final = ("diffusers", "tree")
QWEN: Final = "_groot_model.backbone.model"
TEXT: Final = f"{QWEN}.model.language_model"
HEAD: Final = "_groot_model.action_head"
READERS: Final = ("vlln", "vl_self_attention", "state_encoder")
BLOCKERS: Final = (Blocker("aten::lift_fresh", 1, "the logarithm of a constant, made anew for the time of a step"),)
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
    folder, library = _folder(request), _part("modeling_groot")
    with offline(request.size, library, _part("groot_n1_7")):
        model = policy_weights.build(
            library.GrootPolicy, folder, request, _config(request), sharpened=_sharpened, stacked=_stacked
        )
    for parameter in model.parameters():
        # Parameters alone: rotary frequencies among the buffers stay float32 in every dtype.
        parameter.data = parameter.data.to(SIZES[request.size].dtype)
    # One tick, in which the backbone hooks its layers for good: later changes to the model are an impl's.
    run(model, prepare(model, [next(samples(request))], PHASE))
    return model


def checkpoint(request: BuildRequest) -> Checkpoint:
    """Return where the weights come from."""
    return policy_weights.checkpoint(_folder(request), request, current=lambda name: name, ties=TIES)


def samples(request: BuildRequest) -> Iterator[Sample]:
    """Yield observations of random pixels, ids and states, each with its noise."""
    _folder(request)
    library, size = _part("groot_n1_7"), SIZES[request.size]
    configs = settings_of(request.size, library), backbone_of(request.size, library)
    layout = steps.layout_of(*configs, images=size.images, tokens=size.tokens, grid=GRID)
    yield from steps.observations(layout, request.seed, request.device)


def prepare(model: nn.Module, samples: list[Sample], phase: str) -> ticks.Tick:
    """Lay out one tick over the first sample."""
    phase_named(PHASES, phase)
    return steps.prepare(model, samples)


def fresh(model: nn.Module, state: ticks.Tick, seed: int) -> ticks.Tick:
    """Return the tick with other pixels, text, robot state and noise."""
    images, tokens = len(state.batch[steps.GRIDS]), state.batch[steps.IDS].shape[1]
    return steps.fresh(state, steps.layout_of(*_settings(model), images=images, tokens=tokens, grid=GRID), seed)


def run(model: nn.Module, state: ticks.Tick) -> Tensor:
    """Run one tick and return its actions ``[steps, numbers]``."""
    return steps.run(model, state, _part("groot_n1_7"))


def score(model: nn.Module, samples: list[Sample], phase: str) -> list[Tensor]:
    """Return how far the actions are from their noise, float32 ``[P, numbers]`` per sample."""
    states = [prepare(model, [sample], phase) for sample in samples]
    return [ticks.moved(run(model, state), state.noise, phase_named(PHASES, phase)) for state in states]


def projection(model: nn.Module) -> dict[str, str | int | float | bool | None]:
    """Return the settings that decide what the seats compute: those of the policy, and of each part by its name."""
    settings, qwen = _settings(model)
    plain = {name: getattr(settings, name) for name in SETTINGS}
    plain |= {f"vision.{name}": getattr(qwen.vision_config, name) for name in VISION_SETTINGS}
    plain |= {f"text.{name}": value for name, value in causal_lm.projection(qwen.text_config).items()}
    for part in ("diffusion_model_cfg", "vl_self_attention_cfg"):
        plain |= {f"{part}.{name}": value for name, value in sorted(getattr(settings, part).items())}
    return flat(plain)


def compile(model: nn.Module, phase: str) -> NoReturn:  # noqa: A001 (a name of the host protocol)
    """Refuse: host.yaml declares the eager form alone.

    Raises:
        FrtError: always.
    """
    raise FrtError(f"{type(model).__name__} has no compiled form for {phase}", hint="ask for the eager form")


def stages(model: nn.Module, samples: list[Sample]) -> TickStages:
    """Tell what a tick runs: the backbone and the head's readers before the loop, the transformer in each step."""
    modules = {
        "obs_encode": (f"{QWEN}.model.visual", TEXT, *(f"{HEAD}.{name}" for name in READERS)),
        "action_denoise": (f"{HEAD}.action_encoder", f"{HEAD}.model", f"{HEAD}.action_decoder"),
    }
    loop = Loop(f"{HEAD}.model", _settings(model)[0].num_inference_timesteps, ("hidden_states", "timestep"))
    return tick(model, samples, modules, loop, blockers=BLOCKERS, prepare=prepare, run=run)


def _part(name: str) -> Any:  # noqa: ANN401 (an unstubbed library)
    """Return a module of the policy."""
    return lerobot.policy_part(f"groot.{name}", *NEEDED, install=lerobot.INSTALL_GROOT)


def _settings(model: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Return the configurations of the model and of its vision and language model."""
    return model.get_submodule("_groot_model").config, model.get_submodule(QWEN).config


def _config(request: BuildRequest) -> Any:  # noqa: ANN401
    """Return the configuration of the policy, that of the checkpoint where there is one."""
    modeling, library, size = _part("modeling_groot"), _part("groot_n1_7"), SIZES[request.size]
    # Under autocast no seat could be served: the parameters themselves have the dtype of the size.
    own = {"device": weights.made_on(request), "use_bf16": False, "model_params_fp32": False}
    if (folder := _folder(request)) is not None:
        return policy_weights.read_config(folder, KIND, own)
    settings = settings_of(request.size, library)
    dims = {"max_state_dim": settings.max_state_dim, "max_action_dim": settings.max_action_dim}
    pixels = GRID * backbone_of(request.size, library).vision_config.patch_size
    cameras = {f"camera{index}": (3, pixels, pixels) for index in range(size.images)}
    features = lerobot.features(cameras, state=settings.max_state_dim, action=settings.max_action_dim)
    with policy_weights.hushed():
        return modeling.GrootConfig(chunk_size=STEPS, n_action_steps=STEPS, **dims, **own, **features)


def _folder(request: BuildRequest) -> Path | None:
    return weights.folder_of("groot_n17", SIZES, request)


def _sharpened(name: str) -> bool:
    """Return whether a parameter belongs to attention or to a norm that follows the time of a step."""
    return any(part in name for part in (".self_attn.", ".attn.", ".attn1.", ".norm1.linear.", ".proj_out_1."))


def _stacked(name: str) -> bool:
    """Return whether a tensor holds one matrix or vector for each robot."""
    return name.endswith((".W", ".b"))
