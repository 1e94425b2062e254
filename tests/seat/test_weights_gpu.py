"""Weights on a GPU have the digest that they have on the CPU, whatever their layout and whoever writes to them last."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.contracts.seat import ModuleSeat, SeatFacts, SlotRef
from pytest_frt.seat.weights import WeightHasher

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
FACTS = SeatFacts("any", ModuleSeat(""), {}, {}, {"w": SlotRef("w")}, {}, "float32", {})


def model_of(weight: Tensor) -> nn.Module:
    model = nn.Module()
    model.register_buffer("w", weight)
    return model


def digest(weight: Tensor) -> str:
    return WeightHasher().digest(model_of(weight), FACTS)


def plain(dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "row-major": lambda w: w,
    "column-major": lambda w: w.T,
    "every other row": lambda w: w[::2],
    "an offset": lambda w: w.reshape(-1)[3:],
    "expanded": lambda w: w[:1].expand(5, -1),
    "empty": lambda w: w[:0],
    "one element": lambda w: w[0, 0],
}
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.int8]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda one: str(one).removeprefix("torch."))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_digest_is_that_of_the_cpu(layout: str, dtype: torch.dtype) -> None:
    weight = plain(dtype, 300, 771)
    assert digest(LAYOUTS[layout](weight.cuda())) == digest(LAYOUTS[layout](weight))


def test_more_bytes_than_all_buffers_hold() -> None:
    weight = plain(torch.float32, 4096, 5003)  # 82 MB
    on_gpu = weight.cuda()
    assert digest(on_gpu) == digest(weight)
    on_gpu[4095, 5002] += 1
    assert digest(on_gpu) != digest(weight)


@pytest.mark.parametrize("late", ["the current stream", "a stream that the current one waits for"])
def test_writes_that_are_still_queued_are_hashed(late: str) -> None:
    weight = plain(torch.float32, 2048, 2048)
    on_gpu = torch.zeros_like(weight, device="cuda")
    source = weight.cuda()
    side = torch.cuda.Stream() if "waits" in late else torch.cuda.current_stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)  # a tenth of a second
        on_gpu.copy_(source)
    torch.cuda.current_stream().wait_stream(side)
    assert digest(on_gpu) == digest(weight)
