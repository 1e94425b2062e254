"""Kernel loading: the bytes that were read are the bytes that run, and nothing else gets in."""

from __future__ import annotations

import importlib.util
import itertools
import json
import py_compile
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_frt.errors import KernelMismatch, KernelUnavailable, SpecError
from pytest_frt.seat import kernel_build, kernels
from pytest_frt.seat.kernels import HubPin, KernelRefused
from pytest_frt.spec.tree import TreeInvalid

REPO = "acme/toy"
_NUMBERS = itertools.count()
Plant = Callable[..., Path]


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    """Return a builder of toy kernels; what they leave in ``sys.modules`` is removed."""
    made: list[str] = []

    def build(
        folder: str = "toy", *, kernel_id: str = "", value: int = 1, variant: str = "torch-cpu", **metadata: object
    ) -> Path:
        made.append(kernel_id or f"toy_{next(_NUMBERS)}")
        at = tmp_path / folder / "build" / variant
        at.mkdir(parents=True)
        (at / "__init__.py").write_text("from .inner import VALUE as VALUE\n")
        (at / "inner.py").write_text(f"VALUE = {value}\n")
        document = {"id": made[-1], "name": "toy", "version": 1, "license": "MIT", "python-depends": []}
        (at / "metadata.json").write_text(json.dumps({**document, "backend": {"type": "cpu"}, **metadata}))
        return tmp_path / folder

    before = dict(sys.modules)
    yield build
    for name in list(sys.modules):
        if name.partition(".")[0] in made:
            if name in before:
                sys.modules[name] = before[name]
            else:
                del sys.modules[name]


@pytest.mark.parametrize("inside", ["", "build", "build/torch-cpu"], ids=["project", "build", "variant"])
def test_any_level_of_a_project_names_its_variant(plant: Plant, inside: str) -> None:
    module, facts = kernels.load(REPO, plant() / inside, backend="cpu")
    assert module.VALUE == 1
    assert (facts.repo, facts.variant, facts.revision) == (REPO, "torch-cpu", facts.tree_digest)


def test_import_writes_no_bytecode(plant: Plant) -> None:
    root = plant()
    kernels.load(REPO, root, backend="cpu")
    assert not list(root.rglob("__pycache__"))
    assert sys.pycache_prefix is None


def test_same_build_loads_once(plant: Plant) -> None:
    root = plant()
    first, _ = kernels.load(REPO, root, backend="cpu")
    assert kernels.load(REPO, root / "build", backend="cpu")[0] is first


def test_same_bytes_elsewhere_are_the_loaded_module(plant: Plant) -> None:
    first, facts = kernels.load(REPO, plant("a", kernel_id="toy_twin"), backend="cpu")
    second, again = kernels.load(REPO, plant("b", kernel_id="toy_twin"), backend="cpu")
    assert second is first
    assert again.tree_digest == facts.tree_digest


def test_two_builds_of_one_id_do_not_mix(plant: Plant) -> None:
    kernels.load(REPO, plant("a", kernel_id="toy_clash", value=1), backend="cpu")
    with pytest.raises(KernelMismatch, match="submodules would mix"):
        kernels.load(REPO, plant("b", kernel_id="toy_clash", value=2), backend="cpu")


@pytest.mark.parametrize("kernel_id", ["json", "torch", "yaml", "../evil", "Toy", "9toy", "aten", ""])
def test_unsafe_id_is_refused_and_replaces_nothing(plant: Plant, kernel_id: str) -> None:
    root = plant()
    file = root / "build/torch-cpu/metadata.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "id": kernel_id}))
    before = dict(sys.modules)
    with pytest.raises(KernelRefused, match="its id"):
        kernels.load(REPO, root, backend="cpu")
    assert {name: module for name, module in sys.modules.items() if name in before} == before


def test_id_loaded_by_somebody_else_is_refused(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "toy_foreign", sys)
    with pytest.raises(KernelRefused, match="already imported"):
        kernels.load(REPO, plant(kernel_id="toy_foreign"), backend="cpu")


SPOILED: dict[str, tuple[str, Callable[[Path], object]]] = {
    "planted_pycache": ("TREE_BYTECODE", lambda at: (at / "__pycache__").mkdir()),
    "stray_pyc": ("TREE_BYTECODE", lambda at: (at / "inner.pyc").write_bytes(b"")),
    "symlinked_source": ("TREE_SYMLINK", lambda at: (at / "more.py").symlink_to(at / "inner.py")),
}


@pytest.mark.parametrize(("fault", "spoil"), SPOILED.values(), ids=SPOILED)
def test_invalid_tree_is_refused(plant: Plant, fault: str, spoil: Callable[[Path], object]) -> None:
    root = plant()
    spoil(root / "build/torch-cpu")
    with pytest.raises(TreeInvalid) as caught:
        kernels.load(REPO, root, backend="cpu")
    assert caught.value.fault == fault


def test_bytecode_left_by_an_installer_never_runs(
    plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = plant()
    (tmp_path / "other.py").write_text("VALUE = 666\n")
    planted = Path(importlib.util.cache_from_source(str(root / "build/torch-cpu/inner.py")))
    py_compile.compile(
        str(tmp_path / "other.py"), str(planted), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    monkeypatch.setattr(kernel_build, "_own_folder", lambda: tmp_path)
    assert kernels.load(REPO, root, backend="cpu")[0].VALUE == 1


def test_byte_changed_after_reading_is_refused(plant: Plant) -> None:
    root = plant()
    build = kernels.read_build(REPO, root, backend="cpu")
    (root / "build/torch-cpu/inner.py").write_text("VALUE = 2\n")
    with pytest.raises(KernelMismatch, match="tree digest"):
        kernels.load_build(build)


def test_module_from_outside_the_folder_is_refused(plant: Plant, tmp_path: Path) -> None:
    root = plant(kernel_id="toy_outside")
    (tmp_path / "away.py").write_text("VALUE = 3\n")
    (root / "build/torch-cpu/__init__.py").write_text(f"__path__.insert(0, {str(tmp_path)!r})\nfrom . import away\n")
    with pytest.raises(KernelRefused, match="outside"):
        kernels.load(REPO, root, backend="cpu")


def test_build_within_a_build_is_refused(plant: Plant) -> None:
    inner = plant("deep", kernel_id="json") / "build" / "torch-cpu"
    inner.rename(plant() / "build" / "torch-cpu" / "torch-cpu")
    with pytest.raises(KernelRefused, match="another build"):
        kernels.load(REPO, inner.parents[2] / "toy", backend="cpu")


@pytest.mark.parametrize(
    "metadata",
    [{"version": "1"}, {"backend": "cpu"}, {"kernel-depends": [{"repo-id": "a/b", "version": 1}]}],
    ids=["version_text", "backend_text", "needs_other_kernels"],
)
def test_unusable_metadata_is_refused(plant: Plant, metadata: dict[str, object]) -> None:
    with pytest.raises(KernelRefused, match=r"metadata\.json"):
        kernels.load(REPO, plant(**metadata), backend="cpu")


@pytest.mark.parametrize("where", ["nowhere", "empty"])
def test_no_kernel_is_unavailable(tmp_path: Path, where: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(KernelUnavailable, match="holds no build"):
        kernels.load(REPO, tmp_path / where, backend="cpu")


def test_build_for_other_machines_is_unavailable_with_the_reason(plant: Plant) -> None:
    with pytest.raises(KernelUnavailable, match="torch29"):
        kernels.load(REPO, plant(variant="torch29-cxx11-cpu-x86_64-linux"), backend="cpu")


@pytest.mark.parametrize(
    ("release", "taken"), [("0.14.9", 0), ("0.15.0", 1), ("0.17.99", 1), ("0.18.0", 0), ("1.0", 0)]
)
def test_client_of_a_release_that_was_not_run_is_unavailable(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, release: str, taken: int
) -> None:
    monkeypatch.setattr(kernels.metadata, "version", lambda _: release)
    root = plant()
    if taken:
        assert kernels.load(REPO, root, backend="cpu")[0].VALUE == 1
        return
    with pytest.raises(KernelUnavailable, match=rf"kernels {release} is installed, 0\.15 <= kernels < 0\.18 was run"):
        kernels.load(REPO, root, backend="cpu")


FETCHES = [FileNotFoundError("no such repo"), ValueError("no build for this machine"), PermissionError("not trusted")]


@pytest.mark.parametrize("fault", FETCHES, ids=str)
def test_release_that_cannot_be_fetched_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    import kernels as client

    def install(*_: object, **__: object) -> str:
        raise fault

    monkeypatch.setattr(client, "install_kernel", install)
    with pytest.raises(KernelUnavailable, match=f"kernel acme/absent at 7: {fault}") as caught:
        kernels.resolve("acme/absent", pin=HubPin(7, tmp_path), backend="cpu")
    assert "--frt-kernel" in caught.value.hint


def test_kernel_that_raises_while_it_is_imported_leaves_nothing_and_may_be_mended(plant: Plant) -> None:
    root = plant(kernel_id="toy_raises")
    file = root / "build/torch-cpu/__init__.py"
    text = file.read_text()
    file.write_text(f"{text}raise ImportError('no library')\n")
    with pytest.raises(ImportError, match="no library"):
        kernels.load(REPO, root, backend="cpu")
    assert [name for name in sys.modules if name.startswith("toy_raises")] == []
    file.write_text(text)
    assert kernels.load(REPO, root, backend="cpu")[0].VALUE == 1


def test_override_beats_local_beats_own(plant: Plant) -> None:
    mine, yours = plant("mine"), plant("yours")
    own = kernels.resolve("pytest-frt/frt-cpu", backend="cpu")
    local = {own.facts.repo: yours}
    assert own.id.startswith("frt_cpu_")
    assert kernels.resolve(own.facts.repo, local=local, backend="cpu").folder.is_relative_to(yours)
    assert kernels.resolve(own.facts.repo, local=local, override=mine, backend="cpu").folder.is_relative_to(mine)


def test_unknown_repo_names_the_next_step() -> None:
    with pytest.raises(KernelUnavailable, match="acme/absent") as caught:
        kernels.resolve("acme/absent", backend="cpu")
    assert "--frt-kernel" in caught.value.hint


@pytest.mark.parametrize("pin", ["main", ">=1", "abc"])
def test_pin_that_moves_is_refused(tmp_path: Path, pin: str) -> None:
    with pytest.raises(SpecError, match="40 hex digits"):
        kernels.resolve("acme/absent", pin=HubPin(pin, tmp_path), backend="cpu")


def test_published_build_is_copied_out_of_the_cache(plant: Plant, tmp_path: Path) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    kernel = tmp_path / "cache" / "kernels--acme--toy"
    (kernel / "refs").mkdir(parents=True)
    (kernel / "refs" / "v1").write_text(commit)
    (kernel / "snapshots").mkdir()
    plant(kernel_id="toy_published").rename(kernel / "snapshots" / commit)
    script = (
        "import sys; from pathlib import Path; from pytest_frt.seat import kernels\n"
        "build = kernels.resolve('acme/toy', pin=kernels.HubPin(1, Path(sys.argv[1])), backend='cpu')\n"
        "print(kernels.load_build(build).VALUE, build.facts.revision, build.folder.parent)"
    )
    environment = {"KERNELS_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "copy")],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.stdout.split() == ["1", commit, str(tmp_path / "copy")], done.stderr
