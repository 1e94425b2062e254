"""Third-party distributions that impl code computes with, each by the digest of its RECORD."""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from types import ModuleType

from pytest_frt.contracts.record import FileDigest

OWN = "pytest-frt"
ALWAYS = "torch"


@cache
def owners() -> Mapping[str, list[str]]:
    """Return top-level import name to the distributions that install it; read once, before a worker is forked."""
    return importlib.metadata.packages_distributions()


def distributions(before: set[str], impls: Iterable[ModuleType]) -> tuple[FileDigest, ...]:
    """Return torch and the third-party distributions that impls compute with.

    Args:
        before: Modules loaded before the impls: a library among them counts when an impl's own module refers to it.
        impls: The impl modules.
    """
    fresh = set(sys.modules) - before
    tops = {name.partition(".")[0] for name in fresh} | {ALWAYS}
    for module in [*impls, *(sys.modules[name] for name in fresh)]:
        for value in list(vars(module).values()):
            name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            tops.add(str(name).partition(".")[0])
    names = sorted({dist for top in tops for dist in owners().get(top, []) if dist != OWN})
    return tuple(found for name in names if (found := _record(name)))


def _record(name: str) -> FileDigest | None:
    dist = importlib.metadata.distribution(name)
    text = dist.read_text("RECORD")
    if text is None:
        return None
    return FileDigest(f"dist/{name}-{dist.version}", hashlib.sha256(text.encode()).hexdigest())
