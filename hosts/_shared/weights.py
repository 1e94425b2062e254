"""Weights of a host: seeded random ones, or a checkpoint read through the library's own ``from_pretrained``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from pytest_frt.sdk import BuildRequest, Checkpoint, CheckpointError, FrtError

from .library import quiet

RECIPE: Final = "fan_in_v1"
SPREAD: Final = 0.2  # of norm weights and biases about the library's own start: all distinct, none the identity
INDEX: Final = "model.safetensors.index.json"
SINGLE: Final = "model.safetensors"


def synthetic(seed: int, recipe: str = RECIPE, device: str | None = None) -> Checkpoint:
    """Return the provenance of a host on random weights.

    Args:
        seed: Seed of the recipe.
        recipe: Its name; that of `fill_fan_in` unless another is given.
        device: torch device string, where the recipe draws on more than the processor.
    """
    where = "" if device is None else f", drawn_on={torch.device(device).type}"
    return Checkpoint("synthetic", recipe=f"synthetic(seed={seed}, recipe={recipe}{where})")


def made_on(request: BuildRequest) -> str:
    """Return where weights are made: tiny ones on the processor, so that they are the same on every device."""
    return "cpu" if request.size == "tiny" else request.device


def folder_of(host: str, sizes: Collection[str], request: BuildRequest) -> Path | None:
    """Return the checkpoint directory to load, or None for random weights.

    Args:
        host: Its name.
        sizes: Those it has, each of them with random weights or a checkpoint.
        request: What is to be built.

    Raises:
        FrtError: the host has no such size.
    """
    if request.size not in sizes:
        raise FrtError(
            f"{host} has no size {request.size!r}",
            hint=f"use {' or '.join(sizes)}, with a checkpoint for trained weights",
        )
    return None if request.checkpoint is None else Path(request.checkpoint)


def noise_of(recipe: str, seed: int, name: str, parameter: Tensor) -> Tensor:
    """Return normal noise of the shape of a parameter, drawn where it lies, from recipe, seed and name alone."""
    word = hashlib.sha256(f"{recipe}|{seed}|{name}".encode()).digest()[:8]
    generator = torch.Generator(parameter.device).manual_seed(int.from_bytes(word, "little") >> 1)
    return torch.randn(parameter.shape, generator=generator, device=parameter.device)


@torch.no_grad()
def fill_fan_in(model: nn.Module, seed: int) -> None:
    """Fill every parameter so that each region of the model matters to its output.

    Tensors of several axes get standard deviation ``fan_in ** -0.5`` (LeCun initialisation; fan-in is all but the first
    axis, embeddings included). Vectors (norm weights, biases) keep the start the library gave them, 0 or 1, plus noise
    of `SPREAD`. Numbers are drawn where the parameter lies, which fills billions of them in a second of an accelerator.

    Args:
        model: As its class constructs it.
        seed: Seed of the recipe.
    """
    for name, parameter in model.named_parameters():
        noise = noise_of(RECIPE, seed, name, parameter)
        if parameter.ndim == 1:
            parameter.add_(SPREAD * noise)
        else:
            parameter.copy_(noise.mul_(parameter[0].numel() ** -0.5))


def stored(
    folder: Path, *, ties: Mapping[str, str] | None = None, current: Callable[[str], str] = lambda name: name
) -> Checkpoint:
    """Return the provenance of a checkpoint directory.

    Args:
        folder: Directory with a config.json and safetensors files.
        ties: Host tensor to the tensor it shares storage with; used where the files hold only the latter.
        current: Name of a tensor in a file of any release to its name in the host.

    Raises:
        CheckpointError: a file is missing, truncated or no safetensors file.
    """
    files = checkpoint_files(folder)
    held = {current(name): name for file in files for name in _tensor_names(file)}
    renames = {host: name for host, name in held.items() if host != name}
    renames |= {host: held[other] for host, other in (ties or {}).items() if host not in held and other in held}
    return Checkpoint("file", files=tuple(str(file) for file in files), renames=renames)


def checkpoint_files(folder: Path) -> tuple[Path, ...]:
    """Return the safetensors files of a checkpoint directory, in name order.

    Raises:
        CheckpointError: the directory holds none.
    """
    if (folder / SINGLE).is_file():
        return (folder / SINGLE,)
    if (folder / INDEX).is_file():
        shards = read_json(folder / INDEX).get("weight_map")
        if isinstance(shards, dict) and shards:
            return tuple(folder / name for name in sorted(set(map(str, shards.values()))))
    raise CheckpointError(
        f"{folder} holds no {SINGLE} and no usable {INDEX}",
        hint="give a directory written by save_pretrained; pickled checkpoints are not read",
    )


def tokenizer_file(folder: Path) -> Path:
    """Return the tokenizer.json of a checkpoint directory.

    Raises:
        CheckpointError: it holds none, so that text cannot be turned into its ids.
    """
    if not (folder / "tokenizer.json").is_file():
        raise CheckpointError(f"{folder} holds no tokenizer.json", hint="save the tokenizer of the model beside it")
    return folder / "tokenizer.json"


def config_of(folder: Path, model_class: Any) -> dict[str, Any]:  # noqa: ANN401 (a class of an unstubbed library)
    """Return the config.json of a checkpoint after checking that it describes ``model_class``.

    Raises:
        CheckpointError: it is unreadable, names another class, or declares quantised weights.
    """
    config = read_json(folder / "config.json")
    wanted_type, wanted_class = model_class.config_class.model_type, model_class.__name__
    named = config.get("architectures") or [wanted_class]
    if config.get("model_type") != wanted_type or wanted_class not in named:
        raise CheckpointError(
            f"{folder / 'config.json'} describes {', '.join(named)} (model_type {config.get('model_type')!r}); "
            f"this host loads {wanted_class} (model_type {wanted_type!r})",
            hint="give a checkpoint of that class, or choose the host that fits it",
        )
    if config.get("quantization_config"):
        raise CheckpointError(
            f"{folder / 'config.json'} declares quantised weights",
            hint="give the checkpoint in a floating-point format",
        )
    return config


def load_pretrained(model_class: Any, folder: Path, device: str) -> nn.Module:  # noqa: ANN401
    """Load a local checkpoint in float32, in evaluation mode, and refuse anything less than all of it.

    Args:
        model_class: A transformers model class.
        folder: Checkpoint directory.
        device: torch device string.

    Raises:
        CheckpointError: a file is unreadable or truncated, describes another class, lacks a tensor, or has one of
            another shape or name than the class expects.
    """
    config_of(folder, model_class)
    check_files(folder)
    with quiet():
        model, found = model_class.from_pretrained(
            folder,
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    for key in ("missing_keys", "mismatched_keys", "unexpected_keys", "error_msgs"):
        if faults := sorted(map(str, found.get(key) or ())):
            raise CheckpointError(
                f"{folder} does not fit {model_class.__name__}: {len(faults)} {key.replace('_', ' ')}, "
                f"e.g. {', '.join(faults[:3])}",
                hint="give a complete checkpoint of that class; a partly loaded host is never certified",
            )
    return cast("nn.Module", model.eval().to(device))


def check_files(folder: Path) -> None:
    """Check that every safetensors file of a checkpoint directory is there and whole.

    Raises:
        CheckpointError: one is missing, truncated or no safetensors file.
    """
    for file in checkpoint_files(folder):
        _tensor_names(file)


def read_json(file: Path) -> dict[str, Any]:
    """Return the object that a file of a checkpoint directory holds.

    Raises:
        CheckpointError: the file cannot be read, or holds anything else.
    """
    try:
        parsed = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise CheckpointError(
            f"{file} cannot be read: {fault}", hint="give a directory written by save_pretrained"
        ) from fault
    if not isinstance(parsed, dict):
        raise CheckpointError(f"{file} is no JSON object", hint="give a directory written by save_pretrained")
    return parsed


def _tensor_names(file: Path) -> Iterator[str]:
    # Opening checks the header against the length of the file, so a truncated one is found before it is used.
    try:
        with safe_open(file, framework="pt") as tensors:
            return iter(tuple(tensors.keys()))
    except (OSError, SafetensorError) as fault:
        raise CheckpointError(
            f"checkpoint {file} cannot be read: {fault}", hint="give a complete safetensors file"
        ) from fault
