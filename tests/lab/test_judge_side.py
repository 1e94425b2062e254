"""The judge's side of the lab imports neither torch nor anything that runs hosts or impls."""

from __future__ import annotations

import subprocess
import sys

JUDGE_SIDE = ("attempts", "client", "fleet", "kept", "locks", "machine", "store", "timing", "timing_group", "witnesses")
FORBIDDEN = (
    "torch",
    "kernels",
    "pytest_frt.lab.worker",
    "pytest_frt.lab.arms",
    "pytest_frt.lab.units",
    "pytest_frt.seat",
)


def test_judge_side_is_light() -> None:
    script = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)\nprint(*sys.modules)"
    names = [f"pytest_frt.lab.{name}" for name in JUDGE_SIDE]
    done = subprocess.run([sys.executable, "-I", "-c", script, *names], capture_output=True, text=True, check=True)
    assert not set(FORBIDDEN) & set(done.stdout.split())
