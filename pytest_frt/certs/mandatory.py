"""The gates a certificate must carry, as data: direction, folds of samples, and the limit nothing may undercut.

This table is the verifier's own. A certificate may carry further gates, which must hold as well, and a policy may ask
for more; neither can take a row out of this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from pytest_frt.rules.bands import BANDS
from pytest_frt.rules.rows import FRT_NW_1, NET_WIN_ROW, decimal
from pytest_frt.rules.thresholds import ALTERNATIVE_SHARE, HELD_OUT_SAMPLES, NET_WIN_MARGIN

HOST_PARITY: Final = "parity.host."


@dataclass(frozen=True, slots=True)
class GateRule:
    """What is known about one gate before any certificate is read.

    Attributes:
        op: Direction of the gate.
        folds: Statistics that may fold its samples when there are several.
        limit: Floor that neither a certificate's floor nor its number may undercut; None where the scheme, host or
            structure of the certified bytes sets it.
        because: Why.
        suggested: Deployer's floor in a new policy; empty when ``limit`` already says it all.
        worst: What the worst sample must reach when the fold is a median.
        min_n: Fewest samples.
    """

    op: str
    folds: tuple[str, ...]
    limit: Decimal | None
    because: str
    suggested: str = ""
    worst: Decimal | None = None
    min_n: int = 1


_NONE: Final = Decimal(0)
_ONE: Final = Decimal(1)
_SEAM: Final[Mapping[str, GateRule]] = {
    "parity.seam.reference_ratio": GateRule(
        "<=", ("max",), _ONE, "error against the float64 reference over what the scheme allows"
    ),
    "parity.seam.slope": GateRule("<=", ("max",), None, "a gain shows in no cosine and in no reference ratio", "0.002"),
    "parity.seam.rel_l2": GateRule("<=", ("max",), None, "distance to the fake-quantised reference", "0.05"),
    "parity.seam.row_rel_l2": GateRule("<=", ("max",), None, "one bad row vanishes in a mean", "0.2"),
    "parity.seam.max_abs": GateRule("<=", ("max",), None, "a few wild elements vanish in an L2 norm"),
    "parity.seam.channel": GateRule("<=", ("max",), None, "one channel of hundreds vanishes in every norm", "0.002"),
    "parity.seam.alternative": GateRule(
        "<=", ("max",), Decimal(decimal(ALTERNATIVE_SHARE.value)), ALTERNATIVE_SHARE.because
    ),
    "parity.seam.untold": GateRule("<=", ("max",), None, "near misses that no row told from the reference", "0"),
}
_HOST: Final[Mapping[str, GateRule]] = {
    f"{HOST_PARITY}{band.metric}": GateRule(
        band.op,
        ("median", "min" if band.op == ">=" else "max"),
        None,
        band.because,
        decimal(band.passing),
        worst=Decimal(decimal(band.warning)),
        min_n=int(HELD_OUT_SAMPLES.value),
    )
    for kind in BANDS.values()
    for band in kind
}
RULES: Final[Mapping[str, GateRule]] = {
    "null_control.tensors_differing": GateRule("<=", ("max",), _NONE, "the host that was judged is the checkpoint"),
    "null_control.repeat_identical": GateRule(">=", ("min",), _ONE, "a host that differs from itself judges nothing"),
    "seats.certified": GateRule(">=", ("min",), _ONE, "a certificate without a seat certifies nothing"),
    **_SEAM,
    **_HOST,
    "ledger.fallbacks": GateRule("<=", ("max",), _NONE, "a fallback runs the host and proves nothing of the impl"),
    "ledger.never_called": GateRule("<=", ("max",), _NONE, "a seat that never ran is not clean"),
    "contract.failed": GateRule("<=", ("max",), _NONE, "a broken lifecycle damages the host it sits in"),
    NET_WIN_ROW: GateRule(">=", (FRT_NW_1,), Decimal(decimal(NET_WIN_MARGIN.value)), NET_WIN_MARGIN.because),
}

Group = tuple[tuple[str, ...], ...]
"""Alternatives, each a tuple of gates; one alternative must be there in full."""

_HOST_GROUP: Final[Group] = tuple(
    tuple(f"{HOST_PARITY}{band.metric}" for band in kind) for kind in BANDS.values()
)  # values or distribution
ALTERNATIVES: Final = frozenset(_HOST)


def _each(*names: str) -> tuple[Group, ...]:
    return tuple(((name,),) for name in names)


CELL_GROUPS: Final[tuple[Group, ...]] = (*_each(*(name for name in RULES if name not in ALTERNATIVES)), _HOST_GROUP)
PLAN_GROUPS: Final[tuple[Group, ...]] = (
    *_each("ledger.fallbacks", "ledger.never_called", NET_WIN_ROW),
    _HOST_GROUP,
)


def groups_for(*, plan: bool, random_weights: bool) -> tuple[Group, ...]:
    """Return the groups a certificate must satisfy.

    On a host with random weights host-level parity is vacuous and the seams carry the verdict; such a certificate is
    accepted only by a policy that says ``allow_synthetic``.
    """
    groups = PLAN_GROUPS if plan else CELL_GROUPS
    return tuple(group for group in groups if not (random_weights and group is _HOST_GROUP))
