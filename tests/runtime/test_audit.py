"""A hook below Python's own imports, sockets and library calls hears nothing of a certificate that is not accepted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STEPS = {
    "POLICY_EXPIRED", "POLICY_DUPKEY", "POLICY_SCHEMA", "SIG_NONE", "SIG_REVOKED", "DENIED", "EXPIRED", "NOT_YET",
    "LIFETIME", "KEY_WINDOW", "NO_RULE", "THRESHOLD", "SOFTWARE_MISSING", "FORM", "SOFTWARE", "HOST", "SEAT", "WEIGHTS",
    "CELL_IMPL", "CELL_STRUCTURE", "ROLE_FILE", "KERNEL_TREE", "TREE_SYMLINK", "ARTEFACT", "KERNEL_UNAVAILABLE",
    "SERIAL_MIN", "PLAN_MEMBER", "ID_FORM", "ID_SHADOWS", "ID_LOADED", "OPS_TAKEN", "LIBRARY_LOADED", "LOCAL_KERNELS",
    "JIT_CACHE", "JIT_STALE",
}  # fmt: skip
"""Codes of every step up to loading, each reached by a scenario of the child."""
PROJECTION = {"config", "no_config"}
"""Refused by the certified host entry's own words on which settings count."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).parent / "audit_child.py")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path_factory.mktemp("child")
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_refused_certificates_execute_load_and_connect_nothing(report: dict[str, Any]) -> None:
    heard = {one["name"]: one["attach"] for one in report["refused"] if one["attach"]}
    assert set(heard) == PROJECTION
    for events in heard.values():
        assert all(event.startswith(("exec ", "import toy_world_hosts.")) for event in events)
        assert all("/host/" in event or event.startswith("import toy_world_hosts.") for event in events), events


def test_every_scenario_ends_in_its_code(report: dict[str, Any]) -> None:
    assert {one["name"]: one["codes"] for one in report["refused"] if one["expected"] not in (*one["codes"], "")} == {}
    missing = STEPS - {code for one in report["refused"] for code in one["codes"]}
    assert not missing


def test_audits_execute_nothing_whatever_they_find(report: dict[str, Any]) -> None:
    assert report["accepted"]["verify"] == []
    assert [one["name"] for one in report["refused"] if one["verify"]] == []


def test_accepted_certificates_execute_copies_after_everything_was_copied(report: dict[str, Any]) -> None:
    events = report["accepted"]["attach"]
    assert events[:3] == ["VERIFIED", "COPYING", "COPIED"]
    executed = [event for event in events if event.startswith("exec ")]
    assert all("frt-verified-" in event for event in executed)
    for part in ("/host/toy/host.py", "/torch-cpu/inner.py", "/impl/toy_ffn/toy.py"):
        assert any(event.endswith(part) for event in executed), part
    assert not [event for event in events if event.startswith(("socket.", "subprocess.", "os."))]


def test_hook_hears_a_runtime_that_is_too_early(report: dict[str, Any]) -> None:
    assert any("/impl/toy_ffn/toy.py" in event for event in report["sabotage"]["executes"])
    assert {event.partition(" ")[0] for event in report["sabotage"]["loads"]} >= {"ctypes.dlopen", "socket.__new__"}
