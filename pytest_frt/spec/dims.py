"""Symbolic sizes: ``("M", "3*D")`` against ``(7, 192)`` gives ``D = 64``.

An entry of a shape is a whole-number expression over symbols: names, integers, ``+ - * /`` and parentheses.
``/`` is exact division. Evaluation never rounds.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import lru_cache

from pytest_frt.errors import SpecError

_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)


class SizeMismatch(SpecError):
    """Actual sizes contradict the symbolic shapes."""

    code = "SIZES"


@lru_cache(maxsize=1024)
def _parse(text: str) -> ast.expr:
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as fault:
        raise SpecError(f"size {text!r} is no expression", hint="write e.g. D, 3*D or (Hq+2*Hkv)*D") from fault
    for node in ast.walk(tree):
        fine = isinstance(node, (ast.BinOp, ast.Name, ast.Load, *_OPERATORS)) or (
            isinstance(node, ast.Constant) and type(node.value) is int
        )
        if not fine:
            raise SpecError(f"size {text!r} holds {ast.unparse(node)!r}: only names, integers and + - * / are sizes")
    return tree


def symbols(text: str) -> frozenset[str]:
    """Return the symbols of one size expression.

    Raises:
        SpecError: ``text`` is no size expression.
    """
    return frozenset(node.id for node in ast.walk(_parse(text)) if isinstance(node, ast.Name))


def _divide(whole: int, by: int, text: str) -> int:
    if by == 0 or whole % by:
        raise SizeMismatch(f"size {text!r}: {whole} is no multiple of {by}")
    return whole // by


def _evaluate(node: ast.expr, dims: Mapping[str, int], text: str) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            if name not in dims:
                raise SpecError(f"size {text!r} needs {name}; known are {', '.join(sorted(dims)) or 'none'}")
            return dims[name]
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _evaluate(left, dims, text), _evaluate(right, dims, text)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case _:
                    return _divide(a, b, text)
    raise SpecError(f"size {text!r} is no expression over symbols")


def evaluate(text: str, dims: Mapping[str, int]) -> int:
    """Return the value of a size expression.

    Raises:
        SpecError: it holds an unknown symbol or is no size expression.
        SizeMismatch: a division leaves a remainder.
    """
    return _evaluate(_parse(text), dims, text)


def shape_of(shape: Sequence[str], dims: Mapping[str, int]) -> tuple[int, ...]:
    """Return the sizes of a symbolic shape under ``dims``."""
    return tuple(evaluate(entry, dims) for entry in shape)


def _unknowns(node: ast.expr, dims: Mapping[str, int]) -> list[str]:
    return [leaf.id for leaf in ast.walk(node) if isinstance(leaf, ast.Name) and leaf.id not in dims]


def _invert(node: ast.expr, size: int, dims: Mapping[str, int], text: str) -> int:
    """Solve ``node == size`` for the one unknown symbol that stands in it once."""
    if isinstance(node, ast.Name):
        return size
    if not isinstance(node, ast.BinOp):
        raise SpecError(f"size {text!r} cannot be solved")
    in_left = bool(_unknowns(node.left, dims))
    known = _evaluate(node.right if in_left else node.left, dims, text)
    match node.op, in_left:
        case ast.Add(), _:
            inner = size - known
        case ast.Sub(), True:
            inner = size + known
        case ast.Sub(), False:
            inner = known - size
        case ast.Mult(), _:
            inner = _divide(size, known, text)
        case _, True:
            inner = size * known
        case _:
            inner = _divide(known, size, text)
    return _invert(node.left if in_left else node.right, inner, dims, text)


def _pairs(shapes: Mapping[str, Sequence[str]], actual: Mapping[str, Sequence[int]]) -> list[tuple[str, str, int]]:
    out = []
    for name, sizes in actual.items():
        symbolic = shapes[name]
        if len(symbolic) != len(sizes):
            wanted = f"[{', '.join(symbolic)}]"
            raise SizeMismatch(f"{name} has {len(sizes)} axes {tuple(sizes)}, needs {len(symbolic)}: {wanted}")
        out += [(name, text, size) for text, size in zip(symbolic, sizes, strict=True)]
    return out


def solve(shapes: Mapping[str, Sequence[str]], actual: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Find the size of every symbol from actual shapes.

    Args:
        shapes: Tensor name to symbolic shape.
        actual: Tensor name to sizes; a subset of ``shapes`` (optional tensors may be missing).

    Returns:
        Symbol to size.

    Raises:
        SizeMismatch: a different number of axes, or two tensors give a symbol different sizes.
        SpecError: the sizes given leave a symbol undetermined.
    """
    dims: dict[str, int] = {}
    came_from: dict[str, str] = {}
    todo = _pairs(shapes, actual)
    while todo:
        rest = []
        for name, text, size in todo:
            unknown = _unknowns(_parse(text), dims)
            if len(unknown) > 1:
                rest.append((name, text, size))
                continue
            if unknown:
                dims[unknown[0]] = _invert(_parse(text), size, dims, text)
                came_from[unknown[0]] = name
            elif (found := evaluate(text, dims)) != size:
                others = ", ".join(f"{s}={dims[s]} from {came_from[s]}" for s in sorted(symbols(text)))
                raise SizeMismatch(f"{name} has size {size} where {text!r} is {found} ({others})")
        if len(rest) == len(todo):
            raise SpecError(f"size {rest[0][1]!r} of {rest[0][0]} leaves more than one symbol undetermined")
        todo = rest
    if bad := {symbol: size for symbol, size in dims.items() if size < 0}:
        raise SizeMismatch(f"sizes come out negative: {bad}")
    return dims
