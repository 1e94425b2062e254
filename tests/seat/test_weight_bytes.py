"""Blocks of any strides hold every element once and in order; what has no plain bytes says why."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.seat import weight_bytes
from pytest_frt.seat.weight_bytes import BLOCK, PLAIN_DTYPES, blocks, obstacle, own_memory, words
from pytest_frt.seat.weight_copies import fill

COUNT = torch.arange(2 * 3 * 4 * 5, dtype=torch.int32)
STRIDED: dict[str, Tensor] = {
    "transposed": COUNT.view(24, 5).T,
    "permuted": COUNT.view(2, 3, 4, 5).permute(3, 1, 0, 2),
    "every third": COUNT[::3],
    "column": COUNT.view(24, 5)[:, 2],
    "inner slice": COUNT.view(2, 3, 4, 5)[:, 1:, 1:3, ::2],
    "repeated": COUNT[:7].expand(4, 7),
    "offset": COUNT[11:],
    "scalar": COUNT[3],
    "empty": COUNT.view(24, 5)[:, :0],
}


def gathered(bits: Tensor, size: int) -> list[bytes]:
    buffer = torch.empty(size, dtype=torch.uint8)
    return [bytes(buffer[: fill(buffer, views)].numpy()) for views in blocks(bits, size)]


@pytest.mark.parametrize("size", [4, 12, 20, 64, 4096])
@pytest.mark.parametrize("tensor", STRIDED.values(), ids=STRIDED)
def test_blocks_are_the_elements_in_order(tensor: Tensor, size: int) -> None:
    found = gathered(tensor, size)
    assert b"".join(found) == tensor.contiguous().numpy().tobytes()
    assert all(len(block) == size for block in found[:-1])


@pytest.mark.parametrize("shape", [(1 << 20, 4097), (3, 1 << 31), ((1 << 32) + 3,), (2, 1 << 16, 1 << 15)], ids=str)
def test_sizes_beyond_2_to_the_31_are_counted_exactly(shape: tuple[int, ...]) -> None:
    giant = torch.empty(shape, dtype=torch.uint8, device="meta").permute(*reversed(range(len(shape))))
    step = 1 << 28
    sizes = [sum(view.numel() for view in views) for views in blocks(giant, step)]
    assert sum(sizes) == math.prod(shape)
    assert sizes == [step] * (len(sizes) - 1) + [math.prod(shape) - step * (len(sizes) - 1)]


@pytest.mark.parametrize("dtype", sorted(PLAIN_DTYPES, key=str), ids=str)
def test_words_hold_the_bytes_of_every_plain_dtype(dtype: torch.dtype) -> None:
    raw = torch.arange(16 * 6, dtype=torch.uint8)
    tensor = (raw % 2 if dtype is torch.bool else raw).view(dtype)
    memory = own_memory(words(tensor))
    assert memory is not None
    assert bytes(memory) == tensor.view(torch.uint8).numpy().tobytes()
    square = words(tensor.reshape(2, -1).T)
    expected = words(tensor.reshape(2, -1).T.contiguous()).reshape(-1).view(torch.uint8).numpy().tobytes()
    assert b"".join(gathered(square, 32)) == expected


def test_contiguous_memory_is_not_copied() -> None:
    tensor = torch.zeros(64, 8)[5:9]
    memory = own_memory(words(tensor))
    assert memory is not None
    tensor.fill_(1.0)
    assert bytes(memory) == torch.ones(4, 8).numpy().tobytes()


@pytest.mark.parametrize("change", [torch.conj, torch.Tensor.neg], ids=["conjugated", "negated"])
def test_lazily_changed_elements_are_those_a_reader_sees(change: Callable[[Tensor], Tensor]) -> None:
    plain = torch.tensor([1 + 2j, 3 - 4j])
    lazy = change(plain) if change is torch.conj else torch.conj(plain).imag
    solid = lazy.clone().resolve_conj().resolve_neg().contiguous()
    assert lazy.is_conj() or lazy.is_neg()
    assert b"".join(gathered(words(lazy), BLOCK)) == solid.numpy().tobytes()


class Packed(torch.Tensor):
    """Decides itself what its elements are."""


OBSTACLES: dict[str, tuple[Callable[[], Tensor], str]] = {
    "meta": (lambda: torch.empty(2, device="meta"), "meta device"),
    "sparse": (lambda: torch.eye(2).to_sparse(), "layout sparse_coo"),
    "sparse rows": (lambda: torch.eye(2).to_sparse_csr(), "layout sparse_csr"),
    "quantised": (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "dtype qint8"),
    "subclass": (lambda: torch.ones(2).as_subclass(Packed), "is a Packed"),
    "packed parameter": (lambda: nn.Parameter(torch.ones(2).as_subclass(Packed)), "is a "),
    "sub-byte": (lambda: torch.empty(2, dtype=torch.uint4), "dtype uint4"),
}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(("make", "said"), OBSTACLES.values(), ids=OBSTACLES)
def test_what_has_no_plain_bytes_says_why(make: Callable[[], Tensor], said: str) -> None:
    assert said in obstacle(make())


@pytest.mark.parametrize(
    "make", [torch.ones, lambda n: nn.Parameter(torch.ones(n)), lambda n: nn.Buffer(torch.ones(n))]
)
def test_plain_tensors_parameters_and_buffers_have_none(make: Callable[[int], Tensor]) -> None:
    assert obstacle(make(3)) == ""


def test_big_endian_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_bytes.sys, "byteorder", "big")
    assert "big-endian" in obstacle(torch.ones(1))
