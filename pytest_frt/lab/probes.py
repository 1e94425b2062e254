"""Inputs that differ from the held-out ones in more than their values: other observations, lengths and seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytest_frt.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_frt.contracts.host import Sample
    from pytest_frt.lab.hosting import Hosting, Split

PROBES: Final = 2
"""Two observations: the second meets whatever the first one left behind."""
OTHER_SEED: Final = 1
"""Added to the run's seed: where a host may answer in several ways, the other seed shows how far apart they lie."""


def _optional(host: Hosting, name: str) -> Callable[..., Any] | None:
    found: Callable[..., Any] | None = getattr(host.program, name, None)
    return found


def probes(host: Hosting, drawn: Split, phase: str) -> list[Sample]:
    """Return the inputs that follow the held-out ones: calibration samples, shorter where the host can cut them."""
    few = drawn.calibration[:PROBES]
    cut = _optional(host, "shorter")
    return [cut(sample, phase) for sample in few] if cut else few


def reseeded(host: Hosting, samples: Sequence[Sample], seed: int) -> list[Sample]:
    """Return the same observations with the host's random windows drawn from another seed.

    Raises:
        EvidenceError: the host says that two seeds may differ, and cannot draw a second one.
    """
    draw = _optional(host, "reseeded")
    if draw is None:
        raise EvidenceError(
            f"host {host.spec.name} is multimodal and its host.py defines no reseeded(sample, seed)",
            hint="define it, or say multimodal: false",
        )
    return [draw(sample, seed + OTHER_SEED) for sample in samples]
