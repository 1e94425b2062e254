"""Three sibling projections of one input: what every implementation of ``qkv_pack`` must compute."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def _untapped(_point: str, value: Tensor) -> Tensor:
    return value


def reference(  # noqa: PLR0913 (one keyword per slot and axis of structure.yaml)
    *,
    x: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    b_q: Tensor | None = None,
    b_k: Tensor | None = None,
    b_v: Tensor | None = None,
    bias: str = "none",
    tap: Callable[[str, Tensor], Tensor] = _untapped,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``(x w_q, x w_k, x w_v)``, each plus its bias where the variant has biases.

    Args:
        x: Input ``[..., K]``.
        w_q: ``[K, Nq]``.
        w_k: ``[K, Nk]``.
        w_v: ``[K, Nv]``.
        b_q: ``[Nq]``; needed when ``bias`` is ``add``.
        b_k: ``[Nk]``; likewise.
        b_v: ``[Nv]``; likewise.
        bias: ``none`` or ``add``.
        tap: Called with the named point ``x``; what it returns takes its place.

    Raises:
        KeyError: an unknown ``bias``.
        ValueError: ``bias`` is ``add`` and one of the three biases is missing.
    """
    add = {"none": False, "add": True}[bias]
    h = tap("x", x)
    q, k, v = h @ w_q, h @ w_k, h @ w_v  # [..., K] -> [..., Nq], [..., Nk], [..., Nv]
    if not add:
        return q, k, v
    if b_q is None or b_k is None or b_v is None:
        raise ValueError("bias='add' needs b_q, b_k and b_v")
    return q + b_q, k + b_k, v + b_v
