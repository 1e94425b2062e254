"""Every file that a signer names is needed: a certificate without one of them is not activated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_frt.runtime import prepare

if TYPE_CHECKING:
    from tests.runtime.conftest import World

NAMES = (
    "scheme/toy.py",
    "structure/structure.yaml",
    "reference/reference.py",
    "reference/cases.py",
    "impl/__init__.py",
    "impl/toy_ffn/toy.py",
    "impl/_shared/maths.py",
    "impl/_shared/more.py",
    "host/__init__.py",
    "host/toy/host.yaml",
    "host/toy/host.py",
    "host/_shared/settings.py",
)
SILENT = ("scheme/toy.py", "impl/__init__.py", "host/__init__.py", "host/toy/host.yaml")
"""Files that nothing else misses."""


def certify_without(world: World, name: str) -> None:
    record = world.record()
    kept = tuple(one for one in record.subjects if one.name != name)
    assert len(kept) == len(record.subjects) - 1
    world.certify(replace(record, subjects=kept))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "structure/structure.yaml"])  # nobody can sign that
def test_a_certificate_that_leaves_a_file_out_is_not_activated(world: World, name: str) -> None:
    certify_without(world, name)
    handle = world.attach()
    codes = {one.code for one in (*handle.seats, *handle.refused)} - {"NOT_CERTIFIED", "NO_PLAN", "PLAN_MEMBER"}
    assert (handle.active, codes) == (False, {"ROLE_FILE"}), handle.explain()
    assert world.is_untouched()


def test_these_are_all_files_a_signer_names(world: World) -> None:
    assert {one.name for one in world.record().subjects if not one.name.startswith("kernel/")} == set(NAMES)


def test_an_empty_file_has_no_digest_and_is_not_missed(world: World) -> None:
    (world.root / "impls" / "__init__.py").write_text("")
    certify_without(world, "impl/__init__.py")
    assert world.attach().active


@pytest.mark.parametrize("name", SILENT)
def test_a_runtime_that_asks_for_some_roles_is_caught(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(prepare, "check_whole", lambda *_: None)
    with pytest.raises(AssertionError):
        test_a_certificate_that_leaves_a_file_out_is_not_activated(world, name)
