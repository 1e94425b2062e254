"""Weights of a robot policy: seeded random ones that matter to its actions, or a checkpoint of its library."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import safe_open
from torch import nn

from pytest_frt.sdk import Checkpoint, CheckpointError

from . import weights
from .library import quiet, require

RECIPE: Final = "fan_in_gain_v1"
GAIN: Final = 2.5  # of what decides which rows are read: at 1 a policy hardly follows its observation


def synthetic(seed: int, device: str) -> Checkpoint:
    """Return the provenance of a policy filled by `fill` on a device."""
    kind = torch.device(device).type
    return Checkpoint("synthetic", recipe=f"synthetic(seed={seed}, recipe={RECIPE}, drawn_on={kind})")


@torch.no_grad()
def fill(
    model: nn.Module, seed: int, sharpened: Callable[[str], bool], stacked: Callable[[str], bool] = lambda _name: False
) -> None:
    """Fill every parameter so that each region of a policy matters to its actions.

    Tensors of several axes get standard deviation ``fan_in ** -0.5``, times `GAIN` where they are sharpened; the fan-in
    is all but the first axis, or of a stack ``[parts, in, out]`` its second. Vectors, also stacked ones, get noise of
    ``weights.SPREAD`` about their start: 0 for a bias, what its class gave it for a weight. Numbers are drawn on the
    device of the parameter, from the seed and its name alone.

    Args:
        model: As its class constructs it.
        seed: Seed of the recipe.
        sharpened: Says of the name of a parameter whether it gets the gain.
        stacked: Says of the name of a parameter whether its first axis counts parts of a kind.
    """
    for name, parameter in model.named_parameters():
        word = hashlib.sha256(f"{RECIPE}|{seed}|{name}".encode()).digest()[:8]
        generator = torch.Generator(parameter.device).manual_seed(int.from_bytes(word, "little") >> 1)
        noise = torch.randn(parameter.shape, generator=generator, device=parameter.device)
        own = parameter[0] if stacked(name) else parameter
        if own.ndim == 1:
            if name.endswith("bias") or stacked(name):
                parameter.zero_()  # a class may draw its start
            parameter.add_(weights.SPREAD * noise)
        else:
            gain, fan_in = GAIN if sharpened(name) else 1.0, own.shape[0] if stacked(name) else own[0].numel()
            parameter.copy_(noise.mul_(gain * fan_in**-0.5))


def stored(folder: Path, *, current: Callable[[str], str], ties: Mapping[str, str]) -> Checkpoint:
    """Return the provenance of a checkpoint directory of a policy.

    Args:
        folder: Directory with a config.json and safetensors files.
        current: Name of a tensor in a file of any release to its name in the policy.
        ties: Tensor of the policy to the one it is filled from where the files hold only the latter.

    Raises:
        CheckpointError: a file is missing, truncated or no safetensors file.
    """
    found = weights.stored(folder)
    held: dict[str, str] = {}
    for file in found.files:
        with safe_open(file, framework="pt") as tensors:
            held |= {current(name): name for name in tensors.keys()}  # noqa: SIM118 (the reader is no mapping)
    renames = {host: name for host, name in held.items() if host != name}
    renames |= {host: held[other] for host, other in ties.items() if host not in held and other in held}
    return Checkpoint("file", files=found.files, renames=renames)


def check(folder: Path, kind: str) -> None:
    """Check that a directory is a checkpoint of a policy, before its library is asked to load it.

    Args:
        folder: As ``save_pretrained`` of the policy writes it.
        kind: What its config.json calls the policy.

    Raises:
        CheckpointError: a file is missing, unreadable or truncated, or it is another policy.
    """
    weights.stored(folder)
    file = folder / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise CheckpointError(
            f"{file} cannot be read: {fault}", hint="give a directory written by save_pretrained"
        ) from fault
    named = config.get("type") if isinstance(config, dict) else None
    if named != kind:
        raise CheckpointError(
            f"{file} describes the policy {named!r}; this host loads {kind!r}",
            hint="give a checkpoint of that policy, or choose the host that fits it",
        )


def load(policy_class: Any, folder: Path, *, config: Any) -> nn.Module:  # noqa: ANN401 (an unstubbed library)
    """Load a local checkpoint through the policy's own ``from_pretrained``, in evaluation mode.

    The library answers some faults with a printed line and a policy on random weights. Nothing here hides that: the
    tensors are compared with the file by whoever asked for the policy.

    Args:
        policy_class: A policy class.
        folder: Checkpoint directory, of which `check` thinks well.
        config: Its configuration, with the device to load to.

    Raises:
        CheckpointError: the library found that a tensor does not fit.
    """
    try:
        with hushed():
            model: nn.Module = policy_class.from_pretrained(str(folder), config=config, local_files_only=True)
    except RuntimeError as fault:
        raise CheckpointError(
            f"{folder} does not fit {policy_class.__name__}: {fault}",
            hint="give a checkpoint of these dimensions, or choose the size that has them",
        ) from fault
    return model.eval()


def read_config(config_class: Any, folder: Path, changes: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return the configuration of a checkpoint with some values replaced.

    Args:
        config_class: ``PreTrainedConfig`` of the library: the file names the policy.
        folder: Checkpoint directory, of which `check` thinks well.
        changes: Attribute to value, e.g. the device.

    Raises:
        CheckpointError: it has settings that this release of the library does not know.
    """
    try:
        with hushed():
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
