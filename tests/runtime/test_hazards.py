"""Nothing answers in a certified kernel's place: no id, op, library, override or cache of somebody else."""

from __future__ import annotations

import ctypes
import importlib.machinery
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from pytest_frt.runtime import surroundings
from pytest_frt.seat import kernels

if TYPE_CHECKING:
    from tests.runtime.conftest import World

OTHER_USER = 4242
KEPT: list[object] = []
"""Registrations that tests plant and that last as long as their owner."""


def library_loaded(world: World) -> None:
    (small,) = (path for path in Path(importlib.machinery.__file__).parents[1].glob("lib-dynload/_bisect.*.so"))
    shutil.copy(small, world.kernel / "extra.so")
    KEPT.append(ctypes.CDLL(str(world.kernel / "extra.so")))


def ops_taken(world: World) -> None:
    KEPT.append(torch.library.Library(world.kernel_id, "DEF"))
    KEPT[-1].define("same(Tensor x) -> Tensor")  # type: ignore[attr-defined]


def other_ops_taken(world: World) -> None:
    (world.kernel / "_ops.py").write_text("import torch\n\nops = torch.ops.toy_world_taken\n")
    if not KEPT_ONCE:
        KEPT_ONCE.append(torch.library.Library("toy_world_taken", "DEF"))
        KEPT_ONCE[0].define("same(Tensor x) -> Tensor")


KEPT_ONCE: list[torch.library.Library] = []


def named(kernel_id: str) -> Callable[[World], None]:
    def rename(world: World) -> None:
        world.rename_kernel(kernel_id)

    return rename


def imported(world: World) -> None:
    sys.modules[world.kernel_id] = sys


def loaded_unverified(world: World) -> None:
    kernels.load("acme/toy", world.root / "kernel", backend="cpu")


def loaded_other_bytes(world: World) -> None:
    loaded_unverified(world)
    (world.kernel / "inner.py").write_text("def same(x):\n    return x + 0.0\n")


def overridden(value: str) -> Callable[[World], None]:
    return lambda world: os.environ.update(LOCAL_KERNELS=value.replace("PATH", str(world.root)))


def cache(variable: str, spoil: Callable[[Path], object]) -> Callable[[World], None]:
    def plant(_world: World) -> None:
        entry = Path(os.environ[variable]) / "abc" / "kernel.cubin"
        entry.parent.mkdir(parents=True)
        entry.write_bytes(b"compiled")
        spoil(entry)

    return plant


def give_away(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving a file away needs rights")
    os.chown(path, OTHER_USER, OTHER_USER, follow_symlinks=False)


def foreign_link(entry: Path) -> None:
    (entry.parent / "link").symlink_to("/etc/hostname")
    give_away(entry.parent / "link")


def stale(world: World) -> None:
    at = Path(os.environ["TORCH_EXTENSIONS_DIR"], "py311_cpu", world.kernel_id)
    at.mkdir(parents=True)


def stale_library(world: World) -> None:
    (world.kernel / "_toy_ops.abi3.so").write_bytes(b"\x7fELF")
    Path(os.environ["TORCH_EXTENSIONS_DIR"], "_toy_ops").mkdir(parents=True)


TRITON, EXTENSIONS, INDUCTOR = "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR"
HAZARDS: dict[str, tuple[Callable[[World], object], str, str]] = {
    "L1 library loaded": (library_loaded, "LIBRARY_LOADED", "extra.so of kernel acme/toy is loaded already"),
    "L2 id of the standard library": (named("json"), "ID_SHADOWS", "'json' is a module of the standard library"),
    "L2b id of an installed package": (named("yaml"), "ID_SHADOWS", "'yaml' is an installed module"),
    "L2c id of torch": (named("torch"), "ID_SHADOWS", "'torch' is an installed module"),
    "L2d id of a path": (named("../evil"), "ID_FORM", "'../evil' is not of the form"),
    "L2e id in capitals": (named("Toy"), "ID_FORM", "'Toy' is not of the form"),
    "id imported": (imported, "ID_LOADED", "is already imported from"),
    "id loaded from unverified bytes": (loaded_unverified, "ID_LOADED", "and not from a verified copy"),
    "two builds of one id": (loaded_other_bytes, "ID_TWICE", "their submodules would mix"),
    "L3 ops taken": (ops_taken, "OPS_TAKEN", "::same"),
    "L3b ops of another namespace taken": (other_ops_taken, "OPS_TAKEN", "toy_world_taken::same"),
    "L4 local override": (overridden("acme/toy=PATH"), "LOCAL_KERNELS", "overrides acme/toy"),
    "L4b override among others": (overridden("a/b=/x:Acme/Toy=PATH"), "LOCAL_KERNELS", "overrides Acme/Toy"),
    "L4d override that the client cannot read": (overridden("acme/toy"), "LOCAL_KERNELS", "no list of repo=folder"),
    "L4c override by pattern": (overridden("acme/*=PATH"), "LOCAL_KERNELS", "overrides acme/*"),
    "L5 open cache": (cache(TRITON, lambda e: e.parents[1].chmod(0o777)), "JIT_CACHE", "has mode 0777"),
    "L5b open entry": (cache(TRITON, lambda e: e.chmod(0o666)), "JIT_CACHE", "kernel.cubin, which has mode 0666"),
    "L5c group writes": (cache(INDUCTOR, lambda e: e.chmod(0o664)), "JIT_CACHE", "open to others"),
    "L5d foreign entry": (cache(EXTENSIONS, give_away), "JIT_CACHE", f"belongs to uid {OTHER_USER}"),
    "L5e foreign link": (cache(TRITON, foreign_link), "JIT_CACHE", f"belongs to uid {OTHER_USER}"),
    "L5f open folder above": (cache(TRITON, lambda e: e.parents[2].chmod(0o777)), "JIT_CACHE", "lies in"),
    "stale extension": (stale, "JIT_STALE", "was compiled earlier under a name of kernel acme/toy"),
    "stale extension of a library": (stale_library, "JIT_STALE", "_toy_ops was compiled earlier"),
}


@pytest.fixture
def fresh(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Return a world whose kernel no test has loaded, with caches that others may enter, so that modes count."""
    monkeypatch.setattr(os, "environ", os.environ.copy())
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        os.environ.update({name: f"{folder}/jit/{name.lower()}" for name in (TRITON, EXTENSIONS, INDUCTOR)})
        yield world.rename_kernel()
    if sys.modules.get(world.kernel_id) is sys:
        del sys.modules[world.kernel_id]


@pytest.mark.parametrize("hazard", HAZARDS)
def test_hazard_is_refused_by_its_code_and_nothing_runs(fresh: World, hazard: str) -> None:
    plant, code, words = HAZARDS[hazard]
    before = dict(sys.modules)
    for name in ("hosts/toy/host.py", "impls/toy_ffn/toy.py", "kernel/build/torch-cpu/__init__.py"):
        path = fresh.root / name
        path.write_text(f"{path.read_text()}\nopen({str(fresh.root / 'ran')!r}, 'a').close()\n")
    plant(fresh)
    (fresh.root / "ran").unlink(missing_ok=True)
    handle = fresh.certify().attach()
    assert not handle.active
    assert {one.code for one in handle.seats} == {code, "NOT_CERTIFIED"}, handle.explain()
    assert words in handle.explain()
    assert not (fresh.root / "ran").exists()
    assert fresh.is_untouched()
    assert all(sys.modules[name] is module for name, module in before.items())


def closed_above(entry: Path) -> None:
    entry.chmod(0o666)
    entry.parents[3].chmod(0o700)  # the folder below it is open, but nobody gets there


def own_link(entry: Path) -> None:
    (entry.parent / "link").symlink_to(entry)


HARMLESS: dict[str, Callable[[World], object]] = {
    "own_cache": cache(TRITON, lambda entry: entry.chmod(0o644)),
    "link_of_our_own": cache(TRITON, own_link),
    "open_entry_behind_a_closed_folder": cache(TRITON, closed_above),
    "extension_of_another_name": lambda _: Path(os.environ[EXTENSIONS], "another").mkdir(parents=True),
    "override_of_another_repo": overridden("acme/toy2=PATH:acme/to=PATH"),
}


@pytest.mark.parametrize("plant", HARMLESS.values(), ids=HARMLESS)
def test_what_harms_nothing_is_not_refused(fresh: World, plant: Callable[[World], object]) -> None:
    fresh.certify()
    plant(fresh)
    handle = fresh.attach()
    assert handle.active, handle.explain()


def test_cache_that_is_too_large_to_look_at_is_refused(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "MAX_CACHE_ENTRIES", 3)
    cache(TRITON, lambda entry: entry)(fresh)
    with fresh.certify().attach(state=False) as handle:
        assert handle.active
    fresh.rename_kernel()
    (Path(os.environ[TRITON]) / "more").mkdir()
    handle = fresh.certify().attach(state=False)
    assert "[JIT_CACHE]" in handle.explain()
    assert "holds more than 3 files" in handle.explain()


def test_members_of_a_plan_with_two_builds_of_one_id_are_refused_before_either_runs(fresh: World) -> None:
    first = fresh.record([0])
    (fresh.root / "other").mkdir()
    shutil.move(fresh.root / "kernel" / "build", fresh.root / "other" / "build")
    shutil.copytree(fresh.root / "other" / "build", fresh.root / "kernel" / "build")
    (fresh.kernel / "inner.py").write_text("def same(x):\n    return x + 0.0\n")
    second = fresh.record([1])
    second = replace(
        second,
        key=replace(second.key, cache="cold"),
        kernel=replace(second.kernel, repo="acme/other"),
    )
    builds = {"acme/toy": fresh.root / "other", "acme/other": fresh.root / "kernel"}
    handle = fresh.certify(first, second).attach(kernels=builds)
    assert {one.code for one in handle.seats} == {"ID_TWICE", "NOT_CERTIFIED"}, handle.explain()
    assert "is that of two builds, with tree digests" in handle.explain()
    assert fresh.kernel_id not in sys.modules


def test_another_kernel_is_not_refused_for_what_a_loaded_one_holds(fresh: World) -> None:
    """Certified bytes that this runtime loaded itself serve every later attach."""
    fresh.certify().attach().detach()
    assert fresh.attach().active


def test_unset_variables_name_the_defaults_of_the_compilers() -> None:
    from torch.utils.cpp_extension import get_default_build_root

    found = surroundings.jit_caches({"HOME": os.environ["HOME"], "USER": "ada"})
    assert found[TRITON] == Path(os.environ["HOME"], ".triton", "cache")
    assert found[INDUCTOR].name == "torchinductor_ada"
    if "XDG_CACHE_HOME" not in os.environ:
        assert str(found[EXTENSIONS]) == get_default_build_root()


def test_metadata_is_what_names_the_kernel(fresh: World) -> None:
    """An id that changes after it was certified is another kernel."""
    fresh.certify()
    document = json.loads((fresh.kernel / "metadata.json").read_text())
    (fresh.kernel / "metadata.json").write_text(json.dumps({**document, "id": "json"}))
    assert "[KERNEL_TREE]" in fresh.attach().explain()
