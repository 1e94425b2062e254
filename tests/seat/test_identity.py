"""How a kernel's identity goes wrong in one process, one test for each way that is known."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path

import pytest

from pytest_frt.errors import KernelMismatch
from pytest_frt.seat import kernels
from pytest_frt.seat.identity import IdentityRefused, check_id

REPO = "acme/toy"


def kernel(root: Path, kernel_id: str, text: str = "VALUE = 1\n") -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / "__init__.py").write_text("from .inner import VALUE as VALUE\n")
    (root / "inner.py").write_text(text)
    document = {"id": kernel_id, "name": "toy", "version": 1, "license": "MIT", "python-depends": []}
    (root / "metadata.json").write_text(json.dumps({**document, "backend": {"type": "cpu"}}))
    return root


@pytest.fixture
def name() -> str:
    return f"toy_{secrets.token_hex(6)}"


def test_relative_and_absolute_paths_are_one_load(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel(tmp_path / "torch-cpu", name)
    monkeypatch.chdir(tmp_path)
    first, _ = kernels.load(REPO, Path("torch-cpu"), backend="cpu")
    assert kernels.load(REPO, tmp_path / "x" / ".." / "torch-cpu", backend="cpu")[0] is first


def test_second_build_of_an_id_neither_loads_nor_borrows(tmp_path: Path, name: str) -> None:
    first, _ = kernels.load(REPO, kernel(tmp_path / "a" / "torch-cpu", name), backend="cpu")
    other = kernel(tmp_path / "b" / "torch-cpu", name, "VALUE = 2\n")
    with pytest.raises(KernelMismatch):
        kernels.load(REPO, other, backend="cpu")
    with pytest.raises(IdentityRefused) as caught:
        kernels.check_identity(kernels.read_build(REPO, other, backend="cpu"))
    assert caught.value.code == "ID_TWICE"
    assert (first.VALUE, sys.modules[f"{name}.inner"].VALUE) == (1, 1)


def test_records_are_bound_to_content_not_to_what_the_client_says_of_its_origin(tmp_path: Path, name: str) -> None:
    import kernels as client

    _, facts = kernels.load(REPO, kernel(tmp_path / "torch-cpu", name), backend="cpu")
    (known,) = (one for one in client.get_loaded_kernels() if one.metadata.id == name)
    assert known.repo_info is None
    assert facts.revision == facts.tree_digest


def test_retry_after_a_failed_import_finds_nothing_of_the_first(tmp_path: Path, name: str) -> None:
    broken = kernel(tmp_path / "a" / "torch-cpu", name, "VALUE = 1\n")
    (broken / "__init__.py").write_text("from .inner import VALUE\n\n1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        kernels.load(REPO, broken, backend="cpu")
    assert not [one for one in sys.modules if one == name or one.startswith(f"{name}.")]
    module, _ = kernels.load(REPO, kernel(tmp_path / "b" / "torch-cpu", name, "VALUE = 2\n"), backend="cpu")
    assert module.VALUE == 2


def test_kernel_that_reached_outside_stays_refused(tmp_path: Path, name: str) -> None:
    """The client keeps what it imported; a second try must not be handed that."""
    (tmp_path / "away.py").write_text("VALUE = 3\n")
    root = kernel(tmp_path / "torch-cpu", name)
    (root / "__init__.py").write_text(f"__path__.insert(0, {str(tmp_path)!r})\nfrom .away import VALUE as VALUE\n")
    for _ in range(2):
        with pytest.raises(kernels.KernelRefused):
            kernels.load(REPO, root, backend="cpu")


def test_fake_ops_are_registered_once(tmp_path: Path, name: str) -> None:
    text = f"""import torch

VALUE = torch.library.Library({name!r}, "DEF")
VALUE.define("same(Tensor x) -> Tensor")
torch.library.register_fake({name + "::same"!r}, lambda x: x, lib=VALUE)
"""
    first, _ = kernels.load(REPO, kernel(tmp_path / "a" / "torch-cpu", name, text), backend="cpu")
    assert kernels.load(REPO, kernel(tmp_path / "b" / "torch-cpu", name, text), backend="cpu")[0] is first


def test_taken_ops_are_named(tmp_path: Path, name: str) -> None:
    root = kernel(tmp_path / "torch-cpu", name)
    (root / "_ops.py").write_text("import torch\n\nops = torch.ops.aten\n")
    with pytest.raises(IdentityRefused, match="ops of namespace aten are registered already") as caught:
        check_id(kernels.read_build(REPO, root, backend="cpu"))
    assert caught.value.code == "OPS_TAKEN"
