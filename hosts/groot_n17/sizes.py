"""The dimensions of the policy, and what its library asks the Hub for when it constructs one."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import torch

from .._shared.library import replaced, require

STEPS: Final = 40
"""Steps of a chunk of actions, as published, at every size."""
GRID: Final = 16
"""Patches per side of an image, as published, at every size."""
BACKBONE: Final = "Qwen/Qwen3-VL-tiny"


@dataclass(frozen=True, slots=True)
class Size:
    """Settings of one size.

    Attributes:
        images: Of an observation.
        tokens: Length of an observation, images included.
        dtype: Of every parameter.
        settings: Arguments of the configuration of the model; empty where the library's own are as published.
        backbone: Arguments of the configuration of its vision and language model; as above.
    """

    images: int
    tokens: int
    dtype: torch.dtype
    settings: Mapping[str, Any]
    backbone: Mapping[str, Any]


_BLOCKS: Final = {"positional_embeddings": None, "num_attention_heads": 4, "dropout": 0.2, "final_dropout": True}
SIZES: Final[Mapping[str, Size]] = {
    "tiny": Size(
        images=1,
        tokens=96,
        dtype=torch.float32,
        settings={
            "model_name": BACKBONE,
            "model_dtype": "float32",
            "dtype": "float32",
            "select_layer": 2,
            "backbone_embedding_dim": 64,
            "hidden_size": 48,
            "input_embedding_dim": 48,  # as published, not as wide as the backbone
            "max_state_dim": 8,
            "max_action_dim": 8,
            "max_seq_len": 64,
            "max_num_embodiments": 2,
            "diffusion_model_cfg": {
                **_BLOCKS,
                "attention_head_dim": 12,
                "num_layers": 4,
                "norm_type": "ada_norm",
                "output_dim": 48,
                "interleave_self_attention": True,
            },
            "vl_self_attention_cfg": {**_BLOCKS, "attention_head_dim": 16, "num_layers": 1},
        },
        backbone={
            "image_token_id": 500,
            "video_token_id": 501,
            "vision_start_token_id": 502,
            "vision_end_token_id": 503,
            "tie_word_embeddings": True,
            "text_config": {
                "vocab_size": 512,
                "hidden_size": 64,
                "intermediate_size": 160,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "head_dim": 16,
                "max_position_embeddings": 512,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 10_000.0,
                    "mrope_section": [4, 2, 2],
                    "mrope_interleaved": True,
                },
            },
            "vision_config": {
                "depth": 2,
                "hidden_size": 32,
                "intermediate_size": 80,
                "num_heads": 2,
                "patch_size": 4,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
                "out_hidden_size": 64,
                "num_position_embeddings": 256,
                "deepstack_visual_indexes": [0, 1],
            },
        },
    ),
    "full": Size(images=2, tokens=192, dtype=torch.bfloat16, settings={}, backbone={}),
}


def backbone_of(size: str, model: ModuleType) -> Any:  # noqa: ANN401 (an unstubbed library)
    """Return the configuration of the vision and language model of a size.

    Args:
        size: A key of `SIZES`.
        model: ``groot_n1_7`` of the library, which states the published one.
    """
    if own := SIZES[size].backbone:
        return require("transformers").Qwen3VLConfig(**copy.deepcopy(dict(own)))
    return model._cosmos_reason2_qwen3_vl_config()  # noqa: SLF001 (where the library states it)


def settings_of(size: str, model: ModuleType) -> Any:  # noqa: ANN401
    """Return the configuration of the model of a size.

    Args:
        size: A key of `SIZES`.
        model: ``groot_n1_7`` of the library.
    """
    return model.GR00TN17Config(**copy.deepcopy(dict(SIZES[size].settings)))


@contextmanager
def offline(size: str, modeling: ModuleType, model: ModuleType) -> Iterator[None]:
    """Let policies that are constructed inside the block have what they would load from the Hub.

    That is a model on its own start, in place of the weights of the base model, and the configuration of its backbone.
    The names are given back, and the classes stay the library's own.

    Args:
        size: A key of `SIZES`.
        modeling: ``modeling_groot`` of the library.
        model: ``groot_n1_7`` of the library.
    """
    kept, auto = modeling.GR00TN17, model.AutoConfig

    def construct(**_where: object) -> Any:  # noqa: ANN401 (an unstubbed library)
        return kept(settings_of(size, model), load_backbone_weights=False)

    def configuration(_name: str, **_where: object) -> Any:  # noqa: ANN401
        return backbone_of(size, model)

    base = replaced(modeling, GR00TN17=SimpleNamespace(from_pretrained=construct))
    answers = SimpleNamespace(from_pretrained=configuration, register=auto.register)
    with base, replaced(model, AutoConfig=answers):
        yield
