"""Binds a seat of each structure with the kernel's packed layers; impls differ in their envelope and layers only."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

from .layer_packer import packer
from .seam_modules import FeedForward, GatedFeedForward, PostNorm, SiblingProjections

Layers = Mapping[str, str]
"""Scheme to the kernel layer that runs it."""


def bind_gated(
    impl: Impl, seat: BindSeat, scales: Scales, kernel: ModuleType, layers: Layers
) -> GatedFeedForward | Refusal:
    """Bind a gated feed-forward block without norm and residual."""
    packing = packer(impl, seat, scales, kernel, layers=layers, transposed=True)
    if isinstance(packing, Refusal):
        return packing
    gate_up = packing.pack(("w_gate", "w_up"), "x_after_norm")
    down = packing.pack(("w_down",), "act_after_mul")
    return GatedFeedForward(gate_up, down, seat.variant["activation"])


def bind_two_layer(
    impl: Impl, seat: BindSeat, scales: Scales, kernel: ModuleType, layers: Layers
) -> FeedForward | Refusal:
    """Bind a biased two-layer block, with residual and closing norm as the variant says."""
    packing = packer(impl, seat, scales, kernel, layers=layers, transposed=False)
    if isinstance(packing, Refusal):
        return packing
    norm = None
    if seat.variant["norm"] == "post":
        vectors = seat.weights.get("w_norm"), seat.weights.get("b_norm")
        norm = PostNorm(seat.dims["D"], *vectors, seat.constants["eps"])
    return FeedForward(
        packing.pack(("w_fc1",), "x_after_norm", ("b_fc1",)),
        packing.pack(("w_fc2",), "hidden_after_act", ("b_fc2",)),
        activation=seat.variant["activation"],
        residual=seat.variant["residual"] == "add",
        norm=norm,
    )


def bind_projection(
    impl: Impl, seat: BindSeat, scales: Scales, kernel: ModuleType, layers: Layers, *, transposed: bool = True
) -> nn.Module | Refusal:
    """Bind one projection, whose slot is stored ``[in, out]`` if ``transposed`` and else ``[out, in]``."""
    packing = packer(impl, seat, scales, kernel, layers=layers, transposed=transposed)
    return packing if isinstance(packing, Refusal) else packing.pack(("w",), "x", ("b",))


def bind_siblings(
    impl: Impl, seat: BindSeat, scales: Scales, kernel: ModuleType, layers: Layers
) -> SiblingProjections | Refusal:
    """Bind query, key and value projections as one matmul."""
    packing = packer(impl, seat, scales, kernel, layers=layers, transposed=True)
    if isinstance(packing, Refusal):
        return packing
    merged = packing.pack(("w_q", "w_k", "w_v"), "x", ("b_q", "b_k", "b_v"))
    return SiblingProjections(merged, [seat.dims[width] for width in ("Nq", "Nk", "Nv")])
