"""The hosts as a worker loads them, built once per module at tiny size."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pytest_frt.contracts.host import BuildRequest, HostSpec, Sample
from pytest_frt.registry import load_module
from pytest_frt.spec.load import load_host

HOSTS = Path(__file__).resolve().parents[2] / "hosts"
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
