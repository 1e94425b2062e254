"""The dimensions of the policy, and what its library asks the Hub for when it constructs one."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from .._shared.library import replaced, require

STEPS: Final = 50
"""Steps of a chunk of actions, as published, at every size: the rows of the expert."""


@dataclass(frozen=True, slots=True)
class Size:
    """Settings of one size.

    Attributes:
        cameras: Their names.
        pixels: Height and width of an image, as the tower reads it.
        settings: Arguments of the policy's configuration.
        backbone: Arguments of the configuration of its vision and language model.
    """

    cameras: tuple[str, ...]
    pixels: int
    settings: Mapping[str, Any]
    backbone: Mapping[str, Any]


SIZES: Final[Mapping[str, Size]] = {
    "tiny": Size(
        ("camera1",),
        128,
        {"num_steps": 3, "max_state_dim": 8, "max_action_dim": 8, "num_vlm_layers": 4, "tokenizer_max_length": 32},
        {
            "vision_config": {
                "hidden_size": 32,
                "intermediate_size": 80,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "patch_size": 8,
                "image_size": 128,
            },
            "text_config": {
                "model_type": "llama",
                "vocab_size": 512,
                "hidden_size": 64,
                "intermediate_size": 160,
                "num_hidden_layers": 6,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "head_dim": 16,
                "max_position_embeddings": 512,
                "rms_norm_eps": 1e-5,
            },
            "scale_factor": 2,
            "image_token_id": 500,
            "pad_token_id": 0,
        },
    ),
    "full": Size(  # as published: the first half of SmolVLM2-500M, three views
        ("camera1", "camera2", "camera3"),
        512,
        {"num_steps": 10, "max_state_dim": 32, "max_action_dim": 32, "num_vlm_layers": 16, "tokenizer_max_length": 48},
        {
            "vision_config": {
                "hidden_size": 768,
                "intermediate_size": 3072,
                "num_hidden_layers": 12,
                "num_attention_heads": 12,
                "patch_size": 16,
                "image_size": 512,
            },
            "text_config": {
                "model_type": "llama",
                "vocab_size": 49280,
                "hidden_size": 960,
                "intermediate_size": 2560,
                "num_hidden_layers": 32,
                "num_attention_heads": 15,
                "num_key_value_heads": 5,
                "head_dim": 64,
                "max_position_embeddings": 8192,
                "rms_norm_eps": 1e-5,
            },
            "scale_factor": 4,
            "image_token_id": 49190,
            "pad_token_id": 2,
        },
    ),
}
MARKERS: Final = {"fake_image_token_id": 49189, "global_image_token_id": 49152}
"""All that a policy reads of its tokenizer; it looks them up only where images are set between markers."""


def offline(size: str, module: ModuleType) -> AbstractContextManager[None]:
    """Let policies that are constructed inside the block have what they would ask the Hub for.

    That is the configuration of the vision and language model, and two ids of its tokenizer. The names are given back,
    and the classes stay the library's own.

    Args:
        size: A key of `SIZES`.
        module: ``smolvlm_with_expert`` of the library.
    """
    config = require("transformers").SmolVLMConfig(**copy.deepcopy(dict(SIZES[size].backbone)))
    processor = SimpleNamespace(tokenizer=SimpleNamespace(**MARKERS))
    return replaced(module, AutoConfig=_gives(config), AutoProcessor=_gives(processor))


def _gives(answer: object) -> SimpleNamespace:
    return SimpleNamespace(from_pretrained=lambda _name: answer)
