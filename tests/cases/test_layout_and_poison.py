"""Cases C01 to C06: layout, alignment, tiles, unwritten memory, rows beyond the last."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from .conftest import DECODE, DIMS, Forward, place

LINEAR = place("linear_proj")
SOUND = LINEAR.sound()
WIDTH, OUT = LINEAR.facts.dims["K"], LINEAR.facts.dims["N"]


@pytest.mark.parametrize("structure", sorted(DIMS))
def test_the_reference_itself_is_never_refused(structure: str) -> None:
    at = place(structure)
    assert at.said(at.sound()) == ""


@pytest.mark.case("C01")
def test_c01_strides_read_as_if_contiguous() -> None:
    def planted(x: Tensor) -> Tensor:
        return SOUND(x.as_strided(x.shape, torch.empty(x.shape).stride()))

    refusal = LINEAR.judged(planted)
    assert refusal is not None
    assert refusal.reason == "layout"
    for layout in ("transposed", "every_second_column", "sliced_columns", "one_row_expanded"):
        assert layout in refusal.detail


@pytest.mark.case("C02")
def test_c02_contiguous_input_needed_and_not_enforced() -> None:
    def planted(x: Tensor) -> Tensor:
        return SOUND(x.view(-1).view(x.shape))

    assert LINEAR.said(planted) == "layout"
    assert LINEAR.said(lambda x: planted(x.contiguous())) == ""


def unaligned(x: Tensor) -> Tensor:
    return SOUND(x) * (1.0 if x.data_ptr() % 16 == 0 else 1.5)


def whole_vectors_only(x: Tensor) -> Tensor:
    kept = WIDTH // 8 * 8
    return SOUND(torch.cat((x[..., :kept], torch.zeros_like(x[..., kept:])), -1))


@pytest.mark.case("C03")
@pytest.mark.parametrize("planted", [unaligned, whole_vectors_only], ids=["storage_offset", "odd_width"])
def test_c03_vector_loads_need_alignment(planted: Forward) -> None:
    assert LINEAR.said(planted) in {"layout", "reference"}


def whole_tiles_only(tile: int) -> Forward:
    def planted(x: Tensor) -> Tensor:
        flat = x.reshape(-1, WIDTH)
        done = max(len(flat) // tile * tile, min(len(flat), 1))
        out = torch.zeros(len(flat), OUT)
        out[:done] = SOUND(flat[:done])
        return out.view(*x.shape[:-1], OUT)

    return planted


@pytest.mark.case("C04")
@pytest.mark.parametrize("tile", [2, 4, 8])
def test_c04_rows_beyond_the_last_whole_tile(tile: int) -> None:
    assert LINEAR.said(whole_tiles_only(tile)) in {"reference", "zeros"}
    assert LINEAR.said(whole_tiles_only(1)) == ""


@pytest.mark.case("C05")
def test_c05_padded_scales_never_written() -> None:
    def scaled(x: Tensor, scales: Tensor) -> Tensor:
        return SOUND(x) * scales[:1].nan_to_num(1.0).clamp(0.5, 2.0)  # finite, whatever lies there

    assert LINEAR.said(lambda x: scaled(x, torch.empty(4096))) == "poison"
    assert LINEAR.said(lambda x: scaled(x, torch.empty(4096).fill_(1.0))) == ""


def reads_the_next_row(x: Tensor) -> Tensor:
    beyond = x.storage_offset() + x.numel()
    if beyond < x.untyped_storage().nbytes() // x.element_size():
        return SOUND(x) + 0.0 * x.as_strided((1,), (1,), beyond)
    return SOUND(x)


def writes_the_next_row(x: Tensor) -> Tensor:
    beyond = x.storage_offset() + x.numel()
    if beyond < x.untyped_storage().nbytes() // x.element_size():
        x.as_strided((1,), (1,), beyond).zero_()
    return SOUND(x)


@pytest.mark.case("C06")
@pytest.mark.parametrize(
    ("planted", "reason"),
    [(reads_the_next_row, "layout"), (writes_the_next_row, "input_mutated")],
    ids=["read_beyond", "written_beyond"],
)
def test_c06_rows_outside_the_valid_range(planted: Forward, reason: str) -> None:
    assert LINEAR.said(planted) == reason


@pytest.mark.case("C06")
def test_c06_output_rows_of_a_larger_buffer() -> None:
    def planted(x: Tensor) -> Tensor:
        padded = torch.zeros(DECODE[1], OUT) if x.dim() == 2 and len(x) < DECODE[1] else None
        if padded is None:
            return SOUND(x)
        padded[: len(x)] = SOUND(x)
        return padded[: len(x)]

    assert LINEAR.said(planted) == "aliased_output"
