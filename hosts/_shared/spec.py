"""What a host program reads of its own host.yaml, so that no number stands in two places."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import yaml

from pytest_frt.sdk import FrtError, PhaseSpec


def phases_beside(program: str) -> dict[str, PhaseSpec]:
    """Return the phases of the host.yaml that lies beside a host program, by name.

    Args:
        program: ``__file__`` of the host.py.
    """
    declared = yaml.safe_load(Path(program).with_name("host.yaml").read_text(encoding="utf-8"))["phases"]
    return {
        one["name"]: PhaseSpec(one["name"], (one["rows"][0], one["rows"][1]), one["timed_rows"], one["score_positions"])
        for one in declared
    }


def flat(settings: Mapping[str, object]) -> dict[str, str | int | float | bool | None]:
    """Return settings with each list among them as one text, as a projection has them."""
    plain = {name: ",".join(map(str, one)) if isinstance(one, list | tuple) else one for name, one in settings.items()}
    return cast("dict[str, str | int | float | bool | None]", plain)


def phase_named(phases: Mapping[str, PhaseSpec], name: str) -> PhaseSpec:
    """Return one phase.

    Raises:
        FrtError: the host does not declare it.
    """
    if name not in phases:
        raise FrtError(f"no phase {name!r}", hint=f"this host declares {', '.join(phases)}")
    return phases[name]
