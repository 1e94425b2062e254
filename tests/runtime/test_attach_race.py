"""Files that are exchanged while a model is attached: wrong bytes never run; the race sees a runtime that lets them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TRUSTING = """
import shutil
import attach_race
from pytest_frt.runtime import imports, sources

def copied(source, expected, dest, **_):
    for name in expected:
        (dest / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, dest / name)
    return dest

sources.copy_verified = copied
imports._Verified.get_source = lambda self, _: self._file.path.read_text()
tally = attach_race.race(500, 1, library=False, until_wrong=True)
print("wrong", len(tally.wrong), "sound", tally.sound)
"""

RAISING = """
import os
import attach_race

raised = attach_race.forked(lambda: 1 / 0)
assert (raised.end, raised.fault.splitlines()[-1]) == (attach_race.UNCODED, "ZeroDivisionError: division by zero")
died = attach_race.forked(lambda: os._exit(3))
assert (died.end, died.fault) == (attach_race.UNCODED, f"the process ended with status {3 << 8}")
tally = attach_race.Tally()
tally.add(raised)
assert not tally.sound
assert tally.faults == [raised.fault]
"""


SAFE = "**0 of 40 tries executed anything that is not certified; 0 ended without a code.**"
SEEDS = ("1", "2", "3")
"""Rounds of forty. In one in which a rewriter is held up, every try may meet its files, and nothing is activated."""


def test_forty_tries_run_certified_bytes_or_nothing(repository: Path, tmp_path: Path) -> None:
    script, file = repository / "benchmarks" / "attach_race.py", tmp_path / "race.md"
    for seed in SEEDS:
        command = [sys.executable, str(script), "--tries", "40", "--seed", seed, "--out", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        report = file.read_text()
        assert SAFE in report, done.stderr + report
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr + report
    assert "| activated |" in report
    for what in ("kernel", "impl", "impl_shared", "host"):
        assert f"| good {what} |" in report


def told(repository: Path, script: str) -> str:
    """Return what a script says that uses the race."""
    command = [sys.executable, "-c", script]
    environment = {"PYTHONPATH": str(repository / "benchmarks"), "PATH": "/usr/bin:/bin", "HOME": str(repository)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_a_try_raises_is_an_end_without_a_code(repository: Path) -> None:
    assert told(repository, RAISING) == ""


def test_runtime_that_trusts_its_copies_is_caught(repository: Path) -> None:
    words = told(repository, TRUSTING).split()
    assert int(words[1]) > 0
    assert words[3] == "False"


def test_committed_race_is_whole(repository: Path) -> None:
    report = (repository / "benchmarks" / "results" / "attach_race.md").read_text()
    assert "**0 of 1000 tries executed anything that is not certified; 0 ended without a code.**" in report
    rows = [line.split("|")[1:3] for line in report.partition("| end of a try")[2].partition("\n\n")[0].splitlines()]
    counts = {end.strip(): int(count) for end, count in rows if count.strip().isdigit()}
    assert sum(counts.values()) == 1000
    assert counts["activated"] > 100
    assert len(counts) > 5
