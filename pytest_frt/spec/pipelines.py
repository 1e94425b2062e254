"""Stage pipelines: pipeline.yaml and the functions of conformance.py to frozen types. Nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from pytest_frt.contracts.evidence import HostMetrics
from pytest_frt.contracts.pipeline import (
    Broken,
    CheckSpec,
    Finding,
    Holds,
    NotShown,
    ParitySpec,
    Pipeline,
    StageSpec,
    WindowSpec,
)
from pytest_frt.contracts.structure import Limit
from pytest_frt.errors import EvidenceError, SpecError
from pytest_frt.spec import codec
from pytest_frt.spec.digest import bytes_digest
from pytest_frt.spec.plain import read_plain
from pytest_frt.spec.validate import read_validated

CONFORMANCE: Final = "conformance.py"
LOOKED_AT: Final = "Host"
"""Protocol of conformance.py: what its functions may look at."""
GIVEN: Final = frozenset({"input", "noise"})
"""Roles of windows that a sample fills; the others arise while a pipeline runs."""
AT_MOST: Final = "<="
METRICS: Final = frozenset(one.name for one in fields(HostMetrics)) - {"sample", "finite"}
FINDINGS: Final[Mapping[str, type[Holds | Broken | NotShown]]] = {
    kind.__name__: kind for kind in (Holds, Broken, NotShown)
}


def load_pipeline(folder: str | Path) -> Pipeline:
    """Read ``<folder>/pipeline.yaml`` and the names of the functions of its ``conformance.py``.

    Raises:
        SpecError: a file is missing, breaks the schema or contradicts itself, or a conformance name and a function do
            not go together; names file, key and value.
    """
    folder = Path(folder).resolve()
    path = folder / "pipeline.yaml"
    content, data = read_validated(path, "pipeline")
    if content["name"] != folder.name:
        raise SpecError(f"{path}: name: {content['name']!r} differs from {folder.name!r}, its folder")
    source, functions = _functions(folder / CONFORMANCE)
    pipeline = Pipeline(
        name=content["name"],
        version=content["version"],
        summary=content["summary"],
        stages=tuple(StageSpec(**item) for item in content["stages"]),
        windows=tuple(WindowSpec(**item) for item in content["windows"]),
        embeds=tuple(content["embeds"]),
        parity=ParitySpec(**{key: _sequence(value) for key, value in content["parity"].items()}),
        checks=tuple(_check(item) for item in content["conformance"]),
        digest=bytes_digest(data),
        conformance_digest=bytes_digest(source),
        folder=str(folder),
    )
    _once(path, "stages", [stage.name for stage in pipeline.stages])
    _once(path, "windows", [window.name for window in pipeline.windows])
    _once(path, "conformance", [check.name for check in pipeline.checks])
    _parity(path, pipeline)
    _needs(path, pipeline.checks)
    _most(path, pipeline.checks)
    _executable(path, pipeline.checks, functions)
    return pipeline


def _check(item: dict[str, Any]) -> CheckSpec:
    limits = [Limit(one["metric"], one["op"], float(one["value"]), one["because"]) for one in item.get("limits", ())]
    return CheckSpec(item["name"], item["summary"], tuple(item.get("needs", ())), tuple(limits))


def _sequence(value: str | list[str]) -> Any:  # noqa: ANN401 (a field of either kind)
    return tuple(value) if isinstance(value, list) else value


def _once(where: object, key: str, names: list[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SpecError(f"{where}: {key}: {', '.join(twice)} stands twice")


def _parity(path: Path, pipeline: Pipeline) -> None:
    roles = {window.name: window.role for window in pipeline.windows}
    if roles.get(pipeline.parity.window) != "output":
        outputs = [name for name, role in roles.items() if role == "output"]
        raise SpecError(f"{path}: parity.window: {pipeline.parity.window!r} is no output; outputs are {outputs}")
    if wrong := [name for name in pipeline.parity.same if roles.get(name) not in GIVEN]:
        raise SpecError(f"{path}: parity.same: {wrong} are no windows of role {' or '.join(sorted(GIVEN))}")
    if unknown := set(pipeline.parity.metrics) - METRICS:
        raise SpecError(f"{path}: parity.metrics: nothing computes {sorted(unknown)}; known: {sorted(METRICS)}")


def _needs(path: Path, checks: Iterable[CheckSpec]) -> None:
    earlier: list[str] = []
    for check in checks:
        if late := [name for name in check.needs if name not in earlier]:
            raise SpecError(f"{path}: conformance.{check.name}.needs: {late} are not among the earlier {earlier}")
        earlier.append(check.name)


def _most(path: Path, checks: Iterable[CheckSpec]) -> None:
    """Refuse limits that no check can keep: its function is given the number alone, as the most it admits."""
    for check in checks:
        if least := [one.metric for one in check.limits if one.op != AT_MOST]:
            raise SpecError(
                f"{path}: conformance.{check.name}.limits: {', '.join(least)}: op is no {AT_MOST!r}",
                hint="a check takes each of its limits as the most that it admits; measure what must be small",
            )


def _functions(path: Path) -> tuple[bytes, dict[str, ast.FunctionDef]]:
    """Return the source and the public functions at its top level."""
    try:
        source = read_plain(path)
        tree = ast.parse(source, filename=str(path))
    except SyntaxError as fault:
        raise SpecError(f"{path}:{fault.lineno}: not readable as Python: {fault.msg}") from fault
    except ValueError as fault:  # null bytes
        raise SpecError(f"{path}: not readable as Python: {fault}") from fault
    except OSError as fault:
        raise SpecError(f"{path}: cannot be read: {fault.strerror}", hint=f"write {path.name}") from fault
    if not any(isinstance(node, ast.ClassDef) and node.name == LOOKED_AT for node in tree.body):
        raise SpecError(
            f"{path}: has no class {LOOKED_AT}", hint="a Protocol of that name says what the checks may look at"
        )
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    _once(path, "functions", [node.name for node in found])
    return source, {node.name: node for node in found}


def _executable(path: Path, checks: Iterable[CheckSpec], functions: Mapping[str, ast.FunctionDef]) -> None:
    """Hold every conformance name to a function that takes a host and the limits of the check, and the other way."""
    named = {check.name: check for check in checks}
    if bare := [name for name in named if name not in functions]:
        raise SpecError(
            f"{path}: conformance: {', '.join(bare)}: {CONFORMANCE} has no function of that name",
            hint="a conformance name is a check that runs: write its function or drop the name",
        )
    if unnamed := [name for name in functions if name not in named]:
        raise SpecError(
            f"{path}: conformance: names no {', '.join(unnamed)}, which {CONFORMANCE} defines",
            hint="name it, or let its name begin with an underscore",
        )
    for name, function in functions.items():
        asked = function.args
        keywords, limits = {one.arg for one in asked.kwonlyargs}, {one.metric for one in named[name].limits}
        others = [*asked.posonlyargs, *asked.args]
        if len(others) != 1 or asked.vararg or asked.kwarg or keywords != limits:
            raise SpecError(
                f"{path}: conformance.{name}: its function takes {len(others)} hosts and the keywords "
                f"{sorted(keywords)}, it needs 1 and its limits {sorted(limits)}",
                hint=f"def {name}(host: Host{', *, ' if limits else ''}{', '.join(sorted(limits))})",
            )


def check_embedded(pipeline: Pipeline, catalog: Collection[str]) -> None:
    """Check that every structure that a pipeline embeds is in the catalog.

    Raises:
        SpecError: one is not.
    """
    if absent := [name for name in pipeline.embeds if name not in catalog]:
        raise SpecError(
            f"{pipeline.folder}/pipeline.yaml: embeds: {', '.join(absent)}: not in the catalog",
            hint=f"install it, or drop the name; the catalog has {', '.join(sorted(catalog)) or 'nothing'}",
        )


def check_told(
    pipeline: Pipeline,
    modules: Mapping[str, tuple[str, ...]],
    windows: Mapping[str, tuple[str, ...]],
    sample: Collection[str],
    where: str,
) -> None:
    """Check that what a host tells covers a pipeline: its stages, its windows, and every name in a sample.

    Args:
        pipeline: The pipeline.
        modules: Stage to modules.
        windows: Window to names in a sample.
        sample: Names in a sample.
        where: What to call the host in a message.

    Raises:
        SpecError: a stage or window is unknown or missing, or names of windows and of a sample differ.
    """
    stages = {stage.name: stage.optional for stage in pipeline.stages}
    given = {window.name: window.optional for window in pipeline.windows if window.role in GIVEN}
    for what, told, known in (("modules", modules, stages), ("windows", windows, given)):
        if unknown := [name for name in told if name not in known]:
            raise SpecError(f"{where}: {what}: {pipeline.name} has no {unknown}; it has {sorted(known)}")
        if missing := [name for name, optional in known.items() if not optional and name not in told]:
            raise SpecError(f"{where}: {what}: {pipeline.name} needs {missing} as well")
    declared = [name for names in windows.values() for name in names]
    _once(where, "windows", declared)
    if set(declared) != set(sample):
        raise SpecError(
            f"{where}: windows: {sorted(set(sample) - set(declared))} of a sample are in no window, "
            f"{sorted(set(declared) - set(sample))} of windows in no sample",
            hint="every tensor that varies is in exactly one window",
        )


def read_finding(value: object, where: str) -> Finding:
    """Read what a check returned: a ``Holds``, ``Broken`` or ``NotShown`` of any module, field by field.

    Raises:
        SpecError: it is none of these, or has other fields than they have.
    """
    kind = FINDINGS.get(type(value).__name__)
    if kind is None or not is_dataclass(value) or isinstance(value, type):
        raise SpecError(f"{where}: returns {type(value).__name__}, needs {', '.join(FINDINGS)}")
    try:
        return codec.from_json(kind, asdict(value))
    except EvidenceError as fault:
        raise SpecError(f"{where}: {type(value).__name__}: {fault.message}") from fault
