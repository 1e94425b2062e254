"""A host of one projection: judging an impl of it costs a fraction of judging one of a real model."""

from __future__ import annotations

from pathlib import Path
from typing import Final

EDGE: Final = 48
YAML: Final = """
name: bare
summary: One projection.
output: values
sizes: [tiny]
weights: {tiny: random}
forms: [eager]
phases: [{name: decode, rows: [1, 8], timed_rows: 4, score_positions: 1}]
calibration_samples: 2
heldout_samples: 12
"""
PROGRAM: Final = f"""
import torch
from torch import nn
from pytest_frt.sdk import Checkpoint

class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear({EDGE}, {EDGE}, bias=False)

    def forward(self, x):
        return self.proj(x)

def build(request):
    torch.manual_seed(request.seed)
    return Bare()

def checkpoint(request):
    return Checkpoint("synthetic", recipe="synthetic(seed, bare)")

def samples(request):
    generator = torch.Generator().manual_seed(request.seed)
    while True:
        yield {{"x": torch.randn(1, 4, {EDGE}, generator=generator)}}

def prepare(model, samples, phase):
    return samples[0]["x"]

def fresh(model, state, seed):
    return torch.randn(state.shape, generator=torch.Generator().manual_seed(seed))

def run(model, state):
    return model(state)

def score(model, samples, phase):
    return [model(sample["x"][:, -1:]) for sample in samples]

def projection(model):
    return {{"edge": {EDGE}}}

def compile(model, phase):
    pass
"""


def write(folder: Path) -> Path:
    """Write the host's entry folder and return it."""
    at = folder / "bare"
    at.mkdir(parents=True)
    (at / "host.yaml").write_text(YAML, encoding="utf-8")
    (at / "host.py").write_text(PROGRAM, encoding="utf-8")
    return at
