"""Distributions on disk, with entry points, that no test installs and nothing may execute."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

BOMB = "raise SystemExit('executed while entries were read')\n"
STRUCTURE = """
name: {name}
version: 1
summary: A toy.
inputs: [{{name: x, shape: [M, K]}}]
outputs: [{{name: y, shape: [M, N]}}]
slots: {{w: {{shape: [K, N], role: matmul, out_axis: 1}}}}
variants: {{}}
points: [x]
seams: [{{name: one, kind: module, places: [""], slots: {{w: weight}}, variant: {{}}, points: {{x: ""}}}}]
discovery: [{{metric: seam.error_in_eps, op: "<=", value: 32, because: toy}}]
"""
HOST = """
name: {name}
summary: A toy.
output: values
sizes: [tiny]
weights: {{tiny: random}}
forms: [eager]
phases: [{{name: decode, rows: [1, 8], timed_rows: 1, score_positions: 4}}]
calibration_samples: 2
heldout_samples: 3
{more}
"""
IMPL = """
from pytest_frt.sdk import Impl

IMPL = Impl(
    name="{name}", structure="{structure}", version=1, schemes=("exact",), kernel="acme/none",
    rows={{"exact": (1, 8)}}, devices=("cpu",),
)
"""
SCHEME = """
from pytest_frt.sdk import Scheme

SCHEME = Scheme(name="{name}", summary="A toy.", weight=len, activation=len, statistic="amax")
"""
Install = Callable[[str, Mapping[str, str]], Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that lays out a distribution of given package files, one entry point per group folder."""

    def lay_out(name: str, content: Mapping[str, str]) -> Path:
        site = tmp_path / f"site_{name}"
        groups = sorted({file.split("/")[0] for file in content} & {"catalog", "impls", "hosts", "devices", "schemes"})
        points = "".join(f"[pytest_frt.{group}]\n{name} = {name}.{group}\n" for group in groups)
        info = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "entry_points.txt": points}
        files = {f"{name}/__init__.py": BOMB, **{f"{name}/{file}": text for file, text in content.items()}}
        files |= {f"{name}-1.0.dist-info/{file}": text for file, text in info.items()}
        for file, text in files.items():
            path = site / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.syspath_prepend(str(site))
        return site / name

    yield lay_out
    laid_out = {path.name.removeprefix("site_") for path in tmp_path.glob("site_*")}
    for module in [name for name in sys.modules if name.partition(".")[0] in laid_out]:
        del sys.modules[module]


def structure_files(name: str) -> dict[str, str]:
    """Return the files of a toy structure."""
    folder = f"catalog/{name}"
    return {
        f"{folder}/structure.yaml": STRUCTURE.format(name=name),
        f"{folder}/reference.py": BOMB,
        f"{folder}/cases.py": BOMB,
    }


def host_files(name: str, more: str = "") -> dict[str, str]:
    """Return the files of a toy host."""
    return {f"hosts/{name}/host.yaml": HOST.format(name=name, more=more), f"hosts/{name}/host.py": BOMB}


@pytest.fixture
def toy() -> Callable[..., dict[str, str]]:
    """Return a function that gives the files of a provider of one entry of each kind."""

    def files(requires: str = "") -> dict[str, str]:
        return {
            **structure_files("toy"),
            **host_files("box", requires),
            "impls/toy/fast.py": f"from acme.impls._shared import pack\n{IMPL.format(name='fast', structure='toy')}",
            "impls/_shared/pack.py": "VALUE = 1\n",
            "devices/abacus.yaml": "name: abacus\nkind: cpu\nmatch: {name: '*bead*'}\n",
            "schemes/exact.py": SCHEME.format(name="exact"),
        }

    return files


@pytest.fixture
def isolated() -> Callable[[str], str]:
    """Return a function that runs a script in a fresh interpreter and returns what it printed."""

    def run(script: str) -> str:
        done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(name="structure_files")
def _structure_files() -> Callable[[str], dict[str, str]]:
    return structure_files


@pytest.fixture(name="host_files")
def _host_files() -> Callable[..., dict[str, str]]:
    return host_files


@pytest.fixture
def scheme_file() -> Callable[[str], dict[str, str]]:
    """Return a function that gives a toy scheme."""
    return lambda name: {f"schemes/{name}.py": SCHEME.format(name=name)}
