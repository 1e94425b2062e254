"""Plain parts of each structure in each scheme, written as a plan of steps so that a fault can change one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytest_frt.contracts.impl import Scales
from pytest_frt.contracts.scheme import Scheme
from pytest_frt.contracts.structure import SlotSpec

Outputs = Tensor | tuple[Tensor, ...]
Forward = Callable[[Tensor], Outputs]
GELU_TANH: Callable[[Tensor], Tensor] = partial(F.gelu, approximate="tanh")
ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu_tanh": GELU_TANH,
    "gelu_erf": F.gelu,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": F.silu,
}


def same(forward: Forward) -> Forward:
    """Leave a part as it is."""
    return forward


@dataclass(frozen=True, slots=True)
class Plan:
    """How a part computes its seat.

    Attributes:
        structure: Catalog name.
        variant: Axis to value.
        eps: Of the norm.
        slots: Slots of the structure by name.
        weights: Slot to float32 tensor, not yet quantised.
        scheme: What quantises weights and activations.
        scales: Static scales.
        neighbour: The same slots of the next layer.
        seen: Rows the part was calibrated on, ``[R, K]``.
        host: Slot to the host's own tensor.
        act: Activation between the projections.
        quantise: Weight and output axis to the weight as the kernel reads it.
        tap: Point and activation to the activation as the kernel reads it.
        product: ``x[..., K]`` and ``w[K, N]`` to ``[..., N]``.
        around: Changes the finished part.
    """

    structure: str
    variant: Mapping[str, str]
    eps: float
    slots: Mapping[str, SlotSpec]
    weights: Mapping[str, Tensor]
    scheme: Scheme
    scales: Scales
    neighbour: Mapping[str, Tensor]
    seen: Tensor
    act: Callable[[Tensor], Tensor]
    quantise: Callable[[Tensor, int], Tensor]
    tap: Callable[[str, Tensor], Tensor]
    product: Callable[[Tensor, Tensor], Tensor]
    host: Mapping[str, Tensor] = field(default_factory=lambda: MappingProxyType({}))
    around: Callable[[Forward], Forward] = same

    def held(self) -> dict[str, Tensor]:
        """Return the slots as the kernel reads them."""
        return {
            name: self.quantise(value, self.slots[name].out_axis) if self.slots[name].role == "matmul" else value
            for name, value in self.weights.items()
        }


def out_in_bfloat16(x: Tensor, w: Tensor) -> Tensor:
    """Multiply with float32 sums and hand the result on as bfloat16."""
    return (x @ w).bfloat16().float()


def rms(x: Tensor, eps: float) -> Tensor:
    """Divide rows by their root mean square."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def rms_of(x: Tensor) -> float:
    """Return the root mean square of all elements; tiny ones do not vanish when they are squared."""
    return float(x.double().square().mean().sqrt()) if x.numel() else 0.0


def gated(plan: Plan, x: Tensor) -> Tensor:
    """Compute ``decoder_ffn``."""
    w = plan.held()
    h = x
    if plan.variant["norm"] != "none":
        h = rms(x, plan.eps) * (w["w_norm"] + (1.0 if plan.variant["norm"] == "offset" else 0.0))
    h = plan.tap("x_after_norm", h)
    hidden = plan.act(plan.product(h, w["w_gate"])) * plan.product(h, w["w_up"])
    y = plan.product(plan.tap("act_after_mul", hidden), w["w_down"])
    return x + y if plan.variant["residual"] == "add" else y


def two_layer(plan: Plan, x: Tensor) -> Tensor:
    """Compute ``vision_ffn``."""
    w = plan.held()

    def norm(value: Tensor) -> Tensor:
        return F.layer_norm(value, value.shape[-1:], w.get("w_norm"), w.get("b_norm"), plan.eps)

    h = plan.tap("x_after_norm", norm(x) if plan.variant["norm"] == "pre" else x)
    hidden = plan.tap("hidden_after_act", plan.act(plan.product(h, w["w_fc1"].T) + w["b_fc1"]))
    y = plan.product(hidden, w["w_fc2"].T) + w["b_fc2"]
    y = x + y if plan.variant["residual"] == "add" else y
    return norm(y) if plan.variant["norm"] == "post" else y


def projection(plan: Plan, x: Tensor) -> Tensor:
    """Compute ``linear_proj``."""
    w = plan.held()
    y = plan.product(plan.tap("x", x), w["w"])
    return y + w["b"] if "b" in w else y


def siblings(plan: Plan, x: Tensor) -> tuple[Tensor, ...]:
    """Compute ``qkv_pack``."""
    w = plan.held()
    h = plan.tap("x", x)
    return tuple(plan.product(h, w[f"w_{one}"]) + w.get(f"b_{one}", torch.zeros(())) for one in "qkv")


COMPUTE: Mapping[str, Callable[[Plan, Tensor], Outputs]] = {
    "decoder_ffn": gated,
    "vision_ffn": two_layer,
    "linear_proj": projection,
    "qkv_pack": siblings,
}


class Part(nn.Module):
    """A plan as a module: ``x[..., K]`` to the outputs of its structure. Weights are quantised once."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        held = plan.held()
        self._compute: Forward = plan.around(partial(COMPUTE[plan.structure], _frozen(plan, held)))

    def forward(self, x: Tensor) -> Outputs:
        """Run the plan."""
        return self._compute(x)


def _frozen(plan: Plan, held: dict[str, Tensor]) -> Plan:
    own = {name: value.clone(memory_format=torch.contiguous_format) for name, value in held.items()}
    return replace(plan, weights=own, quantise=lambda w, _axis: w)
