"""Packages are found and their closures computed from files alone; entry files run from their source bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pytest_frt.errors import SpecError
from pytest_frt.spec.modules import load_file
from pytest_frt.spec.packages import first_party_roots, import_closure, package_folder

WriteTree = Callable[[Mapping[str, str]], Path]
BOMB = "raise SystemExit('executed')\n"
PACKAGE = {
    "acme_frt/__init__.py": BOMB,
    "acme_frt/maths.py": "import torch\n",
    "acme_frt/impls/__init__.py": "",
    "acme_frt/impls/_shared/pack.py": "from acme_frt import maths\nfrom . import tables\n",
    "acme_frt/impls/_shared/tables.py": "from .pack import missing\n",
    "acme_frt/impls/_shared/unused.py": "",
    "acme_frt/impls/ffn/fast.py": "def bind():\n    from acme_frt.impls._shared.pack import w\nimport pytest_frt.sdk\n",
}


@pytest.fixture
def acme(write_tree: WriteTree, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = write_tree(PACKAGE)
    monkeypatch.syspath_prepend(str(root))
    return root / "acme_frt"


def test_folder_is_found_without_executing_the_package(acme: Path) -> None:
    assert package_folder("acme_frt.impls") == acme / "impls"
    assert not {name for name in sys.modules if name.startswith("acme_frt")}


def test_namespace_package_is_found(acme: Path) -> None:
    (acme / "impls" / "__init__.py").unlink()
    assert package_folder("acme_frt.impls._shared") == acme / "impls" / "_shared"


@pytest.mark.parametrize("name", ["no_such_package", "acme_frt.absent", "json.decoder.inner", "sys"])
def test_what_is_no_folder_is_refused(acme: Path, name: str) -> None:
    assert acme.is_dir()
    with pytest.raises(SpecError, match=name):
        package_folder(name)


def test_closure_holds_what_executing_executes(acme: Path) -> None:
    roots = first_party_roots("acme_frt.impls", acme / "impls")
    closure = [str(path.relative_to(acme)) for path in import_closure(acme / "impls/ffn/fast.py", roots)]
    assert set(closure) == {
        "__init__.py",
        "maths.py",
        "impls/__init__.py",
        "impls/_shared/pack.py",
        "impls/_shared/tables.py",
        "impls/ffn/fast.py",
    }
    assert closure[-1] == "impls/ffn/fast.py"


def test_own_impls_close_over_their_own_folder(repository: Path) -> None:
    assert first_party_roots("pytest_frt.impls", repository / "impls") == {"pytest_frt.impls": repository / "impls"}


def test_module_runs_from_source_and_not_from_bytecode(tmp_path: Path) -> None:
    file = tmp_path / "entry.py"
    file.write_text("VALUE = 'source'\n")
    assert load_file(file, source=b"VALUE = 'verified'\n").VALUE == "verified"
    assert load_file(file).VALUE == "source"
    assert not (tmp_path / "__pycache__").exists()


def test_same_bytes_give_the_same_module_and_changed_bytes_another(tmp_path: Path) -> None:
    file = tmp_path / "entry.py"
    file.write_text("VALUE = 1\n")
    first = load_file(file)
    assert load_file(file) is first
    file.write_text("VALUE = 2\n")
    assert load_file(file).VALUE == 2


def test_module_that_fails_is_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "entry.py"
    file.write_text("VALUE = 1\n1 / 0\n")
    before = set(sys.modules)
    with pytest.raises(ZeroDivisionError):
        load_file(file)
    assert set(sys.modules) == before


def test_missing_module_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"entry\.py: cannot be read"):
        load_file(tmp_path / "entry.py")
