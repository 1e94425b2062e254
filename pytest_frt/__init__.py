"""Certify, seat by seat, that a faster implementation of a model region is right, runs and is a net win."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pytest_frt.door import frt_get
    from pytest_frt.errors import (
        CertificateRefused,
        FrtError,
        GateRefused,
        GuardRefused,
        KernelUnavailable,
        SwapRefused,
        UsageFault,
    )
    from pytest_frt.runtime.attach import attach
    from pytest_frt.runtime.handle import Handle

__all__ = [
    "CertificateRefused",
    "FrtError",
    "GateRefused",
    "GuardRefused",
    "Handle",
    "KernelUnavailable",
    "SwapRefused",
    "UsageFault",
    "attach",
    "frt_get",
]

_WHERE: Final = {"attach": "runtime.attach", "Handle": "runtime.handle", "frt_get": "door"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 (a module attribute)
    """Import a public name when it is first used: importing this package imports neither torch nor pytest."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
