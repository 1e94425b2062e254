"""Weights of a robot policy: seeded random ones that matter to its actions, or a checkpoint of its library."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import torch
from torch import nn

from pytest_frt.sdk import BuildRequest, Checkpoint, CheckpointError

from . import lerobot, weights
from .library import quiet, require

RECIPE: Final = "fan_in_gain_v1"
GAIN: Final = 2.5  # of what decides which rows are read: at 1 a policy hardly follows its observation


@torch.no_grad()
def fill(
    model: nn.Module, seed: int, sharpened: Callable[[str], bool], stacked: Callable[[str], bool] = lambda _name: False
) -> None:
    """Fill every parameter so that each region of a policy matters to its actions.

    Tensors of several axes get standard deviation ``fan_in ** -0.5``, times `GAIN` where they are sharpened; the fan-in
    is all but the first axis, or of a stack ``[parts, in, out]`` its second. Vectors, also stacked ones, get noise of
    ``weights.SPREAD`` about their start: 0 for a bias, what its class gave it for a weight.

    Args:
        model: As its class constructs it.
        seed: Seed of the recipe.
        sharpened: Says of the name of a parameter whether it gets the gain.
        stacked: Says of the name of a parameter whether its first axis counts parts of a kind.
    """
    for name, parameter in model.named_parameters():
        noise = weights.noise_of(RECIPE, seed, name, parameter)
        own = parameter[0] if stacked(name) else parameter
        if own.ndim == 1:
            if name.endswith("bias") or stacked(name):
                parameter.zero_()  # a class may draw its start
            parameter.add_(weights.SPREAD * noise)
        else:
            gain, fan_in = GAIN if sharpened(name) else 1.0, own.shape[0] if stacked(name) else own[0].numel()
            parameter.copy_(noise.mul_(gain * fan_in**-0.5))


def checkpoint(
    folder: Path | None, request: BuildRequest, *, current: Callable[[str], str], ties: Mapping[str, str]
) -> Checkpoint:
    """Return where the weights of `build` come from.

    Args:
        folder: Checkpoint directory, or None for random weights.
        request: What is built.
        current: Name of a tensor in a file of any release to its name in the policy.
        ties: Tensor of the policy to the one it is filled from where the files hold only the latter.

    Raises:
        CheckpointError: a file of the checkpoint is missing, truncated or no safetensors file.
    """
    if folder is None:
        return weights.synthetic(request.seed, RECIPE, weights.made_on(request))
    return weights.stored(folder, current=current, ties=ties)


def check(folder: Path, kind: str) -> None:
    """Check that a directory is a checkpoint of a policy, before its library is asked to load it.

    Args:
        folder: As ``save_pretrained`` of the policy writes it.
        kind: What its config.json calls the policy.

    Raises:
        CheckpointError: a file is missing, unreadable or truncated, or it is another policy.
    """
    weights.check_files(folder)
    file = folder / "config.json"
    named = weights.read_json(file).get("type")
    if named != kind:
        raise CheckpointError(
            f"{file} describes the policy {named!r}; this host loads {kind!r}",
            hint="give a checkpoint of that policy, or choose the host that fits it",
        )


def build(
    policy_class: Any,  # noqa: ANN401 (an unstubbed library)
    folder: Path | None,
    request: BuildRequest,
    config: Any,  # noqa: ANN401
    *,
    sharpened: Callable[[str], bool],
    stacked: Callable[[str], bool] = lambda _name: False,
) -> nn.Module:
    """Build a policy in evaluation mode, on random weights or from a checkpoint through its own ``from_pretrained``.

    The library answers some faults of a checkpoint with a printed line and a policy on random weights. Nothing here
    hides that: the tensors are compared with the file by whoever asked for the policy.

    Args:
        policy_class: A policy class.
        folder: Checkpoint directory, of which `check` thinks well, or None for random weights.
        request: What is built.
        config: Its configuration, with the device it is made on.
        sharpened: As `fill` takes it.
        stacked: As `fill` takes it.

    Raises:
        CheckpointError: the library found that a tensor does not fit.
    """
    model: Any
    with torch.device(weights.made_on(request)), hushed():
        if folder is None:
            model = policy_class(config)
            fill(model, request.seed, sharpened, stacked)
        else:
            model = _loaded(policy_class, folder, config)
    model.config.device = request.device
    return cast("nn.Module", model.eval().to(request.device))


def _loaded(policy_class: Any, folder: Path, config: Any) -> Any:  # noqa: ANN401
    try:
        return policy_class.from_pretrained(str(folder), config=config, local_files_only=True)
    except RuntimeError as fault:
        raise CheckpointError(
            f"{folder} does not fit {policy_class.__name__}: {fault}",
            hint="give a checkpoint of these dimensions, or choose the size that has them",
        ) from fault


def read_config(folder: Path, kind: str, changes: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return the configuration of a checkpoint with some values replaced.

    Args:
        folder: As ``save_pretrained`` of the policy writes it.
        kind: What its config.json calls the policy.
        changes: Attribute to value, e.g. the device.

    Raises:
        CheckpointError: `check` finds a fault, or it has settings that this release of the library does not know.
    """
    check(folder, kind)
    try:
        with hushed():
            config_class = lerobot.policy_part("pretrained").PreTrainedConfig  # the file names the policy
            config = config_class.from_pretrained(str(folder), local_files_only=True)
    except require("draccus.utils").ParsingError as fault:
        raise CheckpointError(
            f"{folder / 'config.json'} cannot be read by lerobot: {fault}",
            hint="give a checkpoint that this release of lerobot wrote",
        ) from fault
    for name, value in changes.items():
        setattr(config, name, value)
    return config


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """Silence what a policy library prints, logs and draws inside the block."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with quiet(), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)
