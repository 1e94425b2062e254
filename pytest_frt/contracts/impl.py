"""Impls: the literal an impl module declares and what its ``bind`` receives and returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from pytest_frt.contracts.verdict import Refusal

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Impl:
    """What an impl is and needs. Takes literals only: the registry reads it without importing the module.

    Attributes:
        name: File stem of the module.
        structure: Catalog name it implements.
        version: Integer; a change of behaviour raises it.
        schemes: Schemes it can run.
        kernel: Kernel repo id, e.g. ``pytest-frt/frt-cpu``; its build is loaded by the lab, never by the impl.
        rows: Per scheme, inclusive ``(lowest, highest)`` row count admitted; other rows run the host.
        variants: Axis name to the values it can run; an axis not listed means every value.
        dims: Symbol to inclusive ``(lowest, highest)``.
        multiples: Symbol to the divisor it must have.
        dtypes: Boundary dtypes it takes.
        devices: Device kinds it runs on, e.g. ``("cpu",)``.
        points: Per scheme, the calibration points it needs scales for.
        emulate: Schemes whose numerics its own code reproduces on a CPU for the other kinds it runs on: the same codes
            and the same rounding points, whatever the order of sums.
    """

    name: str
    structure: str
    version: int
    schemes: tuple[str, ...]
    kernel: str
    rows: dict[str, tuple[int, int]]
    variants: dict[str, tuple[str, ...]] = field(default_factory=dict)
    dims: dict[str, tuple[int, int]] = field(default_factory=dict)
    multiples: dict[str, int] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("float32",)
    devices: tuple[str, ...] = ("cpu",)
    points: dict[str, tuple[str, ...]] = field(default_factory=dict)
    emulate: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scales:
    """Certified static scales of one seat: point name to the float32 scale.

    Attributes:
        by_point: Point name to per-tensor scale (``amax / format maximum``); empty without static activations.
    """

    by_point: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BindSeat:
    """What ``bind`` sees of a seat: tensors in the structure's layout and facts, never the host.

    Attributes:
        structure: Catalog name.
        scheme: Scheme to bind for.
        variant: Axis to value.
        dims: Symbol to size.
        weights: Slot name to tensor (views of the host's, not to be written to), in the layout of structure.yaml.
        constants: Scalars of the reference, e.g. ``eps``.
        rows: Inclusive row band the seat will be called with.
        dtype: Boundary dtype name.
    """

    structure: str
    scheme: str
    variant: Mapping[str, str]
    dims: Mapping[str, int]
    weights: Mapping[str, Tensor]
    constants: Mapping[str, float]
    rows: tuple[int, int]
    dtype: str


class BindFn(Protocol):
    """Signature of an impl module's ``bind``.

    The returned module's ``forward`` takes the structure's boundary inputs positionally
    (``x[..., K]``; leading axes are free) and returns one tensor, or a tuple with one tensor
    per output for structures with several outputs (``qkv_pack``). It never writes to its inputs
    and never returns a buffer it keeps.
    """

    def __call__(self, seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal: ...
