"""Counters of the machine: read where they are, zero where they are not, and never negative over a region."""

from __future__ import annotations

import os

import pytest

from pytest_frt.lab import machine
from pytest_frt.lab.machine import Load, Resident

FILES = {
    "/proc/stat": "cpu  10 0 20 300 0 0 0 250 0 0\ncpu0 1 2 3\n",
    "/proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 total=7\n",
    "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:      2048 kB\n",
    "/proc/7/status": "Name:\tx\nRssAnon:\t     100 kB\nRssFile:\t      40 kB\nRssShmem:\t       1 kB\n",
}


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    content = dict(FILES)
    monkeypatch.setattr(machine, "_text", lambda path: content.get(path, ""))
    return content


def test_counters_are_read(files: dict[str, str]) -> None:
    assert files
    load = Load.now()
    assert load.steal_s == 250 / os.sysconf("SC_CLK_TCK")
    assert load.stall_s == 1.5
    assert machine.available_bytes() == 2048 * 1024
    assert Resident.of(7) == Resident(101 * 1024, 40 * 1024)


def test_absent_counters_are_zero(files: dict[str, str]) -> None:
    files.clear()
    load = Load.now()
    assert (load.steal_s, load.stall_s) == (0.0, 0.0)
    assert machine.available_bytes() == 0


def test_regions_add_up() -> None:
    region = Load(10.0, 1.0, 4.0).since(Load(8.0, 0.5, 3.0))
    assert region == Load(2.0, 0.5, 1.0)
    assert region.pressure == 0.5
    assert region.plus(region) == Load(4.0, 1.0, 2.0)
    assert Load(0.0, 0.0, 0.0).pressure == 0.0


def test_shared_files_are_counted_once() -> None:
    assert Resident(private=10, file=30).fitting(70) == 4
    assert Resident(private=10, file=30).fitting(20) == 0
