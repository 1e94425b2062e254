"""Read the imports of a Python file without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PACKAGE: Final = "pytest_frt"
MAPPED_ROOTS: Final = frozenset({"catalog", "impls", "hosts", "csrc"})  # top-level folders shipped inside the package


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module.

    Attributes:
        line: Line of the statement.
        target: Absolute dotted name; ``from a import b`` counts as ``a.b`` where ``a`` is the package itself.
        at_import: False inside a function or a block for type checkers.
    """

    line: int
    target: str
    at_import: bool

    @property
    def root(self) -> str:
        """The top-level name."""
        return self.target.partition(".")[0]

    @property
    def part(self) -> str:
        """The part of our package that is named, empty for the package itself or another package."""
        names = self.target.split(".")
        return names[1] if names[0] == PACKAGE and len(names) > 1 else ""


def module_name(path: Path, root: Path) -> str:
    """Return the dotted name that ``path`` has when the package is installed; a package ends in ``__init__``."""
    names = path.relative_to(root).with_suffix("").parts
    return ".".join((PACKAGE, *names) if names[0] in MAPPED_ROOTS else names)


class _Collector(ast.NodeVisitor):
    def __init__(self, module: str) -> None:
        self.module = module
        self.found: list[Import] = []
        self._deferred = 0

    def _add(self, node: ast.AST, target: str) -> None:
        self.found.append(Import(getattr(node, "lineno", 0), target, at_import=self._deferred == 0))

    def _visit_deferred(self, nodes: list[ast.stmt]) -> None:
        self._deferred += 1
        for node in nodes:
            self.visit(node)
        self._deferred -= 1

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_deferred(node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_deferred(node.body)

    def visit_If(self, node: ast.If) -> None:
        name = node.test.attr if isinstance(node.test, ast.Attribute) else getattr(node.test, "id", "")
        if name == "TYPE_CHECKING":
            self._visit_deferred(node.body)
            for other in node.orelse:
                self.visit(other)
        else:
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            above = self.module.split(".")[: -node.level]
            base = ".".join([*above, base] if base else above)
        for alias in node.names:
            self._add(node, f"{base}.{alias.name}" if base == PACKAGE else base)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in {"import_module", "__import__"} and node.args and isinstance(node.args[0], ast.Constant):
            self._add(node, str(node.args[0].value))
        self.generic_visit(node)


def imports(path: Path, root: Path) -> list[Import]:
    """Return every import of ``path``, also those inside functions and by ``import_module`` with a literal."""
    collector = _Collector(module_name(path, root))
    collector.visit(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)))
    return collector.found


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and value of every string of ``path`` that is not a docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    prose = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value
