"""Verified files are executed under names of their own; a process that only imports us has no torch and no pytest."""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_frt.errors import CertificateRefused
from pytest_frt.runtime.imports import PRIVATE_PREFIX, execute
from pytest_frt.runtime.sources import CodeCopy


def code(folder: Path, package: str = "acme_code", **files: str) -> CodeCopy:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    listed = {
        f"{name.replace('__', '/')}.py": hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()
    }
    return CodeCopy(package, folder, next(iter(listed)), listed)


def test_relative_and_absolute_imports_reach_the_copies(tmp_path: Path) -> None:
    module = execute(
        code(
            tmp_path,
            a__main="from acme_code.b.other import X\nfrom ..b import other\nfrom . import near\nY = X + near.Z",
            a__near="Z = 10",
            b__other="X = 1",
        )
    )
    assert module.Y == 11
    assert module.__name__.startswith(PRIVATE_PREFIX)
    assert sys.modules[module.__name__] is module
    assert not any(name.startswith("acme_code") for name in sys.modules)


def test_late_relative_import_reaches_the_copy(tmp_path: Path) -> None:
    files = {"main": "def late():\n    from .b import X\n    return X", "b": "X = 5"}
    assert execute(code(tmp_path, **files)).late() == 5


def test_same_bytes_are_executed_once_and_others_apart(tmp_path: Path) -> None:
    first = execute(code(tmp_path / "1", main="X = object()"))
    again = execute(code(tmp_path / "2", main="X = object()"))
    other = execute(code(tmp_path / "3", main="X = object()  # other"))
    assert first is again
    assert first is not other


def test_fault_while_executing_leaves_nothing(tmp_path: Path) -> None:
    modules, finders = set(sys.modules), list(sys.meta_path)
    with pytest.raises(ZeroDivisionError):
        execute(code(tmp_path, main="from . import b\n1 / 0", b="X = 1"))
    assert set(sys.modules) == modules
    assert sys.meta_path == finders


@pytest.mark.parametrize("text", ["from . import absent", "import acme_code.absent", "from acme_code.absent import X"])
def test_uncertified_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(CertificateRefused, match=r"acme_code\.absent would be imported"):
        execute(code(tmp_path, main=text))


def test_copy_that_changed_before_it_is_compiled_is_refused(tmp_path: Path) -> None:
    copy = code(tmp_path, main="from . import b", b="X = 1")
    (tmp_path / "b.py").write_text("X = 2")
    with pytest.raises(CertificateRefused, match=r"acme_code\.b has sha256") as caught:
        execute(copy)
    assert caught.value.refusal_code == "ROLE_FILE"


def test_package_above_is_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    above = tmp_path / "site" / "acme_above"
    above.mkdir(parents=True)
    (above / "__init__.py").write_text("raise SystemExit('executed')")
    monkeypatch.syspath_prepend(above.parent)
    assert execute(code(tmp_path / "copy", package="acme_above.impls", main="X = 3")).X == 3


def test_folder_without_a_package(tmp_path: Path) -> None:
    assert execute(code(tmp_path, package="", main="X = 7")).X == 7


LIGHT = "import sys, pytest_frt; from pytest_frt import FrtError, GateRefused; assert 'attach' in dir(pytest_frt); "
ATTACH = "import sys; from pytest_frt import attach, Handle; "


@pytest.mark.parametrize(
    ("code", "absent"),
    [(LIGHT, ("torch", "pytest", "_pytest")), (ATTACH, ("pytest", "_pytest", "pytest_frt.gates", "transformers"))],
    ids=["package", "attach"],
)
def test_importing_stays_light(code: str, absent: tuple[str, ...]) -> None:
    check = f"{code}found = [n for n in {absent!r} if n in sys.modules]; assert not found, found"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_unknown_name_is_an_attribute_error() -> None:
    import pytest_frt

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pytest_frt.nothing  # noqa: B018


CLOCKS_AND_SOCKETS = {"time", "timeit", "socket", "urllib", "http", "requests", "httpx", "huggingface_hub", "asyncio"}
TOLERANCES = {"allclose", "isclose", "assert_close", "cosine_similarity"}


def test_runtime_holds_no_clock_no_socket_and_no_tolerance(repository: Path) -> None:
    for file in (repository / "pytest_frt" / "runtime").glob("*.py"):
        tree = ast.parse(file.read_text())
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not {name.partition(".")[0] for name in imported} & CLOCKS_AND_SOCKETS, file
        assert not {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & TOLERANCES, file
