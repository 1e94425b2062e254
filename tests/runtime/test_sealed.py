"""Libraries run from memory whose bytes were hashed after nobody could write to it any more."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from pytest_frt.errors import CertificateRefused
from pytest_frt.runtime import sealed
from pytest_frt.seat import kernels
from pytest_frt.spec.modules import load_file

if TYPE_CHECKING:
    from tests.runtime.conftest import World

native = load_file(Path(__file__).parent / "native.py")
NEEDS_SEALS = pytest.mark.skipif(not sealed.seals(), reason="this platform has no sealed memory")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "lib.so"
    path.write_bytes(os.urandom(3 << 20))
    return path


@NEEDS_SEALS
@pytest.mark.parametrize("attack", ["write", "grow", "shrink", "unseal"])
def test_sealed_bytes_cannot_be_changed(library: Path, attack: str) -> None:
    one = sealed.seal(library, digest(library))
    assert one is not None
    attacks = {
        "write": lambda: os.pwrite(one.handle, b"evil", 0),
        "grow": lambda: os.ftruncate(one.handle, 1 << 23),
        "shrink": lambda: os.ftruncate(one.handle, 0),
        "unseal": lambda: fcntl.fcntl(one.handle, fcntl.F_ADD_SEALS, 0),
    }
    with pytest.raises(PermissionError):
        attacks[attack]()
    assert hashlib.sha256(Path(one.path).read_bytes()).hexdigest() == digest(library)
    os.close(one.handle)


@NEEDS_SEALS
def test_what_is_sealed_is_hashed_again(library: Path) -> None:
    certified, handles = digest(library), len(list(sealed.OPEN_FILES.iterdir()))
    library.write_bytes(b"evil" + library.read_bytes()[4:])
    with pytest.raises(CertificateRefused, match="in memory has sha256") as caught:
        sealed.seal(library, certified)
    assert caught.value.refusal_code == "KERNEL_TREE"
    assert len(list(sealed.OPEN_FILES.iterdir())) == handles


@NEEDS_SEALS
@pytest.mark.parametrize(
    "fault", [errno.ENOSYS, errno.EACCES, errno.ENOMEM], ids=["no_memfd", "memfd_forbidden", "no_memory"]
)
def test_platform_without_memfd_falls_back(library: Path, monkeypatch: pytest.MonkeyPatch, fault: int) -> None:
    def refuse(*_: object) -> int:
        raise OSError(fault, "no")

    monkeypatch.setattr(os, "memfd_create", refuse)
    assert sealed.seal(library, digest(library)) is None


def add_library(world: World, mark: str = "certified") -> World:
    """Give the kernel a compiled module, which answers from then on."""
    world.rename_kernel()
    native.compiled(native.MODULE, world.kernel / f"_native{native.SUFFIX}", "_native", mark)
    late = "def late():\n    from . import _late\n\n    return _late.mark()\n"
    (world.kernel / "inner.py").write_text(f"from . import _native\n\n\ndef same(x):\n    return x + 0\n\n\n{late}")
    return world


def mapped() -> list[str]:
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if "_native" in line]


@NEEDS_SEALS
def test_module_of_a_certified_kernel_runs_from_sealed_memory(world: World) -> None:
    before = set(mapped())
    handle = add_library(world).certify().attach()
    assert handle.active, handle.explain()
    module = sys.modules[f"{world.kernel_id}._native"]
    assert module.mark() == "certified"
    assert "frt-verified-" in module.__file__
    new = set(mapped()) - before
    assert new
    assert all("memfd:_native" in line for line in new), new
    handle.detach()
    assert world.attach().active


def test_without_sealed_memory_the_private_copy_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed, "seals", lambda: 0)
    before = set(mapped())
    assert add_library(world).certify().attach().active
    new = set(mapped()) - before
    assert new
    assert all("frt-verified-" in line for line in new), new


@NEEDS_SEALS
def test_module_that_is_imported_late_runs_from_sealed_memory(world: World) -> None:
    add_library(world)
    native.compiled(native.MODULE, world.kernel / f"_late{native.SUFFIX}", "_late", "late")
    assert world.certify().attach().active
    assert sys.modules[f"{world.kernel_id}.inner"].late() == "late"
    late = [line for line in Path("/proc/self/maps").read_text().splitlines() if "_late" in line]
    assert late
    assert all("memfd:_late" in line for line in late), late


@NEEDS_SEALS
def test_library_rewritten_after_it_was_sealed_does_not_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The evil one lies at the private path when it is imported, and is taken away before bytes are compared again."""
    add_library(world).certify()
    evil = native.compiled(native.MODULE, world.root / f"_native{native.SUFFIX}", "_native", "evil").read_bytes()
    client = kernels._client()

    class Racer:
        @staticmethod
        def get_local_kernel(folder: Path) -> object:
            path = folder / f"_native{native.SUFFIX}"
            path.chmod(0o600)
            good = path.read_bytes()
            path.write_bytes(evil)
            module = client.get_local_kernel(folder)
            path.write_bytes(good)
            return module

    monkeypatch.setattr(kernels, "_client", lambda: Racer)
    assert world.attach().active
    assert sys.modules[f"{world.kernel_id}._native"].mark() == "certified"


@NEEDS_SEALS
def test_library_of_ops_is_loaded_from_sealed_memory(world: World) -> None:
    world.rename_kernel()
    namespace = world.kernel_id
    native.compiled(native.OPS, world.kernel / "_native_ops.so", namespace, "stamp")
    (world.kernel / "inner.py").write_text(
        "from pathlib import Path\n\nimport torch\n\n"
        "torch.ops.load_library(str(Path(__file__).parent / '_native_ops.so'))\n\n\n"
        "def same(x):\n    return x + 0\n"
    )
    honest, before = torch.ops.load_library, set(mapped())
    handle = world.certify().attach()
    assert handle.active, handle.explain()
    assert f"{namespace}::stamp" in torch._C._dispatch_get_all_op_names()
    assert torch.ops.load_library == honest
    assert all("memfd:_native_ops" in line for line in set(mapped()) - before)
    assert set(mapped()) - before


def test_libraries_that_find_each_other_by_place_stay_on_disk(world: World) -> None:
    (world.kernel / "libhelper.so").write_bytes(b"\x7fELF helper")
    (world.kernel / "_main.so").write_bytes(b"\x7fELF needs libhelper.so")
    build = kernels.read_build("acme/toy", world.root / "kernel", backend="cpu")
    assert sealed.seal_libraries(build) == ()
    (world.kernel / "_main.so").write_bytes(b"\x7fELF needs libc.so")
    build = kernels.read_build("acme/toy", world.root / "kernel", backend="cpu")
    found = sealed.seal_libraries(build)
    assert len(found) == (2 if sealed.seals() else 0)
    for one in found:
        os.close(one.handle)


def test_finder_answers_for_its_own_kernel_alone() -> None:
    assert importlib.util.find_spec("json") is not None
    assert sealed._Finder("acme", {}).find_spec("acme.x", ["/nowhere"]) is None
    assert sealed._Finder("acme", {}).find_spec("acme_two.x", None) is None
