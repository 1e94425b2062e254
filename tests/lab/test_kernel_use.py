"""A kernel of which nothing was read had no part in what its impl computes."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_frt.lab.kernel_use import REASON, KernelUse
from pytest_frt.lab.units import BoundUnit, LoadedUnit


def unit() -> BoundUnit:
    kernel = ModuleType("toy")
    vars(kernel).update(layer=1, _private=2)
    named: Any = SimpleNamespace(kernel_repo="acme/toy", impl="fast")
    nothing: Any = None
    bound: Any = (SimpleNamespace(facts=SimpleNamespace(id="proj")),)
    return BoundUnit(LoadedUnit(named, nothing, ModuleType("fast"), nothing, kernel, nothing), bound, (), {})


@pytest.mark.parametrize(
    ("read", "used"),
    [(lambda kernel: kernel.layer, True), (lambda kernel: kernel._private, False), (vars, False)],
    ids=["public", "private", "nothing"],
)
def test_seats_stay_when_a_public_name_was_read(read: Callable[[ModuleType], object], used: bool) -> None:  # noqa: FBT001
    one, use = unit(), KernelUse()
    read(use.watch(one.loaded).kernel)
    (judged,) = use.judged([one])
    assert judged == one if used else judged.bound == ()
    assert [(refusal.reason, refusal.at) for refusal in judged.refused] == ([] if used else [(REASON, "proj")])
    assert type(one.loaded.kernel) is ModuleType


def test_module_of_a_class_of_its_own_is_not_judged() -> None:
    class Lazy(ModuleType):
        """Loads its parts late."""

    one, use = unit(), KernelUse()
    one.loaded.kernel.__class__ = Lazy
    use.watch(one.loaded)
    assert use.judged([one]) == [one]
    assert type(one.loaded.kernel) is Lazy
