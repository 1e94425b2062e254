"""The compiled int8 kernel: every path against float64, the same bits whatever is beside it, and refusals by name."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from pytest_frt.errors import KernelUnavailable
from pytest_frt.schemes import w8a16_decode
from pytest_frt.seat import kernels
from pytest_frt.seat.compiled import build_compiled, build_id, find_compiler, read_compiled
from pytest_frt.seat.noarch import read_project

from .conftest import K
from .test_layers import LAYOUTS
from .w8a16_oracle import gate, products, slope, weights, within

REPO = "pytest-frt/w8a16-gemv"
ROWS = range(1, 9)
SHAPES = [(1, 1), (2, 3), (34, 15), (66, 16), (70, 33), (48, 4112)]  # N, K: odd, even, and beyond a stretch of depth
LARGE = (640, 2048)  # enough codes for several threads


@pytest.fixture(scope="session")
def folder(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a build of the sources as they are: the one in the tree, or a fresh one where it is older or absent."""
    project = read_project(repository / "csrc" / "w8a16_gemv")
    try:
        compiler = find_compiler()
    except KernelUnavailable as absent:
        pytest.skip(absent.message)
    compiled = read_compiled(project)
    there = project.folder / "build" / compiled.variant
    if (there / f"{build_id(compiled, compiler)}.abi3.so").is_file():
        return there
    return build_compiled(compiled, tmp_path_factory.mktemp("w8a16"), compiler)


@pytest.fixture(scope="session")
def w8(folder: Path) -> ModuleType:
    """Return the loaded kernel."""
    return kernels.load_build(kernels.read_build(REPO, folder, backend="cpu"))


@pytest.fixture(params=["plain", "avx2", "avx512"])
def path(request: pytest.FixtureRequest, w8: ModuleType) -> str:
    """Return each path that this CPU has in turn."""
    name: str = request.param
    if w8.PATHS[name] > w8.PATHS[w8.widest()]:
        pytest.skip(f"this CPU has no {name}")
    return name


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rows", ROWS)
def test_linear_is_float64(w8: ModuleType, path: str, rows: int, shape: tuple[int, int]) -> None:
    codes, scale, bias = weights(shape)
    x = torch.randn(rows, shape[1])
    want, bound = products(x, codes, scale)
    got = w8.linear(x, codes, scale, bias, path)
    assert within(got, want + bias.double(), bound + (want.abs() + bias.abs()) * 2.0**-23)


@pytest.mark.parametrize("activation", ["gelu_tanh", "silu"])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[0] % 2 == 0], ids=str)
@pytest.mark.parametrize("rows", ROWS)
def test_gated_is_float64(w8: ModuleType, path: str, rows: int, shape: tuple[int, int], activation: str) -> None:
    codes, scale, _ = weights(shape)
    x = torch.randn(rows, shape[1])
    assert within(w8.gated(x, codes, scale, activation, path), *gate(activation, codes, x, scale))


@pytest.mark.parametrize("activation", ["gelu_tanh", "silu"])
def test_activation_is_right_over_its_whole_range(w8: ModuleType, path: str, activation: str) -> None:
    x = torch.linspace(-95, 95, 800).bfloat16().float()[:, None]
    ones = torch.ones(2, 1, dtype=torch.int8), torch.ones(2)
    got = torch.cat([w8.gated(rows, *ones, activation, path) for rows in x.split(8)])
    wide, z = x.double(), slope(activation, x.double())
    want = wide * torch.sigmoid(z) * wide
    # An error of z is a relative one of exp(z); what float32 holds as subnormal only is rounded to that.
    assert within(got, want, want.abs() * (z.abs() + 4) * 2.0**-21 + wide.abs() * 2.0**-126)


MISTAKES: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "up_before_gate": lambda x, c: (x, c.roll(c.shape[0] // 2, 0)),
    "last_input_dropped": lambda x, c: (torch.cat([x[:, :-1], 0 * x[:, -1:]], -1), c),
    "one_code_off": lambda x, c: (x, c + torch.eye(*c.shape, dtype=torch.int8)),
    "row_of_a_neighbour": lambda x, c: (x.roll(1, 0), c),
    "activations_one_step_off": lambda x, c: ((x * (1 + 2.0**-8)).bfloat16().float(), c),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_bound_tells_a_mistake(w8: ModuleType, mistake: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
    codes, scale, _ = weights((70, 33))
    codes.clamp_(-126, 126)
    x = torch.randn(3, 33).bfloat16().float()
    wrong, changed = mistake(x, codes)
    assert not within(w8.gated(wrong, changed, scale, "silu"), *gate("silu", codes, x, scale))


def test_bound_tells_one_activation_from_the_other(w8: ModuleType) -> None:
    codes, scale, _ = weights((70, 33))
    x = torch.randn(3, 33)
    assert not within(w8.gated(x, codes, scale, "silu"), *gate("gelu_tanh", codes, x, scale))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_paths_give_the_same_bits(w8: ModuleType, path: str, shape: tuple[int, int]) -> None:
    codes, scale, bias = weights(shape)
    for rows in ROWS:
        x = torch.randn(rows, shape[1])
        other = w8.linear(x, codes, scale, bias, "plain" if path != "plain" else w8.widest())
        assert torch.equal(w8.linear(x, codes, scale, bias, path), other)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_threads_give_the_same_bits(w8: ModuleType, count: int) -> None:
    codes, scale, _ = weights(LARGE)
    x = torch.randn(4, LARGE[1])
    torch.set_num_threads(1)
    alone = w8.gated(x, codes, scale, "gelu_tanh")
    torch.set_num_threads(count)
    assert all(torch.equal(w8.gated(x, codes, scale, "gelu_tanh"), alone) for _ in range(5))


def test_row_depends_on_no_other(w8: ModuleType, path: str) -> None:
    codes, scale, _ = weights((70, 33))
    x = torch.randn(8, 33)
    together = w8.linear(x, codes, scale, None, path)
    for rows in ROWS:
        assert torch.equal(w8.linear(x[8 - rows :], codes, scale, None, path), together[8 - rows :])


def test_callers_meet_without_a_trace(w8: ModuleType) -> None:
    codes, scale, _ = weights(LARGE)
    inputs = [torch.randn(rows, LARGE[1]) for rows in ROWS] * 4
    alone = [w8.linear(x, codes, scale) for x in inputs]
    with ThreadPoolExecutor(4) as callers:
        met = list(callers.map(lambda x: w8.linear(x, codes, scale), inputs))
    assert all(torch.equal(a, b) for a, b in zip(met, alone, strict=True))


FORKED = """
import os, sys, torch
from pathlib import Path
from pytest_frt.seat import kernels
w8 = kernels.load_build(kernels.read_build("pytest-frt/w8a16-gemv", Path(sys.argv[1]), backend="cpu"))
torch.set_num_threads(3)
codes, scale, x = torch.randint(-127, 128, (640, 2048), dtype=torch.int8), torch.rand(640), torch.randn(2, 2048)
before = w8.linear(x, codes, scale)  # starts the threads that a forked process lacks
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os._exit(0 if torch.equal(w8.linear(x, codes, scale), before) else 3)
"""


def test_forked_process_gets_the_same_bits_and_no_hang(folder: Path) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, str(folder)]
    assert subprocess.run(command, timeout=120, check=False).returncode == 0


def test_block_compiles_whole(w8: ModuleType) -> None:
    block = w8.int8_feed_forward(torch.randn(10, 7), torch.randn(10, 7), torch.randn(7, 10), "silu")
    torch.compiler.reset()
    with torch.no_grad():
        compiled = torch.compile(block, fullgraph=True, dynamic=True)
        for rows in (1, 3, 8):
            x = torch.randn(rows, 7)
            assert torch.equal(compiled(x), block(x))


@pytest.mark.parametrize("name", ["linear", "gelu_tanh_gated", "silu_gated"])
def test_op_keeps_its_schema_and_shape(w8: ModuleType, name: str) -> None:
    codes, scale, _ = weights((10, 7))
    op = getattr(w8.ops.ops, name).default
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    found = torch.library.opcheck(op, (torch.randn(2, 3, 7)[:, :2], codes, scale), test_utils=checks)
    assert set(found.values()) == {"SUCCESS"}


def test_layer_is_its_scheme(w8: ModuleType) -> None:
    pieces = [torch.randn(5, 9), 3 * torch.randn(4, 9)]
    pieces[0][2] = 0
    layer = w8.int8_linear(pieces)
    want = torch.cat([w8a16_decode.weight(piece.double(), 0) for piece in pieces])
    assert torch.equal(layer.codes.double() * layer.scale.double()[:, None], want)


EDGES = [0.0, -0.0, 1.00390625, 1.01171875, 2.0**-133, -(2.0**-127), 3.3961775e38, 65504.0]  # halves, subnormals, ends


def test_activations_enter_rounded_half_to_even(w8: ModuleType) -> None:
    x = torch.cat([torch.tensor(EDGES), torch.randn(56)])[None]
    got = torch.cat([w8.linear(x[:, k : k + 1], torch.ones(1, 1, dtype=torch.int8), torch.ones(1)) for k in range(64)])
    assert torch.equal(got[:, 0], x[0].bfloat16().float())


def test_bfloat16_comes_and_goes_as_itself(w8: ModuleType, path: str) -> None:
    codes, scale, bias = weights((70, 33))
    x = torch.randn(5, 33)
    got = w8.linear(x.bfloat16(), codes, scale, bias, path)
    assert got.dtype == torch.bfloat16
    assert torch.equal(got, w8.linear(x, codes, scale, bias, path).bfloat16())


@pytest.mark.parametrize("draw", LAYOUTS.values(), ids=LAYOUTS)
def test_layout_changes_nothing(w8: ModuleType, path: str, draw: Callable[[], Tensor]) -> None:
    codes, scale, _ = weights((71, K))
    shifted = torch.cat([codes.new_zeros(1), codes.flatten()])[1:].view(71, K)  # no row starts on an even address
    x = draw()
    before = x.clone()
    got = w8.linear(x, shifted, scale, None, path)
    assert torch.equal(got, w8.linear(x.reshape(-1, K).contiguous(), codes, scale).view(*x.shape[:-1], 71))
    assert torch.equal(x, before)


@pytest.mark.parametrize("shape", [(0, 7), (2, 0, 7)], ids=str)
def test_no_rows_give_no_rows(w8: ModuleType, shape: tuple[int, ...]) -> None:
    codes, scale, _ = weights((10, 7))
    assert w8.gated(torch.empty(shape), codes, scale, "silu").shape == (*shape[:-1], 5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf], ids=str)
@pytest.mark.parametrize("activation", ["gelu_tanh", "silu"])
def test_bad_number_stays_in_its_row(w8: ModuleType, path: str, activation: str, bad: float) -> None:
    codes, scale, _ = weights((70, 33))
    codes[:, 32] = 3
    x = torch.randn(3, 33)
    x[1, 32] = bad
    got = w8.gated(x, codes, scale, activation, path).isfinite()
    assert got[::2].all()
    assert not got[1].any()


def test_channel_without_scale_is_zero(w8: ModuleType, path: str) -> None:
    codes, scale, _ = weights((70, 33))
    scale[3] = 0
    got = w8.linear(torch.randn(2, 33), codes, scale, None, path)
    assert (got[:, 3] == 0).all()
    assert (got[:, 4] != 0).all()


def test_every_number_of_a_poisoned_output_is_written(w8: ModuleType, path: str) -> None:
    codes, scale, _ = weights((70, 33))
    torch.use_deterministic_algorithms(mode=True)  # torch then fills new memory with NaN
    try:
        assert torch.empty(8).isnan().all()
        assert not any(w8.linear(torch.randn(rows, 33), codes, scale, None, path).isnan().any() for rows in ROWS)
    finally:
        torch.use_deterministic_algorithms(mode=False)


def test_modes_of_a_thread_change_nothing(w8: ModuleType, path: str) -> None:
    codes, scale, _ = weights((70, 33))
    x = torch.full((2, 33), 2.0**-132)
    before = w8.linear(x, codes, 1e-3 * scale, None, path)
    flushes = torch.set_flush_denormal(True)  # False where the CPU cannot
    after = w8.linear(x, codes, 1e-3 * scale, None, path)
    kept = flushes and float(torch.full((8,), 2.0**-132).mul(1.0).sum()) == 0
    torch.set_flush_denormal(False)
    assert torch.equal(after, before)
    assert kept or not flushes, "the caller's own mode was not put back"


REFUSALS: dict[str, tuple[str, Callable[[ModuleType, Tensor, Tensor], object]]] = {
    "nine_rows": ("x has 9 rows, the kernel takes up to 8", lambda k, c, s: k.linear(torch.randn(9, 7), c, s)),
    "dtype": ("x must be float32 or bfloat16", lambda k, c, s: k.linear(torch.randn(1, 7).half(), c, s)),
    "width": (r"x must be \[\.\.\., 7\]", lambda k, c, s: k.linear(torch.randn(1, 8), c, s)),
    "scales": ("one number per row of codes", lambda k, c, s: k.linear(torch.randn(1, 7), c, s[1:])),
    "codes_dtype": ("codes must be int8", lambda k, c, s: k.linear(torch.randn(1, 7), c.float(), s)),
    "codes_layout": ("must be contiguous", lambda k, c, s: k.linear(torch.randn(1, 7), c.t().contiguous().t(), s)),
    "bias": (r"bias must be \[9\]", lambda k, c, s: k.linear(torch.randn(1, 7), c, s, s[1:])),
    "half_a_pair": ("odd number of rows: 9", lambda k, c, s: k.gated(torch.randn(1, 7), c, s, "silu")),
    "gradient": ("has no gradient", lambda k, c, _: k.int8_linear([c.float()])(torch.randn(1, 7, requires_grad=True))),
    "nan_weight": ("holds NaN", lambda k, c, s: k.int8_linear([c * s[:, None] * math.nan])),
    "activation": ("'relu' is none of", lambda k, c, _: k.int8_gated(c.float(), c.float(), "relu")),
}


@pytest.mark.parametrize(("words", "call"), REFUSALS.values(), ids=REFUSALS)
def test_bad_input_is_refused_by_name(w8: ModuleType, words: str, call: Callable[..., object]) -> None:
    codes, scale, _ = weights((9, 7))
    with pytest.raises((RuntimeError, ValueError), match=words):
        call(w8, codes, scale)
