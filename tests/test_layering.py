"""Imports point one way: the table of tools/check_layering.py holds, and each kind of violation is reported."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import check_layering
import pytest
from repo_tree import ROOT

WriteTree = Callable[[Mapping[str, str]], Path]

VIOLATIONS = {
    "impl_reaches_into_core": ("impls/ffn/fast.py", "from pytest_frt.certs import verify"),
    "host_takes_registry": ("hosts/llama/host.py", "import pytest_frt.registry"),
    "structure_uses_sdk": ("catalog/ffn/reference.py", "from pytest_frt import sdk"),
    "structure_uses_numpy": ("catalog/ffn/cases.py", "import numpy as np"),
    "impl_loads_kernel": ("impls/ffn/fast.py", "from kernels import get_kernel"),
    "kernel_knows_us": ("csrc/gemm/torch-ext/gemm/__init__.py", "import pytest_frt.sdk"),
    "runtime_judges": ("pytest_frt/runtime/attach.py", "from pytest_frt.gates import GATES"),
    "runtime_judges_late": ("pytest_frt/runtime/attach.py", "def go():\n    from pytest_frt import gates"),
    "runtime_judges_dynamically": ("pytest_frt/runtime/attach.py", "import_module('pytest_frt.gates')"),
    "runtime_judges_relatively": ("pytest_frt/runtime/attach.py", "from ..gates import GATES"),
    "runtime_needs_pytest": ("pytest_frt/runtime/handle.py", "import pytest"),
    "worker_sees_keys": ("pytest_frt/lab/worker.py", "from pytest_frt.certs import keys"),
    "worker_judges": ("pytest_frt/lab/worker.py", "from pytest_frt.gates import parity"),
    "gate_runs_models": ("pytest_frt/gates/parity.py", "from pytest_frt.seat import swap"),
    "verifier_needs_torch": ("pytest_frt/certs/verify.py", "def go():\n    import torch"),
    "rules_need_torch": ("pytest_frt/rules/bands.py", "from torch import Tensor"),
    "spec_looks_up": ("pytest_frt/spec/load.py", "from pytest_frt.registry import find"),
    "contract_has_behaviour": ("pytest_frt/contracts/seat.py", "from pytest_frt.seat.swap import commit"),
    "contract_typed_upwards": (
        "pytest_frt/contracts/seat.py",
        "if TYPE_CHECKING:\n    from pytest_frt.runtime import Handle",
    ),
    "errors_know_contracts": ("pytest_frt/errors.py", "from pytest_frt.contracts.verdict import Refusal"),
    "plugin_heavy": ("pytest_frt/plugin.py", "import torch"),
    "registry_heavy": ("pytest_frt/registry.py", "from transformers import AutoModel"),
    "core_imports_entry": ("pytest_frt/cli/list.py", "from pytest_frt.catalog.ffn import reference"),
    "bare_root": ("pytest_frt/cli/list.py", "import hosts.llama"),
    "core_names_structure": ("pytest_frt/gates/parity.py", "if name == 'ffn': pass"),
    "core_names_host": ("pytest_frt/options.py", "HELP = 'e.g. llama'"),
    "core_names_impl": ("pytest_frt/seat/bind.py", "table = {'fast': 1}"),
    "judge_prints": ("pytest_frt/run/bench.py", "from pytest_frt.report import table"),
    "unlisted_part": ("pytest_frt/helpers.py", ""),
}
ENTRIES = {"catalog/ffn/structure.yaml": "", "hosts/llama/host.yaml": "", "impls/ffn/fast.py": ""}


def test_this_tree_points_one_way(repository: Path) -> None:
    assert check_layering.check(repository) == []


@pytest.mark.parametrize(("place", "code"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_violation_is_reported_by_name(write_tree: WriteTree, place: str, code: str) -> None:
    found = check_layering.check(write_tree({**ENTRIES, place: code}))
    assert len(found) == 1, found
    assert found[0].startswith(place)


@pytest.mark.parametrize(
    ("place", "code"),
    {
        "impl_uses_sdk": ("impls/ffn/fast.py", "from pytest_frt.sdk import Impl\nimport torch, numpy"),
        "impl_shares_packing": ("impls/ffn/fast.py", "from .._shared import pack"),
        "reference_uses_torch": ("catalog/ffn/reference.py", "import math\nfrom torch import Tensor"),
        "runtime_through_row": ("pytest_frt/runtime/match.py", "from pytest_frt.rules import bands"),
        "contract_typed_torch": ("pytest_frt/contracts/host.py", "if TYPE_CHECKING:\n    from torch import nn"),
        "plugin_lazy": ("pytest_frt/plugin.py", "def go():\n    import torch\n    from pytest_frt import lab"),
        "docstring_example": ("pytest_frt/cell.py", '"""Such as ffn-fast-llama."""'),
    }.values(),
)
def test_allowed_import_passes(write_tree: WriteTree, place: str, code: str) -> None:
    assert check_layering.check(write_tree({**ENTRIES, place: code})) == []


def test_table_has_no_cycle() -> None:
    rows = [part for part, row in check_layering.TABLE.items() if row != check_layering.EVERYTHING]
    assert [part for part in rows if part in check_layering.reachable(part)] == []


def modules_after_importing(names: list[str]) -> set[str]:
    """Return the top-level and our own modules that a fresh interpreter holds after importing ``names``."""
    script = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", script, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def all_modules(package: str) -> list[str]:
    """Return ``package`` and every module in it."""
    folder = Path(ROOT, *package.split("."))
    return [package, *(f"{package}.{found.name}" for found in pkgutil.iter_modules([str(folder)]))]


@pytest.mark.parametrize("name", ["pytest_frt", "pytest_frt.plugin", "pytest_frt.options", "pytest_frt.sdk"])
def test_import_is_light(name: str) -> None:
    assert not check_layering.HEAVY & modules_after_importing([name])


@pytest.mark.parametrize("package", ["pytest_frt.certs", "pytest_frt.rules", "pytest_frt.spec"])
def test_auditor_needs_no_torch_and_no_pytest(package: str) -> None:
    assert not {"torch", "pytest"} & modules_after_importing(all_modules(package))


def test_runtime_needs_no_pytest_and_no_judge() -> None:
    loaded = modules_after_importing(all_modules("pytest_frt.runtime"))
    assert not {"pytest", "_pytest", "pytest_frt.gates", "pytest_frt.lab", "pytest_frt.plugin"} & loaded
