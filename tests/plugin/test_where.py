"""From which directory, with which files around, and in which process: the packaged suite, and nothing when unasked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.registry import Broken, Registry

if TYPE_CHECKING:
    from tests.plugin.conftest import Stage

LOADED = "import sys\ndef pytest_unconfigure(): print('LOADED', *sorted(sys.modules))"
AUTHOR = """
def test_mine(frt_cell, frt_config):
    assert frt_cell.host == "toy"
    assert frt_config.seed == 5
"""


def test_inert_without_options(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_one="def test_one(): pass", loaded=LOADED)
    result = pytester.run(sys.executable, "-m", "pytest", "-p", "loaded", "-q")
    modules = set(next(line for line in result.stdout.lines if line.startswith("LOADED")).split())
    assert "pytest_frt.plugin" in modules
    assert not {"torch", "pytest_frt.session", "pytest_frt.registry", "yaml", "cryptography", "tabulate"} & modules
    assert "frt:" not in result.stdout.str()


def test_importing_the_plugin_costs_less_than_5_ms_of_its_own() -> None:
    words = [sys.executable, "-X", "importtime", "-c", "import pytest\nimport pytest_frt.plugin, pytest_frt.hookspecs"]
    costs = []
    for _ in range(5):
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        own = re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+pytest_frt\S*", done.stderr)
        costs.append(sum(map(int, own)))
    assert min(costs) < 5000, f"{costs} microseconds"


def test_empty_directory_and_hostile_surroundings(stage: Stage) -> None:
    stage.pytester.makeconftest("raise RuntimeError('not part of the suite')")
    stage.pytester.makeini("[pytest]\ntestpaths = tests\nfilterwarnings = error\naddopts = --strict-markers")
    stage.pytester.mkdir("tests").joinpath("test_other.py").write_text("def test_other(): raise RuntimeError")
    result = stage.pytester.runpytest_subprocess("-p", "frt_fake", "--frt-host=toy")
    assert stage.counts(result) == {"passed": 6, "NOT_RUN": 1}


def test_clone_with_testpaths_and_a_root_conftest(stage: Stage, repository: Path) -> None:
    words = [sys.executable, "-m", "pytest", "-p", "frt_fake", "--frt-host=toy", "--collect-only", "-q"]
    scenario = stage.pytester.path / "scenario.json"
    environ = {**os.environ, "FRT_SCENARIO": str(scenario)}
    done = subprocess.run(words, cwd=repository, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^7 tests collected", done.stdout, re.MULTILINE)


def test_collect_only_names_every_item_and_judges_nothing(stage: Stage) -> None:
    stage.scenario(stage.record, bugs=["null_control"])
    result = stage.run("--collect-only", "-q")
    assert result.ret == 0
    gates = ("null_control", "seats", "parity", "ledger", "contract", "net_win")
    result.stdout.fnmatch_lines([*(f"*::test_{gate}[[]{stage.record}[]]" for gate in gates), "*[[]toy-cpu@*"])


def test_printed_node_id_can_be_retyped(stage: Stage) -> None:
    result = stage.run(f"test_cells.py::test_seats[{stage.record}]", "-v")
    result.stdout.fnmatch_lines([f"*::test_seats[[]{stage.record}[]] PASSED*"])
    assert stage.counts(result) == {"passed": 1}


def test_file_of_that_name_in_the_working_directory_is_somebody_elses(stage: Stage) -> None:
    stage.pytester.makepyfile(test_cells="def test_own(): pass")
    result = stage.run("test_cells.py")
    assert result.ret == 0
    assert stage.counts(result) == {"passed": 1}


def test_broken_provider_is_shown_in_the_header(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Registry(broken=(Broken("hosts", "acme", "acme-frt 1.0", "host.yaml: no sizes"),))
    monkeypatch.setattr("pytest_frt.session.Registry.load", lambda: broken)
    result = stage.run()
    result.stdout.fnmatch_lines(["frt: broken hosts provider acme: host.yaml: no sizes"])


def test_parity_side_comes_before_timing_and_unions_last(stage: Stage) -> None:
    stage.scenario(stage.record, stage.other)
    lines = stage.run("--collect-only", "-q").stdout.lines
    gates = [found.group(1) for line in lines if (found := re.search(r"::test_(\w+)\[", line))]
    assert gates[-3:] == ["net_win", "net_win", "union"]
    assert gates[:4] == ["null_control", "null_control", "seats", "seats"]


def test_selection_in_a_file_gives_way_to_testpaths(stage: Stage) -> None:
    stage.pytester.makepyprojecttoml('[tool.pytest_frt]\nhost = "toy"\n[tool.pytest.ini_options]\ntestpaths = ["own"]')
    stage.pytester.mkdir("own").joinpath("test_own.py").write_text("def test_own(): pass")
    words = ("-p", "frt_fake", "--collect-only", "-q")
    assert "test_own" in stage.bare(*words).stdout.str()
    assert "test_parity" in stage.bare(*words, "--frt-seed=1").stdout.str()


def test_author_takes_cells_and_settings(stage: Stage) -> None:
    stage.scenario(stage.record, stage.other)
    file = stage.pytester.makepyfile(AUTHOR)
    result = stage.run(file, "--frt-seed=5", "-v")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*::test_mine[[]decoder_ffn-torch_packed-toy-w16a32-cpu[]] PASSED*"])
    assert stage.counts(result) == {"passed": 2}


def test_author_without_a_selection_is_skipped(stage: Stage) -> None:
    stage.pytester.makepyfile(AUTHOR)
    assert stage.counts(stage.bare()) == {"skipped": 1}


@pytest.mark.parametrize(
    ("args", "near"),
    [
        (["--frt-host=gema3_270m"], "gemma3_270m"),
        (["--frt-host=minilm", "--frt-structure=decoder_fn"], "decoder_ffn"),
        (["--frt-host=minilm", "--frt-size=rael"], "real"),
    ],
    ids=["host", "structure", "size"],
)
def test_typo_ends_before_collection_with_exit_4(stage: Stage, args: list[str], near: str) -> None:
    result = stage.bare(*args)
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: *{args[-1].partition('=')[2]}*", f"*did you mean '{near}'?*"])


def test_verbose_header_tells_origins(stage: Stage) -> None:
    stage.pytester.makepyprojecttoml('[tool.pytest_frt]\nissuer = "acme"')
    result = stage.run("-v", "--frt-seed=5")
    result.stdout.fnmatch_lines(["frt: seed from command line", "frt: issuer from *tool.pytest_frt*"])


def test_report_holds_to_its_schema_and_keeps_the_place_of_the_key_to_itself(stage: Stage) -> None:
    from importlib import resources

    from jsonschema import Draft202012Validator

    from pytest_frt.certs import keys

    keys.write_private(stage.pytester.path / "secret.pem", keys.generate())
    absent = {"ffn-fast-toy-w16a32-thor": "no such device"}
    stage.scenario(stage.record, stage.other, proven=[stage.record], absent=absent)
    report = stage.report("--frt-sign-key=secret.pem")
    schema = json.loads(resources.files("pytest_frt.schemas").joinpath("report.schema.json").read_text())
    assert [fault.message for fault in Draft202012Validator(schema).iter_errors(report)] == []
    totals = {"asked": 3, "supported": 2, "judged": 2, "correct": 2, "certified": 1, "waived": 0}
    totals |= {"emulated": 0, "emulated_correct": 0}
    assert report["totals"] == totals
    gates = report["records"][0]["gates"]["net_win"]["proven"]["gates"]
    (net_win,) = (gate for gate in gates if gate["name"] == "latency.net_win")
    assert len(net_win["samples"]) == net_win["n"] > 1
    assert "secret.pem" not in json.dumps(report)
