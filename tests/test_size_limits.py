"""Files and functions stay within their budgets, and one over its budget is named with its number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import check_sizes
import pytest

WriteTree = Callable[[Mapping[str, str]], Path]


def function(lines: int, name: str = "long") -> str:
    return f"def {name}():\n" + "    pass\n" * (lines - 1)


def test_this_tree_is_within_its_budgets(repository: Path) -> None:
    assert check_sizes.check(repository) == []


@pytest.mark.parametrize(
    ("place", "text", "number"),
    {
        "python_file": ("pytest_frt/big.py", "x = 1\n" * 301, "301"),
        "kernel_source": ("csrc/gemm/gemm.cu", "//\n" * 301, "301"),
        "test_file": ("tests/test_big.py", "x = 1\n" * 301, "301"),
        "function": ("pytest_frt/one.py", function(61) + "\n".join(function(2, f"f{n}") for n in range(40)), "61"),
        "method": (
            "pytest_frt/one.py",
            "class A:\n    async def m(self):\n" + "        pass\n" * 60 + function(2) * 40,
            "61",
        ),
        "many_long_functions": ("pytest_frt/one.py", function(36) * 3, "36"),
    }.values(),
    ids=["python_file", "kernel_source", "test_file", "function", "method", "many_long_functions"],
)
def test_excess_is_reported_with_its_number(write_tree: WriteTree, place: str, text: str, number: str) -> None:
    found = check_sizes.check(write_tree({place: text}))
    assert len(found) == 1, found
    assert number in found[0]
    assert place in found[0]


@pytest.mark.parametrize("place", ["pytest_frt/__pycache__/big.py", "docs/big.py"])
def test_folders_without_source_are_left_out(write_tree: WriteTree, place: str) -> None:
    assert check_sizes.check(write_tree({place: "x = 1\n" * 301})) == []


def test_limits_themselves_pass(write_tree: WriteTree) -> None:
    tree = write_tree({"impls/a/b.py": function(60) + "\n" * (300 - 60 - 80) + function(2) * 40})
    assert check_sizes.check(tree) == []
