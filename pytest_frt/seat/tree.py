"""Module trees: paths, what lies under them, and what kind of layer a module is, by its tensors and behaviour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from pytest_frt.spec.seams import LINEAR, NORM, PATCHES

EPS_NAMES = ("eps", "variance_epsilon", "epsilon")
MATRIX = 2
"""Axes of a weight matrix."""
CONVOLUTIONS = (nn.Conv1d.forward, nn.Conv2d.forward, nn.Conv3d.forward)


def join(parent: str, child: str) -> str:
    """Join dotted paths; either may be empty."""
    return ".".join(part for part in (parent, child) if part)


def under(path: str, place: str) -> bool:
    """Return whether ``path`` is ``place`` or lies below it."""
    return not place or path == place or path.startswith(f"{place}.")


def under_any(path: str, places: Iterable[str]) -> bool:
    """Return whether ``path`` is or lies below one of ``places``."""
    return any(under(path, place) for place in places)


def ancestors(path: str) -> Iterator[str]:
    """Yield ``path`` and its parents, the root excluded."""
    while path:
        yield path
        path = path.rpartition(".")[0]


def child_of(module: nn.Module, path: str) -> object | None:
    """Return what lies at a dotted path below ``module``: a module, a function, a number; None when nothing does."""
    at: object = module
    for part in path.split(".") if path else ():
        if isinstance(at, nn.Sequential | nn.ModuleList | nn.ModuleDict) and part in at._modules:  # noqa: SLF001
            at = at._modules[part]  # noqa: SLF001
        else:
            at = getattr(at, part, None)
        if at is None:
            return None
    return at


def paths_of(model: nn.Module) -> dict[int, list[str]]:
    """Return module identity to every dotted path that reaches it."""
    out: dict[int, list[str]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        out.setdefault(id(module), []).append(path)
    return out


def own_tensor(module: nn.Module, name: str) -> Tensor | None:
    """Return a parameter or buffer that the module itself holds."""
    tensor = module._parameters.get(name)  # noqa: SLF001 (a property may hide what is stored)
    return tensor if tensor is not None else module._buffers.get(name)  # noqa: SLF001


def why_not_linear(module: nn.Module) -> str:
    """Return why a module is not exactly ``x @ weight.T (+ bias)``; empty when it is.

    The test is the function that runs, so that a subclass which overrides nothing counts and one that adds an
    adapter, a quantised weight or a parametrisation does not.
    """
    if why := why_not_linear_call(module):
        return why
    weight = own_tensor(module, "weight")
    if type(weight) not in (nn.Parameter, Tensor):
        return f"its weight is a {type(weight).__qualname__}, not a plain tensor"
    return ""


def why_not_linear_call(module: nn.Module) -> str:
    """Return why a module does not call what a plain linear calls, whatever its weight is; empty when it does."""
    if type(module).forward is not nn.Linear.forward:
        return f"its forward is {type(module).__qualname__}'s own, not that of a plain linear"
    return "its weight is parametrised" if parametrize.is_parametrized(module) else ""


def is_matrix_layer(module: nn.Module) -> bool:
    """Return whether a module holds a weight matrix it multiplies with (an embedding looks rows up instead)."""
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return False
    weight = own_tensor(module, "weight")
    return isinstance(module, nn.Linear) or (weight is not None and weight.dim() == MATRIX)


def input_width(parent: nn.Module, weight: str) -> int:
    """Return the features that a plain linear reads, by the dotted name of its weight; 0 when there is none."""
    child, _, name = weight.rpartition(".")
    layer = child_of(parent, child)
    if not isinstance(layer, nn.Module) or why_not_linear(layer):
        return 0
    tensor = own_tensor(layer, name)
    return 0 if tensor is None else tensor.shape[-1]


def as_matrix(tensor: Tensor) -> Tensor:
    """Return a kernel ``[out, ...]`` of a convolution as ``[out, everything else]``, other tensors as they are."""
    return tensor.flatten(1) if tensor.dim() > MATRIX else tensor


def is_convolution(module: nn.Module) -> bool:
    """Return whether a module moves a kernel over its input in steps (a pooling does so without output channels)."""
    return all(hasattr(module, name) for name in ("kernel_size", "stride", "padding", "out_channels"))


def why_not_patches(module: nn.Module) -> str:
    """Return why a convolution is no matrix over patches that lie side by side; empty when it is."""
    if type(module).forward not in CONVOLUTIONS:
        return f"its forward is {type(module).__qualname__}'s own, not that of a plain convolution"
    if parametrize.is_parametrized(module):
        return "its weight is parametrised"
    facts = {name: getattr(module, name) for name in ("kernel_size", "stride", "padding", "dilation", "groups")}
    none, ones = (0,) * len(facts["kernel_size"]), (1,) * len(facts["kernel_size"])
    checks = (
        (facts["stride"] == facts["kernel_size"], "its stride {stride} is not its kernel_size {kernel_size}"),
        (facts["padding"] in (none, "valid"), "its padding is {padding}, a patch has none"),
        (facts["dilation"] == ones, "its dilation is {dilation}, a patch has {ones}"),
        (facts["groups"] == 1, "its groups are {groups}, a matrix has 1"),
    )
    return next((words.format(**facts, ones=ones) for holds, words in checks if not holds), "")


def is_norm(module: nn.Module) -> bool:
    """Return whether a module normalises: it has an epsilon and, itself, no tensor of more than one axis."""
    own = [tensor for tensor in (*module._parameters.values(), *module._buffers.values()) if tensor is not None]  # noqa: SLF001
    epsilon = any(isinstance(getattr(module, name, None), float) for name in EPS_NAMES)
    heavy = any(tensor.dim() >= MATRIX for tensor in own)
    return epsilon and not heavy and all(is_matrix_layer(child) for child in module.children())


class Kind(NamedTuple):
    """A kind of layer, as seam rules ask for it.

    Attributes:
        recognised: Returns whether a module is of the kind at all.
        why_not: Returns why a module of the kind does not compute what the kind does; empty when it does.
    """

    recognised: Callable[[nn.Module], bool]
    why_not: Callable[[nn.Module], str]


KINDS: Final = {
    LINEAR: Kind(is_matrix_layer, why_not_linear),
    PATCHES: Kind(is_convolution, why_not_patches),
    NORM: Kind(is_norm, lambda _module: ""),  # what a norm computes, its values alone tell
}


def drops_out(module: nn.Module) -> bool:
    """Return whether anything below drops values at random as it stands."""
    kinds = (nn.modules.dropout._DropoutNd,)  # noqa: SLF001 (the common base of every dropout)
    return any(isinstance(part, kinds) and part.training and part.p > 0 for part in module.modules())


def tensors_under(model: nn.Module, places: Iterable[str]) -> dict[str, Tensor]:
    """Return every parameter and buffer under ``places`` by full dotted name, tied ones under each of their names."""
    out: dict[str, Tensor] = {}
    for place in places:
        module = model.get_submodule(place)
        out |= {join(place, name): tensor for name, tensor in module.named_parameters(remove_duplicate=False)}
        out |= {join(place, name): tensor for name, tensor in module.named_buffers(remove_duplicate=False)}
    return out


def dtype_name(dtype: torch.dtype) -> str:
    """Return a dtype as digests and certificates name it, e.g. ``float32``."""
    return str(dtype).removeprefix("torch.")
