"""The hosts as a worker loads them, built once per module at tiny size."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.contracts.host import BuildRequest, HostSpec, Sample
from pytest_frt.contracts.structure import Structure
from pytest_frt.contracts.verdict import Verdict
from pytest_frt.measure.metrics import host_metrics
from pytest_frt.registry import load_module
from pytest_frt.rules.bands import judge_samples
from pytest_frt.seat import tree
from pytest_frt.seat.discover import discover
from pytest_frt.seat.observe import observe, split
from pytest_frt.spec.load import load_host, load_structure

ROOT = Path(__file__).resolve().parents[2]
HOSTS = ROOT / "hosts"
STRUCTURES = [load_structure(file.parent) for file in sorted((ROOT / "catalog").glob("*/structure.yaml"))]
Request = Callable[..., BuildRequest]


@dataclass(frozen=True, slots=True)
class Tiny:
    """One host, built tiny."""

    spec: HostSpec
    program: Any
    model: Any
    request: BuildRequest

    def draw(self, count: int) -> list[Sample]:
        return list(islice(self.program.samples(self.request), count))

    def calls(self, phase: str, *ends: str) -> dict[str, Counter[int]]:
        """Return the calls of the modules whose path ends so in one run, by rows."""
        state, seen = self.program.prepare(self.model, self.draw(1), phase), dict[str, Counter[int]]()
        hooks = [
            module.register_forward_pre_hook(
                lambda _module, args, path=path: seen.setdefault(path, Counter()).update([args[0][..., 0].numel()])
            )
            for path, module in self.model.named_modules()
            if path.endswith(ends)
        ]
        self.program.run(self.model, state)
        for hook in hooks:
            hook.remove()
        return seen

    def discovered(self, structures: list[Structure] = STRUCTURES) -> tuple[Any, Any]:
        """Return the seats of some structures, the whole catalog else, and the rows of what is in none."""
        return discover(self.model, structures, self.spec)

    def assert_placed(self, structures: list[Structure] = STRUCTURES) -> None:
        """Assert that every linear and norm is in a seat or listed with a reason, and none both."""
        seats, rest = self.discovered(structures)
        modules = dict(self.model.named_modules())
        layers = {path for path, module in modules.items() if tree.is_matrix_layer(module) or tree.is_norm(module)}
        assert layers >= {path for path, module in modules.items() if isinstance(module, nn.Linear | nn.LayerNorm)}
        covered = {path for path in layers if any(tree.under_any(path, seat.seat.places) for seat in seats)}
        listed = {row.path: row.reason for row in rest if row.kind in {"linear", "norm"}}
        assert covered | set(listed) == layers
        assert not covered & set(listed)
        assert all(listed.values())

    def judged(self, got: list[Tensor], want: list[Tensor]) -> Verdict:
        """Return what the host band says of scores."""
        kind, pairs = self.spec.output, enumerate(zip(got, want, strict=True))
        return judge_samples(kind, [host_metrics(*pair, kind, index) for index, pair in pairs])

    def served(self) -> tuple[Any, Any]:
        """Return the seats that one denoising tick calls, and the rows of what is in none."""
        state = self.program.prepare(self.model, self.draw(1), "denoise")
        seats, rest = self.discovered()
        seen = observe(self.model, lambda: self.program.run(self.model, state), seats, STRUCTURES)
        kept, gone = split(seats, seen)
        return kept, (*rest, *gone)


@pytest.fixture(autouse=True)
def _one_thread(_own_threads: None) -> None:
    torch.set_num_threads(1)  # tiny hosts: a second thread only waits


@pytest.fixture
def request_for(tmp_path: Path) -> Request:
    """Return a function that makes a build request with a cache of this test."""

    def make(**changes: Any) -> BuildRequest:
        plain: dict[str, Any] = {
            "size": "tiny",
            "seed": 7,
            "checkpoint": None,
            "device": "cpu",
            "cache": str(tmp_path / "cache"),
        }
        return BuildRequest(**plain | changes)

    return make


@pytest.fixture(scope="session")
def tiny_host(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tiny]:
    """Return a function that builds a host tiny from seed 7, once per session."""

    @functools.cache
    def build(name: str) -> Tiny:
        program = load_module(HOSTS / name / "host.py")
        asked = BuildRequest("tiny", 7, None, "cpu", str(tmp_path_factory.mktemp("cache")))
        return Tiny(load_host(HOSTS / name), program, program.build(asked), asked)

    return build


@pytest.fixture(params=["gemma3_270m", "minilm", "qwen25", "qwen3", "qwen3_vl"])
def tiny(request: pytest.FixtureRequest, tiny_host: Callable[[str], Tiny]) -> Tiny:
    """Return each host in turn."""
    return tiny_host(request.param)


@pytest.fixture(params=["gemma3_270m", "qwen25", "qwen3"])
def decoder(request: pytest.FixtureRequest, tiny_host: Callable[[str], Tiny]) -> Tiny:
    """Return each host that decodes text alone in turn."""
    return tiny_host(request.param)


@pytest.fixture
def zeroed() -> Callable[[nn.Module], AbstractContextManager[None]]:
    """Return a context manager in which a module gives zeros."""

    @contextmanager
    def zero(module: nn.Module) -> Iterator[None]:
        handle = module.register_forward_hook(lambda _module, _args, output: torch.zeros_like(output))
        try:
            yield
        finally:
            handle.remove()

    return zero
