"""Near misses through the oracles: rounded as the scheme rounds, on few rows, and on the cases where those are calm."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytest_frt.contracts.impl import Scales
from pytest_frt.contracts.scheme import Scheme
from pytest_frt.contracts.seat import ModuleSeat, SeatFacts, SlotRef
from pytest_frt.lab.near import FEW_ROWS, Rounded, entered, pooled
from pytest_frt.lab.oracle import Answer, SeatOracle, calls_of
from pytest_frt.measure.pooled import NO_SAY
from pytest_frt.registry import Registry, load_module

REGISTRY = Registry.load()
DIM, HIDDEN = 24, 96
VARIANT = {"activation": "gelu_tanh", "norm": "none", "residual": "none"}


class Host(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gate, self.up, self.down = (
            nn.Linear(a, b, bias=False) for a, b in ((DIM, HIDDEN),) * 2 + ((HIDDEN, DIM),)
        )


HOST = Host()
FACTS = SeatFacts(
    "decoder_ffn",
    ModuleSeat("ffn"),
    VARIANT,
    {"D": DIM, "F": HIDDEN},
    {f"w_{one}": SlotRef(f"{one}.weight", transpose=True) for one in ("gate", "up", "down")},
    {},
    "float32",
    {},
)


def scheme(name: str) -> Scheme:
    found: Scheme = load_module(REGISTRY.schemes[name].file).SCHEME
    return found


def oracle(name: str) -> SeatOracle:
    return SeatOracle(HOST, FACTS, REGISTRY.structures["decoder_ffn"].spec, scheme(name), Scales())


def cases() -> Any:
    return load_module(Path(REGISTRY.structures["decoder_ffn"].folder) / "cases.py")


def rows(count: int, seed: int = 1, size: float = 3.0) -> Tensor:
    return size * torch.randn(count, DIM, generator=torch.Generator().manual_seed(seed))


def answered(name: str, calls: list[Tensor], *, near: bool, case: str = "real") -> Answer:
    """Answer as a right part of the scheme does, or as its near miss."""
    miss, *_ = cases().near_misses(VARIANT)
    product = next(iter(scheme(name).products), None)
    got = oracle(name).variant(calls, near=miss if near else None, tapped=True, product=product)
    return Answer(case, (torch.cat([row[0] for row in got]).float(),), calls)


def judged(name: str, *answers: Answer, module: Any = None) -> Any:
    at = oracle(name)
    (found,) = pooled(at, module or cases(), FACTS, answers, at.fake_quantised(calls_of(answers)))
    return found


@pytest.mark.parametrize("name", ["none", "w16a32", "w8a16_decode", "w8a8_dynamic"])
@pytest.mark.parametrize("near", [False, True], ids=["reference", "near_miss"])
def test_share_of_a_right_part_and_of_a_near_miss(name: str, *, near: bool) -> None:
    found = judged(name, answered(name, [rows(8, seed) for seed in range(4)], near=near))
    one, *_ = found.alternatives
    assert (one.name, one.rows) == ("gelu_erf", 32)
    assert one.share == pytest.approx(float(near), abs=0.02)
    assert one.spread < 0.02
    assert (found.seat, found.output, found.channels) == ("ffn", 0, DIM)


def bfloat16(y: Tensor, _w: Tensor) -> Tensor:
    return y.bfloat16().to(y.dtype)


def test_a_matmul_leaves_rounded_and_nothing_else_does() -> None:
    x, w = torch.full((2, 2), 1.01, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    rounded = x.bfloat16().double()
    with Rounded(bfloat16):
        for product in (x @ w, torch.matmul(x, w), x.matmul(w), F.linear(x, w)):
            assert torch.equal(product, rounded)
        assert torch.equal(x + 0, x)
        for biased in (F.linear(x, w, x[0]), F.linear(x, w, bias=x[0])):
            assert torch.equal(biased, rounded + x[0])
    assert torch.equal(x @ w, x)


def test_a_product_is_told_its_weight_as_it_was_multiplied() -> None:
    x, w = torch.ones(2, 3), torch.arange(6.0).view(3, 2)
    seen: list[Tensor] = []
    with Rounded(lambda y, held: seen.append(held) or y):  # type: ignore[func-returns-value]
        _ = x @ w, F.linear(x, w.T.contiguous())
    assert all(torch.equal(held, w) for held in seen)
    assert len(seen) == 2


def test_without_a_rounding_a_call_is_left_alone() -> None:
    def call(x: Tensor) -> tuple[Tensor, ...]:
        return (x @ x,)

    assert entered(None, call) is call
    x = torch.full((2, 2), 1.01)
    assert torch.equal(entered(bfloat16, call)(x)[0], (x @ x).bfloat16().float())
    assert torch.equal(call(x)[0], x @ x)


@pytest.mark.parametrize("which", [0, 1, None], ids=["codes", "scaled", "unrounded"])
def test_the_rounding_that_a_part_does_is_found(which: int | None) -> None:
    miss, *_ = cases().near_misses(VARIANT)
    product = None if which is None else scheme("w8a16_decode").products[which]
    calls = [rows(8, seed) for seed in range(4)]
    got = oracle("w8a16_decode").variant(calls, near=miss, tapped=True, product=product)
    found = judged("w8a16_decode", Answer("real", (torch.cat([row[0] for row in got]).float(),), calls))
    assert found.alternatives[0].spread < 0.02
    assert found.alternatives[0].share == pytest.approx(1.0, abs=0.02)


def test_schemes_round_products_as_they_say() -> None:
    w = torch.tensor([[127.0, 254.0, 0.0], [1.0, -2.0, 0.0]]).double() / 3
    coded, scaled = scheme("w8a16_decode").products
    y = torch.full((1, 3), 1.003, dtype=torch.float64)
    assert scaled(y, w).tolist() == [[1.0, 1.0, 1.0]]
    left = torch.tensor([3.015625, 1.5078125, 1.0], dtype=torch.float64)  # 3.009, 1.5045 and 1.003 in bfloat16
    scales = torch.tensor([1 / 3, 2 / 3, 1.0], dtype=torch.float64)
    assert torch.allclose(coded(y, w)[0], left * scales, rtol=1e-12)
    rounded = [name for name in REGISTRY.schemes if scheme(name).products]
    assert rounded == ["bf16_structural", "fp8_static_bf16", "w4a16_decode", "w8a16_decode", "w8a16_decode_bf16"]


def test_few_rows_are_whole_calls_in_order() -> None:
    calls = [rows(height, height) for height in (8, 16, 9, 8)]
    assert judged("w16a32", answered("w16a32", calls, near=True)).alternatives[0].rows == 24


def test_a_tall_call_is_cut_where_rows_stand_alone() -> None:
    tall = [rows(4 * FEW_ROWS)]
    assert judged("w16a32", answered("w16a32", tall, near=True)).alternatives[0].rows == FEW_ROWS
    found = judged("w8a8_dynamic", answered("w8a8_dynamic", tall, near=True)).alternatives[0]
    assert (found.rows, found.share) == (4 * FEW_ROWS, pytest.approx(1.0, abs=1e-3))


def test_cases_are_asked_where_real_rows_excite_nothing() -> None:
    calm = answered("w16a32", [rows(32, size=1e-3)], near=True)
    lively = answered("w16a32", [rows(16, 5)], near=True, case="lively")
    alone, *_ = judged("w16a32", calm).alternatives
    asked, *_ = judged("w16a32", calm, lively).alternatives
    assert alone.spread > 0.05
    assert (asked.rows, asked.share) == (48, pytest.approx(1.0, abs=1e-3))


def test_cases_alone_serve_where_there_are_no_real_rows() -> None:
    one, *_ = judged("w16a32", answered("w16a32", [rows(16)], near=True, case="lively")).alternatives
    assert (one.rows, one.share) == (16, pytest.approx(1.0, abs=1e-3))


def test_more_rows_that_only_scatter_are_not_believed() -> None:
    sound = answered("w8a16_decode", [rows(8, seed, 0.7) for seed in range(4)], near=False)
    noisy = answered("w8a16_decode", [rows(8, 9)], near=False, case="noisy")
    noisy = Answer("noisy", (noisy.got[0] * (1 + 0.05 * torch.randn(8, DIM)),), noisy.calls)
    few = judged("w8a16_decode", sound).alternatives[0]
    assert judged("w8a16_decode", sound, noisy).alternatives[0].spread <= few.spread


@pytest.mark.parametrize(
    "got",
    [
        pytest.param((), id="no_output"),
        pytest.param((torch.zeros(32, DIM), torch.zeros(32, DIM)), id="two_outputs"),
        pytest.param((torch.zeros(31, DIM),), id="a_row_short"),
        pytest.param((torch.zeros(32, DIM - 1),), id="narrow"),
    ],
)
def test_outputs_that_do_not_fit_are_left_to_the_word_of_their_shape(got: tuple[Tensor, ...]) -> None:
    at, wrong = oracle("none"), Answer("real", got, [rows(32)])
    (found,) = pooled(at, cases(), FACTS, [wrong], at.fake_quantised(wrong.calls))
    assert (found.rows, found.channels, found.worst) == (0, 0, ())
    right = answered("none", [rows(32)], near=True, case="lively")
    both = [wrong, right]
    (found,) = pooled(at, cases(), FACTS, both, at.fake_quantised(calls_of(both)))
    assert (found.rows, found.alternatives[0].share) == (32, pytest.approx(1.0, abs=1e-3))


def test_a_structure_that_names_none_has_none() -> None:
    found = judged("none", answered("none", [rows(32)], near=True), module=SimpleNamespace())
    assert found.alternatives == ()
    assert found.rows == 32


def test_no_rows_at_all_tell_nothing() -> None:
    one, *_ = judged("none", answered("none", [rows(0)], near=True, case="rows_0")).alternatives
    assert (one.share, one.spread) == (0.0, NO_SAY)
