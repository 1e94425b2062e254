"""The policies of lerobot: imported late, beside the releases of everything else that this project runs on."""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from pytest_frt.sdk import MissingExtra

from .import_hooks import importing
from .library import require

RELEASE: Final = "0.6.1"
INSTALL: Final = f"pip install 'pytest-frt[vla]' && pip install --no-deps --ignore-requires-python lerobot=={RELEASE}"
"""In two steps, since lerobot asks for releases of Python, torch and transformers that it runs without."""
INSTALL_GROOT: Final = (
    "pip install 'pytest-frt[vla,groot]' && "
    f"pip install --no-deps --ignore-requires-python lerobot=={RELEASE} diffusers==0.39.0"
)
"""As above; diffusers asks for an older huggingface_hub than it runs beside."""
POLICIES: Final = "lerobot.policies"
NEEDED: Final = ("draccus", "einops", "gymnasium")  # imported by every policy


@functools.cache
def policy_part(name: str, *needed: str, install: str = INSTALL) -> ModuleType:
    """Import one module of a policy, and none of the other policies.

    Args:
        name: Below ``lerobot.policies``, e.g. ``pi05.modeling_pi05``.
        needed: Packages this policy needs beyond those of all.
        install: The command that installs what is needed.

    Raises:
        MissingExtra: lerobot or a package it needs is not installed, or lerobot is another release.
    """
    _require(needed, install)
    # Asked before a placeholder exists, so that the answer, which is kept, is the true one.
    require("transformers.utils").is_torchvision_available()
    family = [f"{POLICIES}.{name.partition('.')[0]}"] if "." in name else []
    with importing("lerobot", opened=(POLICIES, *family), unused=("torchvision",)):
        return import_module(f"{POLICIES}.{name}")


def _require(needed: tuple[str, ...], install: str) -> None:
    for package in ("lerobot", *NEEDED, *needed):
        require(package, install=install)
    if (release := importlib.metadata.version("lerobot")) != RELEASE:
        raise MissingExtra(f"this host needs lerobot {RELEASE}, and {release} is installed", hint=install)


def features(cameras: Mapping[str, tuple[int, ...]], *, state: int, action: int) -> dict[str, dict[str, Any]]:
    """Return the arguments of a policy configuration that name its inputs and outputs.

    Args:
        cameras: Name of a camera to the shape ``[channels, height, width]`` of its images.
        state: Numbers of a robot state.
        action: Numbers of an action.
    """
    types = require("lerobot.configs.types", install=INSTALL)
    feature, kinds = types.PolicyFeature, types.FeatureType
    views = {camera_key(name): feature(type=kinds.VISUAL, shape=shape) for name, shape in cameras.items()}
    return {
        "input_features": views | {"observation.state": feature(type=kinds.STATE, shape=(state,))},
        "output_features": {"action": feature(type=kinds.ACTION, shape=(action,))},
    }


def camera_key(name: str) -> str:
    """Return where a batch holds the images of a camera."""
    return f"observation.images.{name}"


def accept_cache_positions(module: ModuleType) -> None:
    """Let a module call ``create_causal_mask`` as transformers had it before 5.12.

    The positions of what is cached were dropped from its arguments, as they follow from the cache, which has another
    name now.

    Args:
        module: Holds the function under that name; changed in memory, once.
    """
    make = module.create_causal_mask
    taken = inspect.signature(make).parameters
    if "cache_position" in taken:
        return
    cache = "cache" if "cache" in taken else "past_key_values"

    def create_causal_mask(  # no functools.wraps: its own signature says that it takes the positions
        *args: Any,  # noqa: ANN401 (an unstubbed library)
        cache_position: object = None,  # noqa: ARG001
        past_key_values: object = None,
        **settings: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        return make(*args, **{cache: past_key_values}, **settings)

    vars(module)["create_causal_mask"] = create_causal_mask


def crop_to_length(module: ModuleType) -> None:
    """Let a module cut its caches to a length, as transformers had it before 5.24.

    A cache now takes how many rows to drop. Layers of one cache may differ in how far they grew, so no one number
    would do: each layer is cut by itself.

    Args:
        module: Holds ``DynamicCache`` under that name; changed in memory, once.
    """
    kept = module.DynamicCache
    if "crop" in vars(kept):
        return

    def crop(self: Any, length: int) -> None:  # noqa: ANN401 (an unstubbed library)
        for layer in self.layers:
            if layer.is_initialized and layer.keys.shape[-2] > length:
                layer.keys, layer.values = layer.keys[..., :length, :], layer.values[..., :length, :]

    vars(module)["DynamicCache"] = type(kept.__name__, (kept,), {"crop": crop, "__module__": kept.__module__})


def rename_stored(policy_class: Any, current: Callable[[str], str]) -> None:  # noqa: ANN401 (an unstubbed library)
    """Let a policy load files whose tensors have the names of an earlier release of transformers.

    Args:
        policy_class: A policy that renames what it reads by ``_fix_pytorch_state_dict_keys``; changed in memory, once.
        current: Name in a file of any release to the name in the policy.
    """
    fix = policy_class._fix_pytorch_state_dict_keys  # noqa: SLF001 (its one place for this)
    if getattr(fix, "renames_stored", False):
        return

    @functools.wraps(fix)
    def fixed(self: Any, tensors: Any, config: Any) -> dict[str, Any]:  # noqa: ANN401
        return {current(name): tensor for name, tensor in fix(self, tensors, config).items()}

    fixed.renames_stored = True  # type: ignore[attr-defined]
    policy_class._fix_pytorch_state_dict_keys = fixed  # noqa: SLF001
