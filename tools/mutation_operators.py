"""What is changed in a source, one place at a time: the operators of ``mutate.py``."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

COMPARE: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
}
EXACT: Final = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
WORD: Final = re.compile(r"\w+(?:[.-]\w+)*")
Node = ast.expr | ast.stmt


CHECKS: Final = frozenset(
    {"condition removed", "condition inverted", "branch removed", "comparison", "operand dropped", "and/or"}
    | {"raise removed", "return None", "statement removed", "loop removed", "continue/break", "call"}
)
"""Operators that remove or invert a check, or keep it from being made; the others change what it compares."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed source.

    Attributes:
        line: Line of the change, from 1.
        operator: What kind of change it is.
        before: The changed line, stripped.
        after: What became of it, stripped.
        source: The whole changed source.
    """

    line: int
    operator: str
    before: str
    after: str
    source: str


def _conditions(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        return [node.test]
    if isinstance(node, ast.comprehension):
        return node.ifs
    return []


def _condition_changes(node: ast.AST) -> Iterator[tuple[str, Node, Node]]:
    for test in _conditions(node):
        # Of == and `in` the comparison itself has the exact opposite; an order has none where NaN may come.
        if not (isinstance(test, ast.Compare) and all(isinstance(op, EXACT) for op in test.ops)):
            yield "condition inverted", test, ast.UnaryOp(ast.Not(), test)
        yield "condition removed", test, ast.Constant(value=True)
        if not isinstance(node, ast.While):
            yield "branch removed", test, ast.Constant(value=False)


def _constants(node: ast.Constant) -> Iterator[tuple[str, Node, Node]]:
    match node.value:
        case bool(value):
            yield "constant", node, ast.Constant(value=not value)
        case int(value):
            yield "constant", node, ast.Constant(value=value + 1)
            yield "constant", node, ast.Constant(value=value - 1)
        case float(value):
            yield "constant", node, ast.Constant(value=value * 2 if value else 1.0)
            yield "constant", node, ast.Constant(value=value / 2 if value else -1.0)
        case str(value) if WORD.fullmatch(value):
            yield "word", node, ast.Constant(value=f"{value}_")


def _operators(node: ast.expr) -> Iterator[tuple[str, Node, Node]]:
    match node:
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                for other in COMPARE[type(op)]:
                    changed = copy.deepcopy(node)
                    changed.ops[index] = other()
                    yield "comparison", node, changed
        case ast.BoolOp(op=op, values=values):
            yield "and/or", node, ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            for index in range(len(values)):
                left = values[:index] + values[index + 1 :]
                yield "operand dropped", node, left[0] if len(left) == 1 else ast.BoolOp(op, left)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield "sign dropped", node, operand
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            yield "arithmetic", node, ast.BinOp(left, ARITHMETIC[type(op)](), right)
        case ast.Call(func=ast.Name(id=name, ctx=ctx)) if name in CALLS:
            yield "call", node, ast.Call(ast.Name(CALLS[name], ctx), node.args, node.keywords)
        case ast.Constant():
            yield from _constants(node)


def _statements(node: ast.stmt) -> Iterator[tuple[str, Node, Node]]:
    match node:
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "return None", node, ast.Return(ast.Constant(value=None))
        case ast.Raise():
            yield "raise removed", node, ast.Pass()
        case ast.Expr(value=value) if not isinstance(value, ast.Constant):
            yield "statement removed", node, ast.Pass()
        case ast.AugAssign(op=op) if type(op) in ARITHMETIC:
            yield "arithmetic", node, ast.AugAssign(node.target, ARITHMETIC[type(op)](), node.value)
            yield "statement removed", node, ast.Pass()
        case ast.Continue() | ast.Break():
            other = ast.Break() if isinstance(node, ast.Continue) else ast.Continue()
            yield "continue/break", node, other
            yield "statement removed", node, ast.Pass()
        case ast.For(iter=wanted):
            yield "loop removed", wanted, ast.Tuple([], ast.Load())


def _skipped(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is no behaviour: annotations, decorators, docstrings, messages, lists of what is exported."""
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            yield from node.decorator_list
            yield from [node.returns] if isinstance(node, ast.FunctionDef) and node.returns else []
        case ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation):
            yield annotation
        case ast.JoinedStr() as message:
            yield message
        case ast.Assign(targets=[ast.Name()], value=ast.Subscript() as alias):
            yield alias
        case (
            ast.Assign(targets=[ast.Name("__all__")], value=names)
            | ast.AugAssign(target=ast.Name("__all__"), value=names)
        ):
            yield names
        case ast.Raise(exc=ast.expr() as error):
            yield error


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    skipped = set(map(id, _skipped(node)))
    for child in ast.iter_child_nodes(node):
        if id(child) not in skipped and not isinstance(child, ast.JoinedStr):
            yield from _walk(child)


def _splice(source: bytes, starts: list[int], old: Node, new: Node) -> bytes:
    text = ast.unparse(ast.fix_missing_locations(new))
    if isinstance(new, ast.expr) and not isinstance(new, ast.Constant | ast.Tuple):
        text = f"({text})"
    end_line, end_column = old.end_lineno or old.lineno, old.end_col_offset or 0
    begin, end = starts[old.lineno - 1] + old.col_offset, starts[end_line - 1] + end_column
    return source[:begin] + text.encode() + source[end:]


def mutants(text: str) -> list[Mutant]:
    """Return every mutant of a source, in the order of its lines, the ones with the same result once."""
    source = text.encode()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: dict[bytes, Mutant] = {}
    for node in _walk(ast.parse(text)):
        changes = list(_condition_changes(node))
        changes += _operators(node) if isinstance(node, ast.expr) else ()
        changes += _statements(node) if isinstance(node, ast.stmt) else ()
        for operator, old, new in changes:
            changed = _splice(source, starts, old, new)
            before, after = (part.splitlines()[old.lineno - 1].decode().strip() for part in (source, changed))
            if changed != source:
                found.setdefault(changed, Mutant(old.lineno, operator, before, after, changed.decode()))
    return sorted(found.values(), key=lambda mutant: (mutant.line, mutant.after))
