"""What decides is the deployer's floor, the clock and what was signed; lines that nobody signed decide nothing."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from pytest_frt.certs import policy, verify
from pytest_frt.certs.reading import parse_time
from tests.certs.properties.strategies import FEW, edited
from tests.certs.vectors import world
from tests.fuzz import targets

HONEST = targets.HONEST_LINE
NAME = hashlib.sha256(targets.HONEST).hexdigest()
GATE = "parity.seam.rel_l2"
OWN = next(row for row in world.RECORD.gates if row.name == GATE)
FIRST = world.ISSUED - timedelta(seconds=300)
LAST = parse_time("2027-03-01T00:00:00Z")
EDGES = [FIRST, LAST, world.ISSUED, world.EXPIRES]


@given(st.lists(st.binary(max_size=20) | edited(HONEST), max_size=4), st.integers(0, 4))
@FEW
def test_lines_that_nobody_signed_change_nothing(junk: list[bytes], at: int) -> None:
    lines = [line for text in junk for line in text.split(b"\n")]
    lines.insert(at, HONEST)
    (accepted,) = targets.judged(lines, targets.POLICY)
    assert (accepted.name, accepted.owners) == (NAME, ("alice",))


@given(st.decimals(0, 1, places=4))
@FEW
def test_the_deployers_floor_decides(value: Decimal) -> None:
    trusted = policy.parse(world.policy(('value = "0.1"', f'value = "{value.normalize():f}"')).encode())
    assert bool(targets.judged([HONEST], trusted)) == (Decimal(OWN.floor) <= value)


def moments() -> st.SearchStrategy[datetime]:
    """Return moments around every edge of a window, and far from them."""
    near = st.builds(lambda edge, offset: edge + timedelta(seconds=offset), st.sampled_from(EDGES), st.integers(-2, 2))
    far = st.integers(-10, 400).map(lambda days: world.ISSUED + timedelta(days=days))
    return near | far


@given(moments())
@FEW
def test_the_clock_decides(now: datetime) -> None:
    """The policy ends before the certificate does; the skew reaches before the moment of issue."""
    (outcome,) = verify.verify_set([HONEST], targets.POLICY, now)
    assert isinstance(outcome, verify.Accepted) == (FIRST <= now <= LAST)


@given(st.integers(0, 2**53 - 1))
@FEW
def test_a_serial_below_the_lowest_is_refused(lowest: int) -> None:
    trusted = policy.parse(world.policy(("threshold = 1", f"threshold = 1\nmin_serial = {lowest}")).encode())
    assert bool(targets.judged([HONEST], trusted)) == (lowest <= world.TERMS["serial"])
