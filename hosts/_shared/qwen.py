"""Building a host of the Qwen family: its sizes, its seeded random weights, or a local checkpoint of its class."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from pytest_frt.sdk import BuildRequest, Checkpoint

from . import weights
from .library import quiet, require

DTYPES: Final = {"tiny": torch.float32, "full": torch.bfloat16}
"""Parameters of each size: published weights of the family are bfloat16."""
IN_PLACE: Final = "fan_in_v2"
"""`weights.RECIPE`, to the bit where both apply, which is stated for tensors of at most two axes on the processor."""


@dataclass(frozen=True, slots=True)
class Family:
    """One host of the family.

    Attributes:
        host: Name of the host.
        model: Class of transformers.
        config: Its configuration class.
        settings: Size to the arguments of the configuration.
        recipes: Size to the recipe of its random weights, `weights.RECIPE` or `IN_PLACE`.
        ties: Host tensor to the tensor it shares storage with where a checkpoint holds only the latter.
    """

    host: str
    model: str
    config: str
    settings: Mapping[str, Mapping[str, Any]]
    recipes: Mapping[str, str]
    ties: Mapping[str, str]

    @property
    def model_class(self) -> Any:  # noqa: ANN401 (a class of an unstubbed library)
        """Return the class of the model.

        Raises:
            MissingExtra: transformers is not installed.
        """
        return getattr(require("transformers"), self.model)


def build(family: Family, request: BuildRequest) -> nn.Module:
    """Build a host in evaluation mode: tiny in float32, full in bfloat16.

    Raises:
        MissingExtra: a package of the ``hosts`` extra is absent.
        CheckpointError: the checkpoint cannot be read or is not one of this class.
        FrtError: the host has no such size.
    """
    if (folder := _folder(family, request)) is not None:
        return _loaded(family, folder, request)
    model = constructed(family, request.size, weights.made_on(request))
    weights.fill_fan_in(model, request.seed)
    return model.eval().to(request.device)


def checkpoint(family: Family, request: BuildRequest) -> Checkpoint:
    """Return where the weights of `build` come from.

    Raises:
        CheckpointError: a file of the checkpoint is missing or truncated.
        FrtError: the host has no such size.
    """
    if (folder := _folder(family, request)) is not None:
        return weights.stored(folder, ties=family.ties)
    recipe = family.recipes[request.size]
    device = None if recipe == weights.RECIPE else weights.made_on(request)
    return weights.synthetic(request.seed, recipe, device)


def configured(family: Family, request: BuildRequest) -> Any:  # noqa: ANN401 (a class of an unstubbed library)
    """Return the configuration that `build` builds, without its weights.

    Raises:
        CheckpointError: the config.json of the checkpoint is unreadable or describes another class.
        FrtError: the host has no such size.
    """
    if (folder := _folder(family, request)) is not None:
        config_class = getattr(require("transformers"), family.config)
        return config_class.from_dict(weights.config_of(folder, family.model_class))
    return _config(family, request.size)


def constructed(family: Family, size: str, device: str) -> nn.Module:
    """Return the model of a size as its class constructs it, before any weight is drawn.

    Args:
        family: The host.
        size: A key of its settings.
        device: torch device string; ``meta`` gives the shapes alone.
    """
    config = _config(family, size)
    with quiet(), torch.device(device):
        # Converting the dtype afterwards would round the rotary frequencies, which stay float32 in every dtype.
        model: nn.Module = family.model_class._from_config(config, dtype=DTYPES[size])  # noqa: SLF001
    return model


def _config(family: Family, size: str) -> Any:  # noqa: ANN401
    return getattr(require("transformers"), family.config)(**copy.deepcopy(dict(family.settings[size])))


def _folder(family: Family, request: BuildRequest) -> Path | None:
    return weights.folder_of(family.host, family.settings, request)


def _loaded(family: Family, folder: Path, request: BuildRequest) -> nn.Module:
    model = weights.load_pretrained(family.model_class, folder, "cpu")
    dtype = DTYPES[request.size]
    for parameter in model.parameters():
        # Parameters alone: the rotary frequencies among the buffers stay float32 in every dtype. Copies, since a
        # mapped file may hold values off the cache lines, where a matrix product rounds in another order.
        parameter.data = parameter.data.to(dtype, copy=True)
    return model.to(request.device)
