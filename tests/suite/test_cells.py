"""The packaged suite has one function per gate, in the order of the gates, and warns nobody off."""

from __future__ import annotations

import ast
from pathlib import Path

from pytest_frt import suite
from pytest_frt.rules.fold import PLAN_GATES, RECORD_GATES


def test_one_function_per_gate_in_order() -> None:
    tree = ast.parse(Path(suite.__file__).with_name("test_cells.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    assert [node.name.removeprefix("test_") for node in functions] == [*RECORD_GATES, *PLAN_GATES]
    for node in functions:
        (mark,) = [ast.unparse(one) for one in node.decorator_list]
        assert mark == f"pytest.mark.frt_gate('{node.name.removeprefix('test_')}')"
