"""Modules that call ops of published packages. They own no parameter: the original module is the one to save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .hub_ops import Op

ALIGNMENT: Final = 16
"""Bytes that a vector load of these ops may take at once; an address beside it faults on the device."""
BF16_SUBNORMAL: Final = torch.finfo(torch.bfloat16).tiny * (1 - torch.finfo(torch.bfloat16).eps)
"""The largest."""


def dense_rows(x: Tensor) -> Tensor:
    """Return ``x[..., K]`` as contiguous rows ``[M, K]`` that begin on a full vector.

    A traced tensor does not tell where it begins, and compilers drop what they take for a copy: there, rows are written
    anew by what they do not know for one. It joins the step that makes ``x`` where that is part of the region.
    """
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    if torch.compiler.is_compiling():
        return F.hardshrink(rows, 0.0)
    return rows if rows.storage_offset() * rows.element_size() % ALIGNMENT == 0 else rows.clone()


class HubOp(nn.Module):
    """``x[..., K] -> [..., N]`` in bfloat16 by one op.

    Args:
        op: Called as ``op(rows[M, K], *operands)``.
        operands: Packed weights, their scales and what else the op takes.
        width: ``N``.
    """

    def __init__(self, op: Op, operands: Sequence[object], width: int) -> None:
        super().__init__()
        # Plain attributes: buffers would appear in state_dict.
        self._op, self._operands, self._width = op, tuple(operands), width

    def forward(self, x: Tensor) -> Tensor:
        """Apply the op; leading axes are free and may be empty, which the ops themselves refuse.

        Raises:
            RuntimeError: a gradient is asked for.
        """
        if torch.is_grad_enabled() and x.requires_grad:
            raise RuntimeError("the op has no gradient; run it under torch.no_grad() or use the original module")
        shape = (*x.shape[:-1], self._width)
        return self._call(dense_rows(x)).view(shape) if x.numel() else x.new_empty(shape)

    def _call(self, rows: Tensor) -> Tensor:
        return self._op(rows, *self._operands)

    def __deepcopy__(self, memo: dict[int, object]) -> NoReturn:
        raise TypeError("packed weights cannot be copied: detach them from the model, copy it, and bind again")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("packed weights cannot be copied or pickled: detach them from the model and bind again")


class HubOpByRows(HubOp):
    """An op that is told which of its forms to run.

    Args:
        op: Called as ``op(rows, *operands, variant=variant)``.
        operands: As above.
        width: As above.
        variants: Row count to variant.
    """

    def __init__(self, op: Op, operands: Sequence[object], width: int, variants: Mapping[int, int]) -> None:
        super().__init__(op, operands, width)
        self._variants = dict(variants)

    def _call(self, rows: Tensor) -> Tensor:
        variant = self._variants.get(rows.shape[0])
        if variant is None:
            raise ValueError(f"the op takes {min(self._variants)} to {max(self._variants)} rows, got {rows.shape[0]}")
        return self._op(rows, *self._operands, variant=variant)


class HubOpOverNormals(HubOp):
    """An op that reads no subnormal number: machines differ in what they take one for."""

    def _call(self, rows: Tensor) -> Tensor:
        return self._op(F.hardshrink(rows, BF16_SUBNORMAL), *self._operands)


class HubSiblings(nn.Module):
    """One op for projections that read the same input: ``x[..., K] -> ([..., N_1], [..., N_2], ...)``.

    Args:
        merged: ``[..., K] -> [..., sum(N_i)]``.
        widths: ``N_i`` in order.
        factors: Powers of two that each part is still to be multiplied by.
    """

    def __init__(self, merged: HubOp, widths: Sequence[int], factors: Sequence[float]) -> None:
        super().__init__()
        self.merged = merged
        self._widths, self._factors = list(widths), tuple(factors)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return each projection, contiguous as a linear layer's output is: hosts reshape it with ``view``."""
        parts = self.merged(x).split(self._widths, dim=-1)
        scaled = (part if factor == 1 else part * factor for part, factor in zip(parts, self._factors, strict=True))
        return tuple(part.contiguous() for part in scaled)
