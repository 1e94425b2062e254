"""Change one place of a gate at a time and see whether a test notices.

Every mutant lives in memory: a process forked from a warm parent imports the changed source in place of the module
and runs the unit tests, the module's own first. Nothing is written into the tree. The exit status is 1 when fewer
mutants are killed than KILLED_SHARE or a survivor has no reason in ``mutation_survivors.toml``.
"""

from __future__ import annotations

import argparse
import ast
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from mutation_operators import CHECKS, Mutant, mutants
from mutation_scope import FOLDERS, dotted, tests_of
from mutation_swap import Loop, enclosing, forked
from repo_tree import ROOT

WARM: Final = ("hypothesis", "numpy", "torch", "yaml", "jsonschema", "tabulate", "rich.console", "cattrs")
UNUSED: Final = (
    *("anyio", "benchmark", "cacheprovider", "faulthandler", "logging"),
    *("threadexception", "unraisableexception", "xdist"),
)
# Without rewritten asserts: no one reads why a mutant fails, and the rewriting importer would come before ours.
OPTIONS: Final = ("-x", "-q", "--assert=plain", *(f"-pno:{name}" for name in UNUSED))
NOT_IMPORTED: Final = 99
KILLED_SHARE: Final = 0.9
LIMIT_FACTOR: Final = 5  # of the time the tests take unchanged
LIMIT_FLOOR_S: Final = 20.0  # a machine at work may hold a process up for longer than its tests take
REASONS: Final = Path(__file__).with_name("mutation_survivors.toml")
SURVIVED, KILLED, TIMEOUT = "survived", "killed", "timeout"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one mutant.

    Attributes:
        module: Dotted name.
        line: Line of the change.
        operator: Kind of change.
        before: The line, stripped.
        after: The line changed.
        result: ``killed``, ``timeout`` (the tests did not end: killed too) or ``survived``.
        seconds: Time the tests took.
    """

    module: str
    line: int
    operator: str
    before: str
    after: str
    result: str
    seconds: float

    @property
    def key(self) -> tuple[str, str, str]:
        """What stays the same when lines move."""
        return self.module, self.before, self.after


class Substitute(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports a changed source under the name and path of a module.

    Args:
        name: Dotted name of the module.
        path: Its file; ``__init__.py`` makes it a package.
        source: What to run instead of the file's text.
    """

    def __init__(self, name: str, path: Path, source: str) -> None:
        self._name, self._path, self._source = name, path, source
        self.used = False

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        """Answer for the one module, leave every other to the finders behind."""
        del path, target
        if fullname != self._name:
            return None
        inside = [str(self._path.parent)] if self._path.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, self._path, loader=self, submodule_search_locations=inside
        )

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed source in the module."""
        self.used = True
        exec(compile(self._source, str(self._path), "exec"), module.__dict__)  # noqa: S102 - that is the purpose


def _whole(finder: Substitute | None, arguments: Sequence[str]) -> int:
    if finder:
        sys.meta_path.insert(0, finder)
    code = int(pytest.main([*OPTIONS, *arguments]))
    return NOT_IMPORTED if code == 0 and finder and not finder.used else code


def run(finder: Substitute | None, arguments: Sequence[str], limit_s: float) -> tuple[int | None, float]:
    """Run tests in a fork of this process, from the first import on.

    Returns:
        Exit code of pytest, None when the time limit ended it; and the seconds it took.
    """
    return forked(functools.partial(_whole, finder, arguments), limit_s)


def _quick(loop: Loop, tests: Sequence[str], out: Path) -> int:
    code = int(pytest.main([*OPTIONS, *tests], plugins=[loop]))
    out.write_text(json.dumps(loop.found), encoding="utf-8")
    return code


def quickly(name: str, path: Path, wanted: Sequence[Mutant], tests: Sequence[str]) -> list[tuple[int | None, float]]:
    """Return exit code and seconds: of the unchanged module, then of each mutant with its code exchanged.

    Raises:
        SystemExit: the tests fail before anything is changed.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        out.write_text("[]", encoding="utf-8")
        loop = Loop(name, path, wanted, lambda seconds: max(LIMIT_FACTOR * seconds, LIMIT_FLOOR_S))
        forked(functools.partial(_quick, loop, tests, out), float("inf"))
        found: list[tuple[int | None, float]] = json.loads(out.read_text(encoding="utf-8"))
    if not found or found[0][0] != 0:
        raise SystemExit(f"{name}: the unchanged tests fail; run: pytest {' '.join(tests)}")
    return found


def examine(root: Path, path: Path, wanted: Sequence[Mutant]) -> Iterator[Result]:
    """Yield what becomes of each mutant of one module.

    Raises:
        SystemExit: the tests fail before anything is changed, or do not import what is.
    """
    name, tests = dotted(root, path), tests_of(root, path)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = [one for one in wanted if enclosing(tree, one.line)]
    (_, whole), *tried = quickly(name, path, inside, tests)
    quick = dict(zip(map(id, inside), tried, strict=True))
    for one in wanted:
        code, seconds = quick.get(id(one), (0, 0.0))
        if code == 0:
            limit = LIMIT_FACTOR * whole + LIMIT_FLOOR_S
            code, seconds = run(Substitute(name, path, one.source), tests, limit)
        if code == NOT_IMPORTED:
            raise SystemExit(f"{name}: no test imports it through this importer: {' '.join(tests)}")
        result = TIMEOUT if code is None else KILLED if code else SURVIVED
        yield Result(name, one.line, one.operator, one.before, one.after, result, round(seconds, 3))


def _explained(reasons: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    return {
        (module, entry["line"], after)
        for module, entries in reasons.items()
        for entry in entries
        if entry["reason"].strip()
        for after in entry["becomes"]
    }


def unexplained(results: Sequence[Result], reasons: Mapping[str, Any]) -> list[Result]:
    """Return the survivors without a reason: one names the module, the line's text and what became of it."""
    known = _explained(reasons)
    return [one for one in results if one.result == SURVIVED and one.key not in known]


def stale(results: Sequence[Result], reasons: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the reasons for survivors that are none, in the modules of the results."""
    survived = {one.key for one in results if one.result == SURVIVED}
    modules = {one.module for one in results}
    return sorted(key for key in _explained(reasons) - survived if key[0] in modules)


def table(results: Sequence[Result]) -> list[str]:
    """Return a Markdown table: one row per module and a total."""
    rows = ["| module | mutants | killed | of these timeouts | survived | share |", "|---|--:|--:|--:|--:|--:|"]
    for module in [*dict.fromkeys(one.module for one in results), ""]:
        found = Counter(one.result for one in results if one.module == module or not module)
        total, killed = found.total(), found[KILLED] + found[TIMEOUT]
        share = f"{killed / total:.1%}" if total else "-"
        rows.append(f"| {module or 'all'} | {total} | {killed} | {found[TIMEOUT]} | {found[SURVIVED]} | {share} |")
    return rows


def read(paths: Sequence[Path]) -> list[Result]:
    """Return the results of earlier runs; of one mutant the last counts."""
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    found = [Result(**json.loads(line)) for line in lines]
    return list({(one.line, *one.key): one for one in found}.values())


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", help="files, relative to the root; without any: gates, rules, measure")
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to run in")
    parser.add_argument("--out", type=Path, help="write every result as a line of JSON")
    parser.add_argument("--again", type=Path, help="an earlier --out: only what survived there")
    parser.add_argument("--read", type=Path, action="append", help="run nothing, tell an earlier --out; repeatable")
    parser.add_argument("--checks", action="store_true", help="only what removes, inverts or skips a check")
    parser.add_argument("--cold", action="store_true", help="import nothing ahead: for trees that need no torch")
    return parser.parse_args(arguments)


def _collect(given: argparse.Namespace) -> list[Result]:
    root: Path = given.root.resolve()
    os.chdir(root)
    for name in () if given.cold else WARM:
        importlib.import_module(name)
    if "hypothesis" in sys.modules:  # a machine at work kills no mutant by a deadline
        hypothesis = importlib.import_module("hypothesis")
        hypothesis.settings.register_profile("mutation", deadline=None)
        hypothesis.settings.load_profile("mutation")
    gc.freeze()
    again = {one.key for one in read([given.again]) if one.result == SURVIVED} if given.again else None
    results: list[Result] = []
    files = [root / name for name in given.modules]
    files = files or [file for folder in FOLDERS for file in sorted((root / "pytest_frt" / folder).glob("*.py"))]
    for path in files:
        wanted = mutants(path.read_text(encoding="utf-8"))
        if given.checks:
            wanted = [one for one in wanted if one.operator in CHECKS]
        if again is not None:
            wanted = [one for one in wanted if (dotted(root, path), one.before, one.after) in again]
        for result in examine(root, path, wanted) if wanted else ():
            results.append(result)
            if given.out:
                with given.out.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(asdict(result)) + "\n")
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table and the survivors without a reason, and return the exit status."""
    given = _arguments(arguments)
    with tempfile.TemporaryDirectory() as cache:
        sys.pycache_prefix, sys.dont_write_bytecode = cache, False
        results = read(given.read) if given.read else _collect(given)
    reasons = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    bare = unexplained(results, reasons)
    print("\n".join(table(results)))
    for one in bare:
        print(f"\n{one.module}:{one.line} {one.operator}\n  - {one.before}\n  + {one.after}")
    for module, line, after in () if given.checks else stale(results, reasons):
        print(f"\nexplained and yet no survivor: {module}\n  - {line}\n  + {after}")
    killed = sum(one.result != SURVIVED for one in results)
    return 1 if bare or killed < KILLED_SHARE * len(results) else 0


if __name__ == "__main__":
    sys.exit(main())
