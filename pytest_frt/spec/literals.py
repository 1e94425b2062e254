"""What an impl or scheme module declares, read from its source with ``ast``: nothing is executed."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from pytest_frt.cell import check_name
from pytest_frt.contracts.impl import Impl
from pytest_frt.errors import FrtError, SpecError
from pytest_frt.spec import codec
from pytest_frt.spec.plain import read_plain

DECLARED_IMPL = "IMPL"
DECLARED_SCHEME = "SCHEME"
CPU = "cpu"


def declared_call(path: Path, variable: str, type_name: str) -> ast.Call:
    """Return the call of the module-level ``variable = type_name(...)``.

    Raises:
        SpecError: it is missing, stands twice, or is something else than one call with keywords.
    """
    try:
        tree = ast.parse(read_plain(path), filename=str(path))
    except SyntaxError as fault:
        raise SpecError(f"{path}:{fault.lineno}: not readable as Python: {fault.msg}") from fault
    except (ValueError, RecursionError, MemoryError) as fault:  # null bytes, or nested beyond what the parser takes
        raise SpecError(f"{path}: not readable as Python: {fault}") from fault
    except OSError as fault:
        raise SpecError(f"{path}: cannot be read: {fault.strerror}") from fault
    found = []
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found += [node.value] if name == variable else []
    call = found[0] if len(found) == 1 else None
    named = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == type_name
    if not named or not isinstance(call, ast.Call) or call.args or any(word.arg is None for word in call.keywords):
        raise SpecError(
            f"{path}: needs exactly one module-level {variable} = {type_name}(keyword=literal, ...), has {len(found)}",
            hint=f"declare {variable} at the foot of the module, with keywords only",
        )
    return call


def literal_keywords(call: ast.Call) -> dict[str, Any]:
    """Return the keywords of a call whose values are literals; the others are left out."""
    out = {}
    for word in call.keywords:
        try:
            out[str(word.arg)] = ast.literal_eval(word.value)
        except ValueError:
            continue
    return out


def read_impl(path: Path) -> Impl:
    """Read the ``IMPL`` literal of ``impls/<structure>/<name>.py``.

    Raises:
        SpecError: a value is no literal or has the wrong type, a field is missing or unknown, or name and structure
            differ from where the file lies.
    """
    call = declared_call(path, DECLARED_IMPL, Impl.__name__)
    values = literal_keywords(call)
    if computed := [str(word.arg) for word in call.keywords if word.arg not in values]:
        raise SpecError(f"{path}:{call.lineno}: IMPL: {', '.join(computed)} must be literals")
    try:
        impl = codec.from_json(Impl, codec.to_json(values))
    except FrtError as fault:
        raise SpecError(f"{path}:{call.lineno}: IMPL: {fault.message}") from fault
    if impl != Impl(**values):
        raise SpecError(f"{path}:{call.lineno}: IMPL: sequences must be tuples, as declared", hint="write (1, 8)")
    for what, given, expected in (("name", impl.name, path.stem), ("structure", impl.structure, path.parent.name)):
        if given != expected:
            raise SpecError(f"{path}: IMPL: {what} {given!r} differs from {expected!r}, where the file lies")
    check_name("impl", impl.name)
    if set(impl.rows) != set(impl.schemes) or not impl.schemes:
        raise SpecError(f"{path}: IMPL: rows are given for {sorted(impl.rows)}, schemes are {sorted(impl.schemes)}")
    for what, named in (("points", impl.points), ("emulate", impl.emulate)):
        if extra := set(named) - set(impl.schemes):
            said = f"{what} name {sorted(extra)}, which is in no scheme of {sorted(impl.schemes)}"
            raise SpecError(f"{path}: IMPL: {said}")
    if impl.emulate and not {CPU} < set(impl.devices):
        raise SpecError(
            f"{path}: IMPL: emulate is given, devices are {', '.join(impl.devices)}",
            hint=f"what is emulated runs on {CPU} in the place of another kind: name both in devices",
        )
    return impl
