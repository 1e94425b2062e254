"""The dimensions of the policy: those its library states, and smaller ones for a policy that builds at once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from .._shared.library import replaced

HEADS: Final = 8  # the library writes this number into its training path
STEPS: Final = 50
"""Steps of a chunk of actions, as published, at every size: the rows of the expert."""
PIXELS: Final = 224
"""Height and width of an image at every size: with patches of 14 pixels, 256 of them."""


@dataclass(frozen=True, slots=True)
class Size:
    """Settings of one size.

    Attributes:
        cameras: Their names.
        settings: Arguments of the policy's configuration.
    """

    cameras: tuple[str, ...]
    settings: Mapping[str, Any]


SIZES: Final[Mapping[str, Size]] = {
    "tiny": Size(
        ("base_0_rgb",),
        {
            "dtype": "float32",
            "num_inference_steps": 3,
            "max_action_dim": 8,
            "max_state_dim": 8,
            "tokenizer_max_length": 32,
        },
    ),
    # As published: three views, ten steps of denoising, matrices in bfloat16 beside norms and vision in float32.
    "full": Size(
        ("base_0_rgb", "left_wrist_0_rgb", "right_wrist_0_rgb"),
        {
            "dtype": "bfloat16",
            "num_inference_steps": 10,
            "max_action_dim": 32,
            "max_state_dim": 32,
            "tokenizer_max_length": 200,
        },
    ),
}
VOCABULARIES: Final = {"tiny": 512, "full": 257152}
PREFIX: Final = (64, 2, 160)  # width, depth, width of the FFN
EXPERT: Final = (48, 2, 96)
HEAD: Final = 16
VISION: Final = {
    "hidden_size": 32,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "projection_dim": PREFIX[0],
}


def dimensions(size: str, module: ModuleType) -> AbstractContextManager[None]:
    """Let policies that are constructed inside the block have the dimensions of a size.

    The library states dimensions by the name of a variant and in the code that constructs the model, so a tiny policy
    needs other answers from the three names below, which are given back. The classes stay the library's own.

    Args:
        size: A key of `SIZES`; any but tiny changes nothing.
        module: ``modeling_pi05`` of the library.
    """
    if size != "tiny":
        return nullcontext()
    prefix, expert = module.PaliGemmaForConditionalGenerationWithPiGemma, module.PiGemmaForCausalLM

    def small_variant(name: str) -> Any:  # noqa: ANN401 (an unstubbed library)
        width, depth, inner = EXPERT if name == "gemma_300m" else PREFIX
        return module.GemmaConfig(width, depth, inner, HEADS, 1, HEAD)

    def small_prefix(config: Any) -> Any:  # noqa: ANN401
        config.text_config.vocab_size = VOCABULARIES["tiny"]
        for name, value in VISION.items():
            setattr(config.vision_config, name, value)
        return prefix(config=config)

    def small_expert(config: Any) -> Any:  # noqa: ANN401
        config.vocab_size = VOCABULARIES["tiny"]
        return expert(config=config)

    return replaced(
        module,
        get_gemma_config=small_variant,
        PaliGemmaForConditionalGenerationWithPiGemma=small_prefix,
        PiGemmaForCausalLM=small_expert,
    )
