"""The compiled int8 kernel against what torch has for a few rows: its own int8 op, float32, and packed float16.

Each ratio is base time over ours, from AB/BA units in one process, with an order-statistic interval of the median at
95 %. Every competitor is what an impl of ours runs, casts included; all read the same weights. Machines differ and
neighbours disturb: read ratios of one run on a quiet machine, and no microseconds.

    $ frt build csrc/w8a16_gemv
    $ python benchmarks/w8a16_gemv.py
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Final

import torch
from pytest_frt.impls._shared.seam_modules import GatedFeedForward  # type: ignore[import-not-found]
from torch import Tensor

from pytest_frt.fixtures.pairs import PairTimer, PairTiming
from pytest_frt.seat import kernels

Layer = Callable[[Tensor], Tensor]

SHAPES: Final = ((2048, 640), (640, 2048), (3072, 1024), (4096, 4096))
"""N and K of projections: of a 270M and of a 600M decoder, and one that no second-level cache holds."""
BLOCKS: Final = ((640, 2048), (1024, 3072))
"""D and F of gated blocks: of the same decoders."""
ROWS: Final = (1, 2, 4, 8)
AGREE: Final = 0.03
"""Relative L2 to float32 that no right int8 layer reaches on drawn weights; a wrong one is far beyond it."""


@dataclass(frozen=True, slots=True)
class Contest:
    """One product of ``x[..., width]``: ours and what it is compared with, by name."""

    name: str
    width: int
    ours: Layer
    others: Mapping[str, Layer]


def contests(torch_kernel: ModuleType, ours: ModuleType) -> Iterator[Contest]:
    """Yield every product, with its weights drawn from one seed."""
    drawn = torch.Generator().manual_seed(0)
    names = {"torch int8": "int8_linear", "float32": "plain_linear", "float16 packed": "fp16_linear"}
    makers = {name: getattr(torch_kernel, layer) for name, layer in names.items()}
    for rows, columns in SHAPES:
        weight = torch.randn(rows, columns, generator=drawn) * columns**-0.5
        others = {name: make([weight]) for name, make in makers.items()}
        yield Contest(f"linear {rows} x {columns}", columns, ours.int8_linear([weight]), others)
    for width, hidden in BLOCKS:
        gate, up = (torch.randn(hidden, width, generator=drawn) * width**-0.5 for _ in range(2))
        down = torch.randn(width, hidden, generator=drawn) * hidden**-0.5
        others = {name: GatedFeedForward(make([gate, up]), make([down]), "gelu_tanh") for name, make in makers.items()}
        yield Contest(f"block {width} x {hidden}", width, ours.int8_feed_forward(gate, up, down, "gelu_tanh"), others)


def check(contest: Contest, x: Tensor) -> None:
    """Stop where a layer is not the product.

    Raises:
        RuntimeError: its result lies further from float32 than int8 weights explain.
    """
    want = contest.others["float32"](x)
    for name, layer in {"ours": contest.ours, **contest.others}.items():
        error = float((layer(x) - want).norm() / want.norm())
        if not error <= AGREE:
            raise RuntimeError(f"{contest.name}: {name} is {error:.3f} from float32, more than {AGREE}")


def cell(timing: PairTiming) -> str:
    """Return a ratio with its interval."""
    return f"{timing.median:.2f} [{timing.interval.low:.2f}, {timing.interval.high:.2f}]"


@torch.no_grad()
def main() -> int:
    """Time everything and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=20, help="units per ratio, from 6 (default 20)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads of torch")
    parser.add_argument("--only", default="", help="part of a product's name, e.g. block")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch_kernel, ours = (
        kernels.load_build(kernels.resolve(repo, backend="cpu"))
        for repo in ("pytest-frt/frt-cpu", "pytest-frt/w8a16-gemv")
    )
    timer = PairTimer()
    load = os.getloadavg()[0]
    print(f"{ours.widest()}, {args.threads} threads, torch {torch.__version__}, {args.blocks} units, load {load:.1f}\n")
    print("| product | rows | torch int8 | float32 | float16 packed |\n|---|---|---|---|---|")
    for contest in contests(torch_kernel, ours):
        if args.only not in contest.name:
            continue
        for rows in ROWS:
            x = torch.randn(rows, contest.width)
            check(contest, x)
            timed = (timer(other, contest.ours, x, blocks=args.blocks) for other in contest.others.values())
            print(f"| {contest.name} | {rows} | {' | '.join(map(cell, timed))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
