"""The text of a planted impl: the sound one, with places where something wrong can be put."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SOURCE: Final = """
import os, sys, time
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from pytest_frt.sdk import Impl, KernelUnavailable, Refusal
{top}

class Part(nn.Module):
    def __init__(self, seat, scales, kernel):
        super().__init__()
        w, by_point = seat.weights, scales.by_point
        layer = kernel.fp8_linear if by_point else kernel.plain_linear
        def options(point):
            return {{"input_scale": by_point[point]}} if by_point else {{}}
        self.gate_up = layer([w["w_gate"].t(), w["w_up"].t()], **options("x_after_norm"))
        self.down = layer([w["w_down"].t()], **options("act_after_mul"))
        self.calls, self.kept = 0, {{}}

    def right(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)

    def forward(self, x):
        self.calls += 1
        {forward}

def bind(seat, scales, kernel):
    {bind}
    return Part(seat, scales, kernel)

IMPL = Impl(
    name="{name}", structure="decoder_ffn", version=1, schemes=("{scheme}",), kernel="pytest-frt/frt-cpu",
    rows={{"{scheme}": (1, 8)}}, variants={{"activation": ("silu",)}}, points={points},
)
"""
BARE: Final = """
import gc, os, sys, threading, time
from pathlib import Path
import torch
from torch import nn
from torch.nn import functional as F
from pytest_frt.sdk import Impl, KernelUnavailable, Refusal
{top}

class Part(nn.Module):
    def __init__(self, seat, kernel):
        super().__init__()
        self.layer = kernel.plain_linear([seat.weights["w"].t()])
        self.calls, self.kept = 0, {{}}

    def right(self, x):
        return self.layer(x)

    def forward(self, x):
        self.calls += 1
        {forward}

def bind(seat, scales, kernel):
    {bind}
    return Part(seat, kernel)

IMPL = Impl(
    name="{name}", structure="linear_proj", version=1, schemes=("{scheme}",), kernel="pytest-frt/frt-cpu",
    rows={{"{scheme}": (1, 8)}}, points={points},
)
"""
SOURCES: Final = {"decoder_ffn": SOURCE, "linear_proj": BARE}
POINTS: Final = {"none": "{}", "fp8_static": '{"fp8_static": ("x_after_norm", "act_after_mul")}'}


@dataclass(frozen=True)
class Planted:
    """One planted impl and what must become of it.

    Attributes:
        gate: Gate that refuses; empty for a sound impl.
        reason: Reason of the refusal, or ``CRASH`` or ``TIMEOUT``.
        says: What the detail must hold.
        forward: Body of ``forward``.
        bind: What ``bind`` does first.
        top: What the module does when it is imported.
        scheme: Scheme it runs.
        structure: ``decoder_ffn`` on a real host, or ``linear_proj`` on the bare one.
        other: Reason that chance may put in the place of ``reason``: where memory is handed out, say.
    """

    gate: str
    reason: str = ""
    says: str = ""
    forward: str = "return self.right(x)"
    bind: str = "pass"
    top: str = ""
    scheme: str = "none"
    structure: str = "decoder_ffn"
    other: str = ""

    def source(self, name: str) -> str:
        """Return the text of the impl module."""
        forward, bind = (
            text.replace("\n", "\n" + " " * indent) for text, indent in ((self.forward, 8), (self.bind, 4))
        )
        return SOURCES[self.structure].format(
            name=name, top=self.top, forward=forward, bind=bind, scheme=self.scheme, points=POINTS[self.scheme]
        )
