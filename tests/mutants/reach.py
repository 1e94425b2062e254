"""Faults that reach beyond the part: what it does to the process, to its host, and to other threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.mutants.entry import Fault
from tests.mutants.plan import Forward, Outputs, Plan


def _at_bind(name: str, act: Callable[[], object], undo: Callable[[], object]) -> Fault:
    def change(plan: Plan) -> Plan:
        act()
        return plan

    return Fault(name, change, undo)


def _other_gelu() -> None:
    F.gelu = lambda x, approximate="none": _GELU(x, approximate=approximate) * 1.0  # type: ignore[assignment]


def _other_threads(forward: Forward) -> Forward:
    home = threading.get_ident()

    def call(x: Tensor) -> Outputs:
        value = forward(x)
        return value if threading.get_ident() == home or not isinstance(value, Tensor) else value * 1.001

    return call


_GELU, _THREADS = F.gelu, torch.get_num_threads()
_PRECISION = torch.get_float32_matmul_precision()
TAKES_THREADS = _at_bind(
    "sets_the_thread_count", partial(torch.set_num_threads, 7), partial(torch.set_num_threads, _THREADS)
)
REPLACES_GELU = _at_bind("replaces_a_function_of_torch", _other_gelu, partial(setattr, F, "gelu", _GELU))
MATMUL_PRECISION = _at_bind(
    "lowers_the_matmul_precision",
    partial(torch.set_float32_matmul_precision, "medium"),
    partial(torch.set_float32_matmul_precision, _PRECISION),
)
SECOND_THREAD = Fault("answers_otherwise_in_a_second_thread", lambda plan: replace(plan, around=_other_threads))
