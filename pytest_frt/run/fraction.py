"""A fixed split of records over machines or jobs: by the digest of their ids, whatever else is selected."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_frt.run.plan import RunPlan


def share_of(record: str, count: int) -> int:
    """Return which of ``count`` fractions a record belongs to, from 1: its id alone decides."""
    return int.from_bytes(hashlib.sha256(record.encode()).digest()[:8], "big") % count + 1


def split(plan: RunPlan, fraction: tuple[int, int] | None) -> RunPlan:
    """Return the part of a plan that one fraction judges.

    Every record keeps all its gates, its host's null control among them, so each fraction that needs a host proves it
    anew. A union is judged where all its records are; one that is torn apart is left to a run that resumes from the
    output of all fractions. Cells that cannot run here are told in every fraction.

    Args:
        plan: The whole plan.
        fraction: Which, from 1, of how many; None for all.
    """
    if fraction is None:
        return plan
    index, count = fraction
    kept = tuple(record for record in plan.records if share_of(record.id, count) == index)
    names = {record.id for record in kept}
    unions = tuple(one for one in plan.unions if names.issuperset(record.id for record in one.records))
    others = (record.id for record in plan.records if record.id not in names and not record.emulated)
    return replace(plan, records=kept, unions=unions, aside=(*plan.aside, *others))
