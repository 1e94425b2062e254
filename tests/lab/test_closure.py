"""What an impl computes with is in its closure, whether this process had it loaded before or not."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np

from pytest_frt.lab.closure import distributions


def names(module: ModuleType, before: set[str]) -> set[str]:
    return {found.name.partition("/")[2].rpartition("-")[0] for found in distributions(before, [module])}


def test_library_that_was_loaded_before_counts_when_the_impl_refers_to_it() -> None:
    impl = ModuleType("impl")
    loaded = set(sys.modules)
    assert names(impl, loaded) == {"torch"}
    impl.__dict__.update(np=np)
    assert names(impl, loaded) == {"torch", "numpy"}


def test_function_of_a_library_names_its_distribution() -> None:
    impl = ModuleType("impl")
    impl.__dict__.update(norm=np.linalg.norm)
    assert "numpy" in names(impl, set(sys.modules))


def test_library_that_was_imported_meanwhile_counts() -> None:
    assert "numpy" in names(ModuleType("impl"), set(sys.modules) - {"numpy.linalg"})
