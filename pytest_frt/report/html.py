"""The HTML report: one file that loads nothing, made of a JSON report and of nothing else."""

from __future__ import annotations

from pytest_frt.report import drawing
from pytest_frt.report.page import page_of
from pytest_frt.report.parts import Json
from pytest_frt.report.words import LOOKS
from pytest_frt.rules.fold import RECORD_GATES
from pytest_frt.run.emulation import LABEL

SEATS_SHOWN = 12
"""Seats whose strips stand unfolded, worst first."""


def render(report: Json) -> bytes:
    """Return the page of a JSON report as one file.

    Args:
        report: What ``--frt-json`` writes, read back: it must hold to its schema.

    Raises:
        MissingExtra: the ``report`` extra is not installed.
        EvidenceError: a verdict of the report is none.
    """
    return drawing.draw(page_of(report), looks=LOOKS, gates=RECORD_GATES, seats_shown=SEATS_SHOWN, emulated=LABEL)
