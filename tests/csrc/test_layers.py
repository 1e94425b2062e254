"""Each layer computes its scheme, for any rows and layout, and touches nothing that is not its own."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor

from .conftest import LAYERS, K, Layer, N, error, expected

ROWS = [1, 2, 7, 8, 9]
LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "every_second_column": lambda: torch.randn(5, 2 * K)[:, ::2],
    "every_second_row": lambda: torch.randn(10, K)[::2],
    "transposed": lambda: torch.randn(K, 5).t(),
    "one_row_expanded": lambda: torch.randn(1, K).expand(5, K),
    "storage_offset": lambda: torch.randn(5 * K + 3)[3:].view(5, K),
    "leading_axes": lambda: torch.randn(2, 3, K),
    "no_leading_axis": lambda: torch.randn(K),
}
NO_ROWS = [(0, K), (2, 0, K)]


@pytest.mark.parametrize("rows", ROWS)
def test_layer_is_its_scheme(
    kernel: ModuleType, layer: Layer, weights: list[Tensor], biases: list[Tensor], rows: int
) -> None:
    x = torch.randn(rows, K)
    got = layer.build(kernel, weights, biases)(x)
    assert error(got, expected(layer, x, weights, biases)) <= layer.tolerance


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("name", [name for name in LAYERS if name != "kept"])
def test_layout_changes_nothing(
    kernel: ModuleType, weights: list[Tensor], name: str, layout: Callable[[], Tensor]
) -> None:
    part = LAYERS[name].build(kernel, weights, [])
    x = layout()
    before = x.clone()
    got = part(x)
    assert torch.equal(got, part(x.contiguous().view(-1, K)).view(*x.shape[:-1], N))
    assert torch.equal(x, before)
    assert got.is_contiguous()


@pytest.mark.parametrize("shape", NO_ROWS, ids=str)
def test_no_rows_give_no_rows(kernel: ModuleType, layer: Layer, weights: list[Tensor], shape: tuple[int, ...]) -> None:
    got = layer.build(kernel, weights, [])(torch.empty(shape))
    assert (got.shape, got.dtype) == ((*shape[:-1], N), torch.float32)


@pytest.mark.parametrize("rows", [1, 4])
def test_output_is_fresh(
    kernel: ModuleType, layer: Layer, weights: list[Tensor], biases: list[Tensor], rows: int
) -> None:
    part = layer.build(kernel, weights, biases)
    x = torch.randn(rows, K)
    got = part(x)
    kept = got.clone()
    for _ in range(2):
        got.zero_()  # hosts add their residual in place
        got = part(x)
        assert torch.equal(got, kept)


def test_table_keeps_64_inputs_by_their_bytes(kernel: ModuleType, weights: list[Tensor]) -> None:
    part = kernel.table_linear(weights)
    zeros = [torch.zeros(1, K), -torch.zeros(1, K)]
    for x in (*zeros, torch.randn(2, K), *torch.randn(70, 1, K), *zeros):
        part(x)
    found = kernel.held.take(part.handle, kernel.held.Table).found
    assert (len(found), *list(found)[:2]) == (64, *(x.numpy().tobytes() for x in zeros))


def test_table_answers_from_what_it_keeps(kernel: ModuleType, weights: list[Tensor]) -> None:
    part, x = kernel.table_linear(weights), torch.randn(1, K)
    part(x)
    (kept,) = kernel.held.take(part.handle, kernel.held.Table).found.values()
    kept.fill_(7.0)
    assert (part(x.clone()) == 7).all()  # and so it cannot have been projected again


def test_pack_neither_writes_to_nor_keeps_what_it_is_given(
    kernel: ModuleType, layer: Layer, weights: list[Tensor], biases: list[Tensor]
) -> None:
    before = [tensor.clone() for tensor in (*weights, *biases)]
    part = layer.build(kernel, weights, biases)
    assert all(torch.equal(a, b) for a, b in zip(before, (*weights, *biases), strict=True))
    x = torch.randn(4, K)
    kept = part(x)
    for tensor in (*weights, *biases):
        tensor.zero_()
    assert torch.equal(part(x), kept)


def test_pack_of_parameters_keeps_no_graph_and_no_parameter(
    kernel: ModuleType, layer: Layer, weights: list[Tensor]
) -> None:
    part = layer.build(kernel, [piece.clone().requires_grad_() for piece in weights], [])
    got = part(torch.randn(2, K))
    assert not got.requires_grad
    assert not list(part.parameters())
    assert not part.state_dict()


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
def test_layer_compiles_whole(kernel: ModuleType, layer: Layer, weights: list[Tensor], backend: str) -> None:
    part = layer.build(kernel, weights, [])
    x = torch.randn(5, K)
    torch.compiler.reset()
    with torch.no_grad():
        assert torch.equal(torch.compile(part, fullgraph=True, backend=backend)(x), part(x))


def test_two_layers_compile_over_their_own_weights(kernel: ModuleType, layer: Layer, weights: list[Tensor]) -> None:
    parts = [layer.build(kernel, weights, []), layer.build(kernel, [-piece for piece in weights], [])]
    x = torch.randn(5, K)
    torch.compiler.reset()
    with torch.no_grad():
        for part in parts:
            assert torch.equal(torch.compile(part, fullgraph=True, backend="aot_eager")(x), part(x))


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "fp8"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")], ids=["nan", "inf"])
def test_bad_input_stays_bad(kernel: ModuleType, weights: list[Tensor], name: str, bad: float) -> None:
    x = torch.randn(3, K)
    x[1, 5] = bad
    assert not LAYERS[name].build(kernel, weights, [])(x)[1].isfinite().any()


def test_fp8_keeps_nan_and_clamps_infinity(kernel: ModuleType, weights: list[Tensor]) -> None:
    part = LAYERS["fp8"].build(kernel, weights, [])
    x = torch.randn(2, K)
    x[0, 5], x[1, 5] = float("nan"), float("inf")
    got = part(x)
    assert got[0].isnan().all()
    assert got[1].isfinite().all()


def test_input_of_another_dtype_is_refused(kernel: ModuleType, layer: Layer, weights: list[Tensor]) -> None:
    with pytest.raises(TypeError, match=r"takes float32, got torch\.bfloat16"):
        layer.build(kernel, weights, [])(torch.randn(2, K).bfloat16())


def test_input_of_another_width_is_refused(kernel: ModuleType, layer: Layer, weights: list[Tensor]) -> None:
    with pytest.raises(ValueError, match="takes 32 features, got 31"):
        layer.build(kernel, weights, [])(torch.randn(2, K - 1))


def test_gradient_is_refused_not_dropped(kernel: ModuleType, layer: Layer, weights: list[Tensor]) -> None:
    part = layer.build(kernel, weights, [])
    x = torch.randn(2, K, requires_grad=True)
    with pytest.raises(RuntimeError, match="has no gradient"):
        part(x)
    with torch.no_grad():
        part(x)
