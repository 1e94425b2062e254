"""Contract: every lifecycle check ended in its declared outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pytest_frt.contracts.evidence import Check
from pytest_frt.contracts.verdict import Measured, Pass, Refusal, Verdict

GATE: Final = "contract"


def judge(lifecycle: Sequence[Check], *, required: Sequence[str] = ()) -> Verdict:
    """Judge the lifecycle battery of one record.

    Args:
        lifecycle: What was checked.
        required: Names that must have been checked.

    Returns:
        Refusal with reason ``lifecycle`` (a check failed: it may be why others were not run) or ``unchecked`` (nothing
        was checked, or a required check is missing); else Pass.
    """
    broken = [check for check in lifecycle if not check.ok]
    measured = (Measured("failed", len(broken), "<=", 0, len(lifecycle)),)
    if broken:
        detail = "; ".join(f"{check.name}: {check.detail}" for check in broken)
        return Refusal(GATE, "lifecycle", detail, at=broken[0].name, measured=measured)
    names = {check.name for check in lifecycle}
    missing = [name for name in required if name not in names]
    if not lifecycle or missing:
        return Refusal(GATE, "unchecked", f"lifecycle checks not run: {', '.join(missing) or 'all of them'}")
    return Pass(GATE, measured)
