"""Faults of what a part computes. Each takes a plan and changes one step of it; none knows a seat by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.mutants.entry import Fault
from tests.mutants.plan import ACTIVATIONS, Plan, rms_of

CHANNEL = 3


def _weights(name: str, slot: str, change: Callable[[Plan, Tensor], Tensor]) -> Fault:
    """Change one slot before it is quantised."""

    def apply(plan: Plan) -> Plan:
        return replace(plan, weights={**plan.weights, slot: change(plan, plan.weights[slot])})

    return Fault(name, apply)


def scaled(slot: str, factor: float) -> Fault:
    """Take a slot too large."""
    return _weights(f"{slot}_times_{factor:g}", slot, lambda _plan, w: factor * w)


def scaled_channel(slot: str, factor: float) -> Fault:
    """Take one output channel of a slot too large."""

    def change(plan: Plan, w: Tensor) -> Tensor:
        axis = plan.slots[slot].out_axis % w.dim()
        factors = torch.ones(w.shape[axis])
        factors[CHANNEL] = factor
        return w * (factors if axis == w.dim() - 1 else factors[:, None])

    return _weights(f"one_channel_of_{slot}_times_{factor:g}", slot, change)


def neighbours(slot: str) -> Fault:
    """Take a slot of the next layer."""
    return _weights(f"{slot}_of_the_next_layer", slot, lambda plan, _w: plan.neighbour[slot])


def dropped(slot: str) -> Fault:
    """Take zeros for a bias."""
    return _weights(f"{slot}_dropped", slot, lambda _plan, w: torch.zeros_like(w))


def ignored(slot: str) -> Fault:
    """Take ones for the weight of a norm."""
    return _weights(f"{slot}_ignored", slot, lambda _plan, w: torch.ones_like(w))


def transposed(slot: str) -> Fault:
    """Read a square weight the other way round."""
    return _weights(f"{slot}_transposed", slot, lambda _plan, w: w.T.contiguous())


def doubled_bias(slot: str) -> Fault:
    """Add a bias twice: in the epilogue and after it."""
    return _weights(f"{slot}_added_twice", slot, lambda _plan, b: 2 * b)


def shifted_bias(slot: str) -> Fault:
    """Give each channel the bias of the one beside it."""
    return _weights(f"{slot}_shifted_by_one", slot, lambda _plan, b: b.roll(1))


def rounded(slot: str) -> Fault:
    """Keep a weight in bfloat16 where the scheme keeps more."""
    return _weights(f"{slot}_in_bfloat16", slot, lambda _plan, w: w.bfloat16().float())


def dead_channel(slot: str) -> Fault:
    """Lose the last output channel of a slot: a tail that a tile does not reach."""

    def change(plan: Plan, w: Tensor) -> Tensor:
        w = w.clone()
        w.select(plan.slots[slot].out_axis, -1).zero_()
        return w

    return _weights(f"last_channel_of_{slot}_zero", slot, change)


def swapped(one: str, other: str) -> Fault:
    """Exchange two slots."""

    def apply(plan: Plan) -> Plan:
        w = plan.weights
        return replace(plan, weights={**w, one: w[other], other: w[one]})

    return Fault(f"{one}_and_{other}_swapped", apply)


def activation(name: str) -> Fault:
    """Apply another activation."""
    return Fault(f"{name}_instead", lambda plan: replace(plan, act=ACTIVATIONS[name]))


def clamped(sigmas: float) -> Fault:
    """Clip hidden values."""

    def apply(plan: Plan) -> Plan:
        def tap(point: str, value: Tensor) -> Tensor:
            bound = sigmas * rms_of(value)
            return plan.tap(point, value.clamp(-bound, bound))

        return replace(plan, tap=tap)

    return Fault(f"inputs_clipped_at_{sigmas:g}_sigma", apply)


def variant(axis: str, value: str) -> Fault:
    """Compute another value of a variant axis."""
    return Fault(f"{axis}_{value}_instead", lambda plan: replace(plan, variant={**plan.variant, axis: value}))


def residual_doubled() -> Fault:
    """Add the input once more."""

    def apply(plan: Plan) -> Plan:
        return replace(plan, around=lambda forward: lambda x: torch.add(x, forward(x)))  # type: ignore[arg-type]

    return Fault("residual_added_twice", apply)


def epsilon(value: float) -> Fault:
    """Take another epsilon in the norm."""
    return Fault(f"eps_{value:g}", lambda plan: replace(plan, eps=value))


def rounded_shift() -> Fault:
    """Add the one of an offset norm in bfloat16, where small weights vanish."""

    def apply(plan: Plan) -> Plan:
        shifted = (1 + plan.weights["w_norm"].bfloat16()).float() - 1
        return replace(plan, weights={**plan.weights, "w_norm": shifted})

    return Fault("one_added_in_bfloat16", apply)


def sums_in(dtype: torch.dtype, step: int = 64) -> Fault:
    """Accumulate partial sums of a product in fewer bits."""

    def product(x: Tensor, w: Tensor) -> Tensor:
        x = x.contiguous()
        total = torch.zeros(*x.shape[:-1], w.shape[-1], dtype=dtype)
        for start in range(0, w.shape[0], step):
            total += (x[..., start : start + step] @ w[start : start + step]).to(dtype)
        return total.float()

    name = f"sums_in_{str(dtype).removeprefix('torch.')}"
    return Fault(name, lambda plan: replace(plan, product=product))


def tail_dropped(columns: int) -> Fault:
    """Leave out the last terms of every sum."""

    def product(x: Tensor, w: Tensor) -> Tensor:
        return x[..., :-columns] @ w[:-columns]

    return Fault(f"last_{columns}_terms_dropped", lambda plan: replace(plan, product=product))


def batch_mean() -> Fault:
    """Take the statistics of the norm over the whole call."""

    def apply(plan: Plan) -> Plan:
        def tap(point: str, value: Tensor) -> Tensor:
            shared = value - value.reshape(-1, value.shape[-1]).mean(0) * 0.01 if value.numel() else value
            return plan.tap(point, shared)

        return replace(plan, tap=tap)

    return Fault("mean_of_the_batch_taken_away", apply)


def seen_only() -> Fault:
    """Be right on the span of the calibration rows and zero across it."""

    def apply(plan: Plan) -> Plan:
        basis = torch.linalg.qr(plan.seen[:32].T)[0]

        def around(forward: Callable[[Tensor], object]) -> Callable[[Tensor], object]:
            return lambda x: forward((x @ basis) @ basis.T)

        return replace(plan, around=around)  # type: ignore[arg-type]

    return Fault("right_on_seen_rows_only", apply)


def tanh_of_logits() -> Fault:
    """Use the sigmoid form of GELU."""
    return Fault("sigmoid_gelu_instead", lambda plan: replace(plan, act=lambda x: x * F.sigmoid(1.702 * x)))
