"""Freeing the originals of seated modules, and bringing them back bit for bit when they were spilled to disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pytest_frt.errors import StorageFault, SwapRefused
from pytest_frt.spec.digest import file_digest

SPILL_FILE: Final = "frt-originals.safetensors"


@dataclass(frozen=True, slots=True)
class Freed:
    """Originals that were freed.

    Attributes:
        tensors: Name in the model to its tensor, now empty.
        size: Bytes that were freed.
        file: Where they were spilled to; None when nowhere.
        sha256: Digest of that file.
    """

    tensors: Mapping[str, Tensor]
    size: int
    file: Path | None
    sha256: str

    def bring_back(self) -> None:
        """Fill the tensors again from the spill file.

        Raises:
            SwapRefused: there is none, or it is not the one that was written; nothing was changed.
        """
        if self.file is None:
            raise SwapRefused("the originals were freed without a spill", hint="load the model again")
        try:
            if (found := file_digest(self.file)) != self.sha256:
                raise SwapRefused(
                    f"{self.file} has sha256 {found}, written was {self.sha256}", hint="load the model again"
                )
            kept = load_file(self.file)
        except (OSError, SafetensorError) as fault:
            raise SwapRefused(f"{self.file} cannot be read: {fault}", hint="load the model again") from fault
        for name, tensor in self.tensors.items():
            tensor.data = kept[name].to(tensor.device)
        self.file.unlink()


def free(model: nn.Module, hosts: Iterable[nn.Module], spill: str | Path | None) -> Freed:
    """Free the parameters and buffers that only ``hosts`` use.

    Args:
        model: The whole model.
        hosts: Host modules that will not be called any more.
        spill: Directory to write them to first; None drops them.

    Raises:
        StorageFault: the spill file cannot be written, or exists; nothing was freed.
    """
    # A seat module shares the dictionaries of the host module it stands in for.
    inside = {id(owner) for host in hosts for module in host.modules() for owner in _owners(module)}
    mine = dict(_tensors(model, inside, wanted=True))
    shared = {_storage(tensor) for _, tensor in _tensors(model, inside, wanted=False)}
    alone = {name: tensor for name, tensor in mine.items() if _storage(tensor) not in shared}
    file = None if spill is None else _write(alone, Path(spill))
    size = sum({_storage(one): one.untyped_storage().nbytes() for one in alone.values()}.values())
    digest = "" if file is None else file_digest(file)
    for tensor in alone.values():
        tensor.data = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return Freed(alone, size, file, digest)


def _owners(module: nn.Module) -> tuple[Mapping[str, Tensor | None], ...]:
    return module._parameters, module._buffers  # noqa: SLF001


def _tensors(model: nn.Module, inside: set[int], *, wanted: bool) -> Iterator[tuple[str, Tensor]]:
    for path, module in model.named_modules():
        for owner in _owners(module):
            if (id(owner) in inside) is wanted:
                named = ((f"{path}.{name}" if path else name, tensor) for name, tensor in owner.items())
                yield from ((name, tensor) for name, tensor in named if tensor is not None)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _write(tensors: Mapping[str, Tensor], folder: Path) -> Path:
    file = folder / SPILL_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("xb"):
            pass
        save_file({name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}, file)
    except OSError as fault:
        raise StorageFault(f"{file} cannot be written: {fault.strerror}", hint="name an empty directory") from fault
    return file
