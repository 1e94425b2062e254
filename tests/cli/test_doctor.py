"""``frt doctor`` tells what is missing and fails where certifying cannot work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_frt.cli import doctor
from pytest_frt.errors import KernelUnavailable
from pytest_frt.registry import Broken, Registry

Frt = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _no_kernel_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    build = SimpleNamespace(facts=SimpleNamespace(variant="torch-cpu"), folder=Path("/kernels"))
    monkeypatch.setattr(doctor, "resolve", lambda _, backend: build if backend else None)


@pytest.mark.parametrize(
    ("version", "window", "holds"),
    [
        ("2.13.0+cpu", ">=2.11,<2.15", True),
        ("2.15", ">=2.11,<2.15", False),
        ("2.15.0", "<2.15", False),
        ("2.9.1", ">=2.11,<2.15", False),
        ("5.24.0", "==5.24", True),
        ("0.17.0rc1", ">=0.15,<0.18", True),
        ("3.11.7", "<3.14,>=3.11", True),
        ("1.0", "", True),
    ],
)
def test_window(version: str, window: str, holds: bool) -> None:  # noqa: FBT001 (a parameter of the table above)
    assert doctor.inside(version, window) is holds


def test_fit_machine_is_exit_0_and_says_what_it_saw(frt: Frt) -> None:
    status, out, _ = frt("doctor")
    assert "FAIL" not in out, out
    assert status == 0
    for name in ("python: ", "torch: ", "entries: ", "kernel ", "device cpu: ", "cache: ", "compiler: "):
        assert name in out


def test_absent_extra_warns_with_the_command_that_installs_it(frt: Frt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _: ['gone>=1; extra == "report"'])
    status, out, _ = frt("doctor")
    assert status == 0
    assert "warn gone: absent (>=1): pip install 'pytest-frt[report]'" in out


@pytest.mark.parametrize("text", ["gone>=1", "pytest>=1,<2"], ids=["absent", "outside_its_window"])
def test_core_dependency_that_does_not_fit_fails(frt: Frt, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _: [text])
    assert frt("doctor")[0] == 1


def test_broken_provider_fails_with_its_reason(frt: Frt, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = replace(Registry.load(), broken=(Broken("impls", "acme", "acme-frt 1.0", "acme.py: no IMPL"),))
    monkeypatch.setattr(doctor.Registry, "load", lambda: whole)
    status, out, _ = frt("doctor")
    assert status == 1
    assert "FAIL impls provider acme: acme-frt 1.0: acme.py: no IMPL" in out


def test_kernel_that_serves_no_such_machine_warns(frt: Frt, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(repo: str, backend: str) -> object:
        raise KernelUnavailable(f"no build of {repo} serves this machine for {backend}")

    monkeypatch.setattr(doctor, "resolve", absent)
    status, out, _ = frt("doctor")
    assert status == 0
    assert "warn kernel pytest-frt/frt-cpu on cpu: no build" in out


def test_cache_that_cannot_be_written_fails(frt: Frt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    status, out, _ = frt("doctor")
    assert status == 1
    assert "FAIL cache: /proc/nowhere/pytest-frt cannot be written" in out
