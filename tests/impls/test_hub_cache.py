"""Published packages come out of the client's cache by release, and where none is at hand nothing fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.errors import KernelUnavailable, UsageFault
from pytest_frt.expand import NotSupported, expand
from pytest_frt.registry import Registry
from pytest_frt.run.kernel_words import CachedRelease
from pytest_frt.run.kernels import Kernels
from pytest_frt.seat import kernels
from pytest_frt.seat.kernel_build import KernelBuild
from tests.standin.packages import FILES, publish
from tests.standin.seats import HUB, hub_unit

CPU = DeviceFacts("cpu", "x86_64", "Toy CPU", ("avx2",), 2, "mkl")
USED = sorted({entry.impl.kernel for entry in HUB.values()})


@dataclass(frozen=True)
class Asked:
    include: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def found(cache: Path, *asked: CachedRelease, kind: str = "cpu") -> KernelBuild | KernelUnavailable:
    return Kernels(asked, used=USED, cache=cache, copies=cache.parent / "copies").of(asked[0].repo, kind)


@pytest.mark.parametrize("package", FILES)
@torch.no_grad()
def test_cached_release_is_bound_and_stated_by_its_commit(tmp_path: Path, package: str) -> None:
    commit = publish(tmp_path / "cache", package)
    build = found(tmp_path / "cache", CachedRelease(package, "v1"))
    assert isinstance(build, KernelBuild), build
    assert (build.facts.repo, build.facts.revision) == (package, commit)
    kernel = kernels.load_build(build)
    for name in (name for name, entry in HUB.items() if entry.impl.kernel == package):
        unit = hub_unit(name, kernel)
        assert unit.faults(unit.bind(), {"rows": unit.rows(4)}) == {}


def test_release_without_a_build_for_the_device_is_unavailable(tmp_path: Path) -> None:
    publish(tmp_path / "cache", USED[0])
    absent = found(tmp_path / "cache", CachedRelease(USED[0], "v1"), kind="cuda")
    assert isinstance(absent, KernelUnavailable)
    assert "cuda" in absent.message


def test_release_that_was_never_fetched_is_told(tmp_path: Path) -> None:
    publish(tmp_path / "cache", USED[0])
    with pytest.raises(UsageFault, match="v2"):
        found(tmp_path / "cache", CachedRelease(USED[0], "v2"))


@pytest.mark.parametrize("package", USED)
def test_absent_package_is_unavailable_and_no_failure(tmp_path: Path, package: str) -> None:
    nothing = Kernels((), used=USED, cache=tmp_path, copies=tmp_path / "copies")
    absent = nothing.of(package, "cuda")
    assert isinstance(absent, KernelUnavailable)
    assert "is not at hand" in absent.message


@pytest.mark.parametrize("name", HUB)
def test_impl_is_not_supported_on_a_cpu(name: str) -> None:
    structure, _, impl = name.partition("/")
    asked = Asked({"structure": (structure,), "impl": (impl,), "host": ("qwen3",), "device": ("cpu",)})
    rows = expand(asked, Registry.load(), CPU)
    assert rows
    assert {type(row) for row in rows} == {NotSupported}
    assert {row.reason for row in rows if isinstance(row, NotSupported)} == {
        f"impl {impl} runs on cuda, device cpu is cpu"
    }
