"""Case generators: band edges, layouts and values are all there, named, seeded and of the right width."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pytest_frt.spec.load import load_structure
from pytest_frt.spec.modules import load_file

from .conftest import CATALOG, NAMES

SIZES = {"D": 32, "F": 64, "K": 32, "N": 48}


def inputs(name: str, rows: tuple[int, int], **options: int | torch.dtype) -> dict[str, Tensor]:
    """Return the cases of a structure by name, each name seen once."""
    cases = list(load_file(CATALOG / name / "cases.py").cases(SIZES, rows, {}, **options))
    out = {case.name: case.inputs["x"] for case in cases}
    assert len(out) == len(cases)
    return out


@pytest.mark.parametrize("name", NAMES)
def test_cases_have_the_width_of_the_boundary(name: str) -> None:
    width = SIZES[load_structure(CATALOG / name).inputs[0].shape[-1]]
    assert {x.shape[-1] for x in inputs(name, (1, 8)).values()} == {width}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [((1, 8), {0, 1, 2, 7, 8, 9}), ((4, 4), {0, 3, 4, 5}), ((0, 2), {0, 1, 2, 3}), ((1, 10**9), {0, 1, 2, 1024})],
    ids=["decode", "one_row_count", "from_zero", "open_ended"],
)
def test_every_edge_of_the_band_is_met(rows: tuple[int, int], expected: set[int]) -> None:
    found = {
        name.removeprefix("rows_"): x for name, x in inputs("linear_proj", rows).items() if name.startswith("rows_")
    }
    assert {int(count) for count in found} == expected
    assert all(x.shape == (int(count), 32) for count, x in found.items())


def test_layouts_are_what_their_names_say() -> None:
    found = inputs("linear_proj", (1, 8))
    assert [found[f"storage_offset_{n}"].storage_offset() for n in (1, 7)] == [1, 7]
    assert found["one_row_expanded"].stride(0) == 0
    assert not any(found[name].is_contiguous() for name in ("every_second_column", "every_second_row", "transposed"))
    assert found["batch_of_one"].dim() == found["many_batches"].dim() == 3


def test_values_are_what_their_names_say() -> None:
    found = inputs("linear_proj", (1, 8))
    assert not found["all_zero"].any()
    assert not found["first_row_zero"][0].any()
    assert found["first_row_zero"][1:].any(-1).all()
    assert (found["zero_variance"].var(-1) == 0).all()
    assert (found["one_hot"].sum(-1) == 1).all()
    spread = found["outlier_channel"].abs().mean(0)
    assert spread.argmax() == 16
    assert 0 < found["denormal"].max() < torch.finfo(torch.float32).tiny


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_the_plain_cases_are_all_distinct(name: str) -> None:
    x = inputs(name, (1, 8))["rows_8"]
    assert torch.unique(x, dim=0).shape == x.shape


def test_seed_decides_every_bit() -> None:
    first, again, other = (inputs("decoder_ffn", (1, 8), seed=seed) for seed in (3, 3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["rows_8"], other["rows_8"])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_dtype_is_the_one_asked_for(dtype: torch.dtype) -> None:
    found = inputs("vision_ffn", (1, 8), dtype=dtype)
    assert {x.dtype for x in found.values()} == {dtype}
    assert all(x.isfinite().all() for x in found.values())
