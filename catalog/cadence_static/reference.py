"""A projection of what cross-attention attends to: what every implementation of ``cadence_static`` must compute.

Nothing is remembered here: what an implementation keeps from call to call may not show in any answer.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def _untapped(_point: str, value: Tensor) -> Tensor:
    return value


def reference(
    *,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    bias: str = "none",
    tap: Callable[[str, Tensor], Tensor] = _untapped,
) -> Tensor:
    """Return ``x w``, plus ``b`` where the variant has a bias.

    Args:
        x: Input ``[..., K]``.
        w: ``[K, N]``.
        b: ``[N]``; needed when ``bias`` is ``add``.
        bias: ``none`` or ``add``.
        tap: Called with the named point ``x``; what it returns takes its place.

    Raises:
        KeyError: an unknown ``bias``.
        ValueError: ``bias`` is ``add`` and there is no ``b``.
    """
    add = {"none": False, "add": True}[bias]
    y = tap("x", x) @ w  # [..., K] -> [..., N]
    if not add:
        return y
    if b is None:
        raise ValueError("bias='add' needs b")
    return y + b
