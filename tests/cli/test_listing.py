"""``frt list`` shows what is installed, by whom, and what could not be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_frt.cli import listing
from pytest_frt.registry import Broken, Registry

Frt = Callable[..., tuple[int, str, str]]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Broken:
    """Break one provider of the registry."""
    fault = Broken("hosts", "acme", "acme-frt 1.0", "host.yaml: sizes: 'huge' is not one of tiny, real, full")
    whole = Registry.load()
    monkeypatch.setattr(listing.Registry, "load", lambda: replace(whole, broken=(fault,)))
    return fault


def test_every_entry_is_listed_with_its_provider(frt: Frt) -> None:
    status, out, _ = frt("list")
    registry = Registry.load()
    assert status == 0
    for name in (*registry.structures, *registry.hosts, *registry.devices, *registry.schemes):
        assert f"\n  {name} " in out
    assert "pytest-frt " in out


def test_json_holds_the_same_names(frt: Frt) -> None:
    found = json.loads(frt("list", "--json")[1])
    registry = Registry.load()
    assert {f"{one['structure']}/{one['name']}" for one in found["impls"]} == set(registry.impls)
    assert found["broken"] == []


def test_one_kind_alone(frt: Frt) -> None:
    assert frt("list", "devices")[1].startswith("devices: ")
    assert list(json.loads(frt("list", "hosts", "--json")[1])) == ["hosts"]


def test_broken_provider_is_shown_with_its_reason(frt: Frt, broken: Broken) -> None:
    status, out, _ = frt("list")
    assert status == 0
    assert broken.reason in out
    assert json.loads(frt("list", "--json")[1])["broken"][0]["from"] == "acme-frt 1.0"
