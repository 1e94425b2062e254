"""Building a host of the Qwen family: its sizes, its seeded random weights, or a local checkpoint of its class."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from pytest_frt.sdk import BuildRequest, Checkpoint, FrtError

from . import weights
from .library import quiet, require

DTYPES: Final = {"tiny": torch.float32, "full": torch.bfloat16}
"""Parameters of each size: published weights of the family are bfloat16."""
IN_PLACE: Final = "fan_in_v2"


@dataclass(frozen=True, slots=True)
class Family:
    """One host of the family.

    Attributes:
        host: Name of the host.
        model: Class of transformers.
        config: Its configuration class.
        settings: Size to the arguments of the configuration.
        recipes: Size to the recipe of its random weights, a key of `FILLS`.
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
    if (folder := folder_of(family, request)) is not None:
        return _loaded(family, folder, request)
    model = constructed(family, request.size, request.device)
    FILLS[family.recipes[request.size]](model, request.seed)
    return model.eval().to(request.device)


def checkpoint(family: Family, request: BuildRequest) -> Checkpoint:
    """Return where the weights of `build` come from.

    Raises:
        CheckpointError: a file of the checkpoint is missing or truncated.
        FrtError: the host has no such size.
    """
    if (folder := folder_of(family, request)) is not None:
        return weights.stored(folder, ties=family.ties)
    if family.recipes[request.size] == weights.RECIPE:
        return weights.synthetic(request.seed)
    kind = torch.device(request.device).type
    return Checkpoint("synthetic", recipe=f"synthetic(seed={request.seed}, recipe={IN_PLACE}, drawn_on={kind})")


def configured(family: Family, request: BuildRequest) -> Any:  # noqa: ANN401 (a class of an unstubbed library)
    """Return the configuration that `build` builds, without its weights.

    Raises:
        CheckpointError: the config.json of the checkpoint is unreadable or describes another class.
        FrtError: the host has no such size.
    """
    config_class = getattr(require("transformers"), family.config)
    if (folder := folder_of(family, request)) is not None:
        return config_class.from_dict(weights.config_of(folder, family.model_class))
    return config_class(**copy.deepcopy(dict(family.settings[request.size])))


def constructed(family: Family, size: str, device: str) -> nn.Module:
    """Return the model of a size as its class constructs it, before any weight is drawn.

    A tiny model is made on the processor, so that its weights are the same on every device.

    Args:
        family: The host.
        size: A key of its settings.
        device: torch device string; ``meta`` gives the shapes alone.
    """
    config = getattr(require("transformers"), family.config)(**copy.deepcopy(dict(family.settings[size])))
    with quiet(), torch.device("cpu" if size == "tiny" else device):
        # Converting the dtype afterwards would round the rotary frequencies, which stay float32 in every dtype.
        model: nn.Module = family.model_class._from_config(config, dtype=DTYPES[size])  # noqa: SLF001
    return model


def folder_of(family: Family, request: BuildRequest) -> Path | None:
    """Return the checkpoint directory to load, or None for random weights.

    Raises:
        FrtError: the host has no such size.
    """
    if request.size not in family.settings:
        sizes = " or ".join(family.settings)
        raise FrtError(
            f"{family.host} has no size {request.size!r}", hint=f"use {sizes}, with a checkpoint for trained weights"
        )
    return None if request.checkpoint is None else Path(request.checkpoint)


@torch.no_grad()
def fill_in_place(model: nn.Module, seed: int) -> None:
    """Fill every parameter so that each region of the model matters to its output, where it lies.

    As ``weights.fill_fan_in``, to the bit where both apply, with two differences. Numbers are drawn on the device of
    the parameter, which fills billions of them in a second of an accelerator. The fan-in of a kernel of more than two
    axes is all of it but the first axis.

    Args:
        model: As its class constructs it.
        seed: Seed of the recipe.
    """
    for name, parameter in model.named_parameters():
        word = hashlib.sha256(f"{weights.RECIPE}|{seed}|{name}".encode()).digest()[:8]
        generator = torch.Generator(parameter.device).manual_seed(int.from_bytes(word, "little") >> 1)
        noise = torch.randn(parameter.shape, generator=generator, device=parameter.device)
        if parameter.ndim == 1:
            parameter.add_(weights.SPREAD * noise)
        else:
            parameter.copy_(noise.mul_(parameter[0].numel() ** -0.5))


FILLS: Final[Mapping[str, Callable[[nn.Module, int], None]]] = {
    weights.RECIPE: weights.fill_fan_in,
    IN_PLACE: fill_in_place,
}
"""Recipe to what carries it out."""


def _loaded(family: Family, folder: Path, request: BuildRequest) -> nn.Module:
    model = weights.load_pretrained(family.model_class, folder, "cpu")
    dtype = DTYPES[request.size]
    for parameter in model.parameters():
        # Parameters alone: the rotary frequencies among the buffers stay float32 in every dtype. Copies, since a
        # mapped file may hold values off the cache lines, where a matrix product rounds in another order.
        parameter.data = parameter.data.to(dtype, copy=True)
    return model.to(request.device)
