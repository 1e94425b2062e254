"""Whatever stands in a certified file's place, attach answers with a code, soon, and runs nothing but sources."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import resource
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.seat import kernel_build

if TYPE_CHECKING:
    from tests.runtime.conftest import World

FILES = {
    "impl": "impls/toy_ffn/toy.py",
    "impl_shared": "impls/_shared/more.py",
    "host": "hosts/toy/host.py",
    "host_shared": "hosts/_shared/settings.py",
    "structure": "catalog/toy_ffn/structure.yaml",
    "reference": "catalog/toy_ffn/reference.py",
    "kernel": "kernel/build/torch-cpu/inner.py",
    "kernel_metadata": "kernel/build/torch-cpu/metadata.json",
}
PROMPTLY = 10.0  # seconds; an attach takes a tenth, one that waits for a writer takes for ever
CODES = {"ROLE_FILE", "KERNEL_TREE", "TREE_SPECIAL", "TREE_SIZE", "TREE_SYMLINK", "PROVIDER", "USAGE", "SPEC"}
MODEST = 128 * 1024  # KiB


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o644, os.makedev(1, 5))  # zeros for ever
    except PermissionError:
        pytest.skip("making a device needs rights")


def giant(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 42)


def link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


def nested(path: Path) -> None:
    path.write_text("[" * 200_000)


SPOILS = (fifo, device, giant, link, folder, nested)


@pytest.mark.parametrize("what", FILES)
@pytest.mark.parametrize("spoil", SPOILS, ids=lambda spoil: spoil.__name__)
def test_no_file_in_place_of_a_file_is_refused_soon(world: World, what: str, spoil: Callable[[Path], None]) -> None:
    world.rename_kernel().certify()
    (world.root / FILES[what]).unlink()
    spoil(world.root / FILES[what])
    start, memory = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    handle = world.attach()
    assert not handle.active
    codes = {one.code for one in handle.seats} - {"NOT_CERTIFIED"}
    assert codes
    assert codes <= CODES | {"KERNEL_REFUSED", "KERNEL_UNAVAILABLE"}, handle.explain()
    assert time.monotonic() - start < PROMPTLY
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < MODEST
    assert world.is_untouched()


def plant_bytecode(source: Path, marker: Path) -> None:
    """Put bytecode of another source where Python looks for a file's own, valid whatever the source is."""
    evil = source.with_name("evil_source.txt")
    evil.write_text(f"open({str(marker)!r}, 'a').close()\n")
    for cached in (Path(importlib.util.cache_from_source(str(source))), source.with_suffix(".pyc")):
        cached.parent.mkdir(exist_ok=True)
        py_compile.compile(str(evil), str(cached), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    evil.unlink()


@pytest.mark.parametrize("what", ["impl", "impl_shared", "host", "host_shared", "reference"])
def test_bytecode_beside_a_certified_source_does_not_run(world: World, what: str) -> None:
    for file in (FILES["host"], FILES["impl"]):  # bytes that no earlier test has executed
        path = world.root / file
        path.write_text(f"{path.read_text()}\n# {world.root}\n")
    world.certify()
    plant_bytecode(world.root / FILES[what], world.root / "ran")
    handle = world.attach()
    assert handle.active, handle.explain()
    assert not (world.root / "ran").exists()


@pytest.mark.parametrize("what", ["inner.py", "__init__.py"])
def test_bytecode_in_a_kernel_is_refused(world: World, what: str) -> None:
    world.rename_kernel().certify()
    plant_bytecode(world.kernel / what, world.root / "ran")
    handle = world.attach()
    assert "[TREE_BYTECODE]" in handle.explain()
    assert not (world.root / "ran").exists()


def test_bytecode_that_an_installer_left_in_our_own_kernel_does_not_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.rename_kernel().certify()
    plant_bytecode(world.kernel / "inner.py", world.root / "ran")
    monkeypatch.setattr(kernel_build, "_own_folder", lambda: world.root)
    handle = world.attach()
    assert handle.active, handle.explain()
    assert not (world.root / "ran").exists()
