"""Write ``vectors.jsonl``. Run from the repository root: ``python -m tests.certs.vectors.generate``."""

from __future__ import annotations

from collections.abc import Iterator

from tests.certs.vectors import group_bound, group_form, group_limits, group_trust
from tests.certs.vectors.model import DATA, Vector


def vectors() -> Iterator[Vector]:
    """Yield every vector, in the order of the file."""
    for group in (
        group_form.accepted,
        group_form.envelopes,
        group_form.forms,
        group_form.statements,
        group_form.kinds,
        group_trust.keys,
        group_trust.rules,
        group_trust.policies,
        group_trust.extremes,
        group_trust.times,
        group_trust.gates,
        group_bound.cells,
        group_trust.denied,
        group_trust.plans,
        group_bound.files,
        group_bound.subjects,
        group_bound.names,
        group_limits.memory,
        group_limits.indexes,
        group_bound.loads,
        group_limits.caps,
    ):
        yield from group()


def text() -> str:
    """Return the content of the file."""
    return "".join(vector.row() + "\n" for vector in vectors())


if __name__ == "__main__":
    DATA.write_text(text(), encoding="ascii")
