"""Qwen3-VL: vision blocks, mergers and a decoder, on seeded random weights or a local checkpoint of its class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from torch import Tensor, nn

from pytest_frt.sdk import BuildRequest, Checkpoint, DecodeStages, Sample

from .._shared import causal_lm, qwen
from .._shared.spec import flat, phase_named, phases_beside
from .._shared.stages import decoding, layers
from . import pixels, steps

PHASES: Final = phases_beside(__file__)
WINDOW: Final = PHASES["prefill"].timed_rows  # tokens of one sample
GRIDS: Final = {"tiny": (16, 24), "full": (32, 40)}  # patches of the image: 96 tokens, 320 tokens
TINY: Final = {
    "text_config": {
        "vocab_size": 512,
        "hidden_size": 64,
        "intermediate_size": 160,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 1024,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 5_000_000.0,
            "mrope_interleaved": True,
            "mrope_section": [6, 5, 5],
        },
    },
    "vision_config": {
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 160,
        "num_heads": 4,
        "out_hidden_size": 64,
        "patch_size": 4,
        "num_position_embeddings": 64,  # fewer than the image has patches, so that they are interpolated
        "deepstack_visual_indexes": [0],
    },
    "vision_start_token_id": 508,
    "vision_end_token_id": 509,
    "image_token_id": 510,
    "video_token_id": 511,
}
FULL: Final = {  # as published for Qwen3-VL-8B
    "text_config": {
        "vocab_size": 151936,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 262144,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 5_000_000.0,
            "mrope_interleaved": True,
            "mrope_section": [24, 20, 20],
        },
    },
    "vision_config": {
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_heads": 16,
        "out_hidden_size": 4096,
        "patch_size": 16,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [8, 16, 24],
    },
    "vision_start_token_id": 151652,
    "vision_end_token_id": 151653,
    "image_token_id": 151655,
    "video_token_id": 151656,
}
FAMILY: Final = qwen.Family(
    host="qwen3_vl",
    model="Qwen3VLForConditionalGeneration",
    config="Qwen3VLConfig",
    settings={"tiny": TINY, "full": FULL},
    recipes={"tiny": qwen.IN_PLACE, "full": qwen.IN_PLACE},  # the kernel that reads patches has five axes
    # Smaller models of the family tie the two.
    ties={"lm_head.weight": "model.language_model.embed_tokens.weight"},
)
VISION: Final = (
    "model_type",
    "depth",
    "hidden_size",
    "intermediate_size",
    "num_heads",
    "hidden_act",
    "in_channels",
    "patch_size",
    "spatial_merge_size",
    "temporal_patch_size",
    "out_hidden_size",
    "num_position_embeddings",
    "deepstack_visual_indexes",
)


def build(request: BuildRequest) -> nn.Module:
    """Build the host in evaluation mode: tiny in float32, full in bfloat16.

    Raises:
        MissingExtra: a package of the ``hosts`` extra is absent.
        CheckpointError: the checkpoint cannot be read or is not one of this class.
    """
    return qwen.build(FAMILY, request)


def checkpoint(request: BuildRequest) -> Checkpoint:
    """Return where the weights come from."""
    return qwen.checkpoint(FAMILY, request)


def samples(request: BuildRequest) -> Iterator[Sample]:
    """Yield windows of random ids around an image of random pixels."""
    layout = pixels.layout_of(qwen.configured(FAMILY, request), WINDOW, GRIDS[request.size])
    yield from pixels.image_windows(layout, request.seed, request.device)


def prepare(model: nn.Module, samples: list[Sample], phase: str) -> steps.State:
    """Prefill a prefix that holds the image for a decode step, or lay out a prefill."""
    return steps.prepare(model, samples, phase_named(PHASES, phase))


def fresh(model: nn.Module, state: steps.State, seed: int) -> steps.State:
    """Return the state with other ids and, in a prefill, another image."""
    return steps.fresh(model, state, seed)


def run(model: nn.Module, state: steps.State) -> Tensor:
    """Run one decode step (logits ``[rows, V]``) or one prefill (logits ``[P, V]``)."""
    return steps.run(model, state)


def score(model: nn.Module, samples: list[Sample], phase: str) -> list[Tensor]:
    """Return float32 logits ``[P, V]`` per sample."""
    return steps.score(model, samples, phase_named(PHASES, phase))


def shorter(sample: Sample, phase: str) -> Sample:
    """Return the beginning of a sample, with fewer scored positions."""
    return steps.shorter(sample, phase_named(PHASES, phase))


def projection(model: nn.Module) -> dict[str, str | int | float | bool | None]:
    """Return the settings that decide what the seats compute: those of the decoder, and of vision by that name."""
    config: Any = model.config
    vision = {f"vision.{name}": getattr(config.vision_config, name) for name in VISION}
    return causal_lm.projection(config.text_config) | flat(vision)


def compile(model: nn.Module, phase: str) -> None:  # noqa: A001 (a name of the host protocol)
    """Compile every decoder layer in place and, for a prefill, every vision block."""
    asked = phase_named(PHASES, phase)
    causal_lm.compile_layers(model.get_submodule("model.language_model.layers"))
    if asked.name not in causal_lm.STEPPED:
        causal_lm.compile_layers(model.get_submodule("model.visual.blocks"))


def stages(model: nn.Module, samples: list[Sample]) -> DecodeStages:
    """Tell what prefill and decode run: every layer, and the tower once per request."""
    modules = {"modality_encode": ("model.visual",), "decode": layers(model, "model.language_model.layers")}
    return decoding(model, samples, PHASES, modules, prepare=steps.prepare, run=steps.run, modality=("pixel_values",))
