"""Modulated norm and the projections that read it: what every implementation of ``modnorm_qkv_chain`` must compute."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


def _untapped(_point: str, value: Tensor) -> Tensor:
    return value


_FANOUTS = {"qkv": 3, "q_only": 1}


def _project(h: Tensor, w: Tensor | None, b: Tensor | None, *, add: bool) -> Tensor:
    if w is None or (add and b is None):
        raise ValueError("fanout='qkv' needs w_k and w_v, bias='add' a bias for every projection")
    y = h @ w  # [..., D] -> [..., N]
    return y if b is None or not add else y + b


def reference(  # noqa: PLR0913 (one keyword per slot, axis and constant of structure.yaml)
    *,
    x: Tensor,
    cond: Tensor,
    w_cond: Tensor,
    b_cond: Tensor,
    w_q: Tensor,
    w_k: Tensor | None = None,
    w_v: Tensor | None = None,
    b_q: Tensor | None = None,
    b_k: Tensor | None = None,
    b_v: Tensor | None = None,
    fanout: str = "qkv",
    bias: str = "none",
    eps: float = 1e-5,
    tap: Callable[[str, Tensor], Tensor] = _untapped,
) -> tuple[Tensor, ...]:
    """Return ``n = ln(x) (1 + scale) + shift`` and its projections, with ``scale, shift = silu(cond) w_cond + b_cond``.

    Args:
        x: Input ``[..., D]``.
        cond: Condition of the call ``[1, C]``.
        w_cond: ``[C, 2 D]``.
        b_cond: ``[2 D]``.
        w_q: ``[D, Nq]``.
        w_k: ``[D, Nk]``; needed when ``fanout`` is ``qkv``.
        w_v: ``[D, Nv]``; likewise.
        b_q: ``[Nq]``; needed when ``bias`` is ``add``.
        b_k: ``[Nk]``; needed when both are.
        b_v: ``[Nv]``; likewise.
        fanout: ``qkv``, or ``q_only`` where key and value read something else.
        bias: ``none`` or ``add``.
        eps: Added to the variance before the root.
        tap: Called with the named points ``cond`` and ``n``; what it returns takes their place in the matmuls.

    Raises:
        KeyError: an unknown ``fanout`` or ``bias``.
        ValueError: a weight or bias of the variant is missing.
    """
    add, count = {"none": False, "add": True}[bias], _FANOUTS[fanout]
    projected = (tap("cond", F.silu(cond)) @ w_cond + b_cond).reshape(*(1,) * (x.dim() - 1), -1)  # [.., 1, 2 D]
    scale, shift = projected.chunk(2, -1)  # [.., 1, D] each
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    n = (F.layer_norm(wide, wide.shape[-1:], eps=eps) * (1 + scale) + shift).to(x.dtype)
    h = tap("n", n)
    siblings = ((w_q, b_q), (w_k, b_k), (w_v, b_v))[:count]
    return (n, *(_project(h, w, b, add=add) for w, b in siblings))
