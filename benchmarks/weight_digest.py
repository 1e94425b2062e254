"""How fast weights are hashed, beside ``hashlib.sha256`` over the same bytes on one thread and on every core.

Every round hashes the same memory once per way, in an order drawn anew, so that a change of clock or of load meets all
ways alike. Rates are bytes by wall time; the interval holds the middle half of the rounds.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import torch
from torch import nn

from pytest_frt.contracts.seat import ModuleSeat, SeatFacts, SlotRef
from pytest_frt.seat.weights import WeightHasher

RESULT: Final = Path(__file__).parent / "results" / "weight_digest.md"
MIB: Final = 1 << 20
SLOTS: Final = 4
COLUMNS: Final = 4096


def model_of(megabytes: int, device: str, *, strided: bool) -> nn.Module:
    """Return a model whose four weights take ``megabytes`` MiB together, each row-major or column-major in memory."""
    generator = torch.Generator().manual_seed(0)
    rows = megabytes * MIB // (SLOTS * 2 * COLUMNS)
    model = nn.Module()
    for index in range(SLOTS):
        weight = torch.randn(rows, COLUMNS, generator=generator).to(device, torch.bfloat16)
        model.register_buffer(f"w{index}", weight.T.contiguous().T if strided else weight)
    return model


FACTS: Final = SeatFacts(
    "any", ModuleSeat(""), {}, {}, {f"w{index}": SlotRef(f"w{index}") for index in range(SLOTS)}, {}, "bfloat16", {}
)


def ways(megabytes: int, device: str) -> dict[str, Callable[[], object]]:
    """Return what is compared, by name; each hashes the same number of bytes."""
    cores, plain = os.cpu_count() or 1, model_of(megabytes, "cpu", strided=False)
    memory = [buffer.view(torch.uint8).reshape(-1).numpy().data for buffer in plain.buffers()]
    parts = [view[at : at + (view.nbytes + cores - 1) // cores] for view in memory
             for at in range(0, view.nbytes, (view.nbytes + cores - 1) // cores)]  # fmt: skip

    def on_every_core() -> list[str]:
        with ThreadPoolExecutor(cores) as pool:
            return list(pool.map(lambda part: hashlib.sha256(part).hexdigest(), parts))

    strided = model_of(megabytes, "cpu", strided=True)
    found: dict[str, Callable[[], object]] = {
        "hashlib, 1 thread": lambda: [hashlib.sha256(view).hexdigest() for view in memory],
        f"hashlib, {cores} threads": on_every_core,
        "digest, 1 thread": lambda: WeightHasher(threads=1).digest(plain, FACTS),
        f"digest, {cores} threads": lambda: WeightHasher().digest(plain, FACTS),
        f"digest, {cores} threads, column-major": lambda: WeightHasher().digest(strided, FACTS),
    }
    if device != "cpu":
        hashers = WeightHasher(), WeightHasher()
        for name, hasher, layout in zip(("", ", column-major"), hashers, (False, True), strict=True):
            found[f"digest, {cores} threads, from {device}{name}"] = _from(device, hasher, megabytes, strided=layout)
    return found


def _from(device: str, hasher: WeightHasher, megabytes: int, *, strided: bool) -> Callable[[], object]:
    """Return a way whose pinned buffers are kept, while no digest is: its tensors count as written to each time."""
    model = model_of(megabytes, device, strided=strided)

    def run() -> str:
        for buffer in model.buffers():
            buffer[:1, :1].mul_(1)
        return hasher.digest(model, FACTS)

    return run


def measure(compared: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each way, round by round, after one untimed run of each.

    Raises:
        RuntimeError: two ways to the digest of the same weights disagree.
    """
    answers = {name: run() for name, run in compared.items()}
    if len({answer for name, answer in answers.items() if name.startswith("digest")}) != 1:
        raise RuntimeError(f"the ways to one digest disagree: {answers}")
    seconds: dict[str, list[float]] = {name: [] for name in compared}
    order = random.Random(0)  # noqa: S311 (an order of measurement)
    for _ in range(rounds):
        for name in order.sample(list(compared), len(compared)):
            began = time.perf_counter()
            compared[name]()
            seconds[name].append(time.perf_counter() - began)
    return seconds


def table(seconds: Mapping[str, list[float]], megabytes: int) -> str:
    """Return the rates as markdown; ratios are medians over rounds against ``hashlib`` on as many threads."""
    base = list(seconds)
    lines = ["| way | GB/s | middle half | against hashlib on as many threads |", "|---|---|---|---|"]
    for name, found in seconds.items():
        rates = sorted(megabytes * MIB / one / 1e9 for one in found)
        quarter = len(rates) // 4
        beside = seconds[base[0] if "1 thread" in name else base[1]]
        ratio = statistics.median(other / own for other, own in zip(beside, found, strict=True))
        middle = f"{rates[quarter]:.2f} to {rates[-quarter - 1]:.2f}"
        lines.append(f"| {name} | {statistics.median(rates):.2f} | {middle} | {ratio:.2f} |")
    return "\n".join(lines)


def main() -> int:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256, help="MiB of weights (default 256)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds (default 20)")
    parser.add_argument("--device", default="cpu", help="also hash from this torch device, e.g. cuda")
    parser.add_argument("--out", type=Path, default=RESULT, help="markdown file to write")
    args = parser.parse_args()
    seconds = measure(ways(args.megabytes, args.device), args.rounds)
    text = (
        f"# Weight digest\n\n{args.megabytes} MiB of bfloat16 in {SLOTS} slots, {args.rounds} rounds, {os.cpu_count()} "
        f"cores. Medians of wall time; see the head of `benchmarks/weight_digest.py`.\n\n"
        f"{table(seconds, args.megabytes)}\n"
    )
    args.out.write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
