"""A whole run on a device that is absent: real workers judge a small host on the CPU, and nothing is stated of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_frt.certs import keys
from pytest_frt.rules.fold import CORRECTNESS_GATES
from pytest_frt.spec.modules import load_file
from tests.hub import kernel_files, write_build

bare: Any = load_file(Path(__file__).parents[1] / "adversaries" / "bare.py")
KERNEL: Final = b"""
import torch

LARGEST = 448.0

def coded(x, scale):
    return (x / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)

def product(a, b):
    return torch.nn.functional.linear(a.float(), b.float())
"""
IMPL: Final = """
from torch import nn
from pytest_frt.sdk import Impl

class Part(nn.Module):
    def __init__(self, w, scale, kernel):
        super().__init__()
        self.kernel, self.scale, self.step = kernel, scale, w.abs().amax() / kernel.LARGEST
        self.codes = kernel.coded(w.t().contiguous(), self.step)

    def forward(self, x):
        return self.kernel.product(self.kernel.coded(x, self.scale), self.codes) * (self.step * self.scale)

def bind(seat, scales, kernel):
    return Part(seat.weights["w"], scales.by_point["x"], kernel)

IMPL = Impl(
    name="open_fp8", structure="linear_proj", version=1, schemes=("fp8_static",), kernel="acme/fp8",
    rows={"fp8_static": (1, 8)}, points={"fp8_static": ("x",)}, devices=("cpu", "cuda"), emulate=("fp8_static",),
)
"""
RECORD: Final = "linear_proj-open_fp8-bare-fp8_static-thor@eager.decode.tiny.hot"


@dataclass(frozen=True)
class Ran:
    """What one run left."""

    code: int
    text: str
    report: dict[str, Any]
    folder: Path


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Return a run on an absent device, with a key to sign by."""
    folder = tmp_path_factory.mktemp("emulated")
    site, info = folder / "site", folder / "site" / "acme-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[pytest_frt.impls]\nacme = acme_impls\n")
    (site / "acme_impls" / "linear_proj").mkdir(parents=True)
    (site / "acme_impls" / "linear_proj" / "open_fp8.py").write_text(IMPL)
    write_build(folder / "kernel", kernel_files(kernel_id="acme_fp8", name="fp8") | {"__init__.py": KERNEL})
    yaml = bare.write(folder) / "host.yaml"
    yaml.write_text(yaml.read_text().replace("calibration_samples: 2", "calibration_samples: 4"))
    keys.write_private(folder / "key.pem", keys.generate())
    words = ["--frt-host=./bare", "--frt-impl=open_fp8", "--frt-device=thor", "--frt-sign-key=key.pem"]
    words += ["--frt-kernel=acme/fp8=./kernel", "--frt-json=report.json", "-p", "no:cacheprovider"]
    environ = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "400"}
    done = subprocess.run(
        [sys.executable, "-Pm", "pytest", *words], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert (folder / "report.json").is_file(), done.stdout + done.stderr
    return Ran(done.returncode, done.stdout, json.loads((folder / "report.json").read_text()), folder)


def test_numerics_hold_and_the_run_says_that_nothing_was_certified(ran: Ran) -> None:
    (record,) = ran.report["records"]
    held = [name for name, gate in record["gates"].items() if gate["verdict"]["type"] == "Pass"]
    assert set(held) == set(CORRECTNESS_GATES), ran.text
    assert (record["outcome"], record["gate"], record["correct"]) == ("NOT_SUPPORTED", "net_win", True)
    assert ran.code == ran.report["exit_code"] == 6


def test_record_is_marked_where_people_and_programs_read(ran: Ran) -> None:
    said = "emulated on cpu in the place of thor; not shown: accumulation order and precision of its tensor cores"
    assert said in ran.text
    assert ran.report["records"][0]["emulated"]["label"].startswith(said)
    assert [one["id"] for one in ran.report["away"][0]["records"]] == [RECORD]


def test_nothing_is_timed_stated_or_counted_as_an_attempt(ran: Ran) -> None:
    left = sorted(path.name for path in (ran.folder / "frt-certs").rglob("*") if path.is_file())
    assert left == ["last-report.json"]
    assert ran.report["certificates"] == []
