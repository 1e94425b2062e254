"""Structures of this repository, their references, and seeded slots to call them with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_frt.contracts.structure import Structure
from pytest_frt.spec.dims import shape_of
from pytest_frt.spec.load import load_structure
from pytest_frt.spec.modules import load_file

CATALOG = Path(__file__).parents[2] / "catalog"
EVERYTHING = sorted(path.parent.name for path in CATALOG.glob("*/structure.yaml"))
NAMES = [name for name in EVERYTHING if len(load_structure(CATALOG / name).inputs) == 1]
SIZES = {"D": 24, "F": 56, "K": 24, "N": 40, "Nq": 40, "Nk": 16, "Nv": 8}


@pytest.fixture
def structure(request: pytest.FixtureRequest, repository: Path) -> Structure:
    return load_structure(repository / "catalog" / request.param)


@pytest.fixture
def reference(structure: Structure) -> Callable[..., Any]:
    return load_file(Path(structure.folder) / "reference.py").reference


@pytest.fixture
def slots(structure: Structure) -> dict[str, Tensor]:
    """Every slot filled: distinct, non-unit, fan-in scaled, float64."""
    draw = torch.Generator().manual_seed(1)
    out = {}
    for slot in structure.slots:
        shape = shape_of(slot.shape, SIZES)
        value = torch.randn(*shape, generator=draw, dtype=torch.float64)
        out[slot.name] = value / 5 if slot.role == "matmul" else value * 0.3 + (1.5 if slot.name == "w_norm" else 0.2)
    return out


@pytest.fixture
def x(structure: Structure) -> Tensor:
    width = SIZES[structure.inputs[0].shape[-1]]
    return torch.randn(2, 5, width, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
