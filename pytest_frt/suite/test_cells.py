"""One item per gate of each record, and one per union. All the judging lies behind the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_frt.plugin import session_of

if TYPE_CHECKING:
    from pytest_frt.run.plan import RecordPlan, UnionPlan
    from pytest_frt.session import Session

# Whatever directory this runs from, its filters are not about the judge.
pytestmark = pytest.mark.filterwarnings("default")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise by the run's plan."""
    session = session_of(metafunc.config)
    for name in ("record", "union"):
        if name in metafunc.fixturenames:
            plans = () if session is None else session.plan.records if name == "record" else session.plan.unions
            metafunc.parametrize(name, plans, ids=[plan.id for plan in plans])


@pytest.fixture
def frt_session(request: pytest.FixtureRequest) -> Session:
    """Return the session of this run."""
    session: Session = session_of(request.config)
    return session


@pytest.mark.frt_gate("null_control")
def test_null_control(record: RecordPlan, frt_session: Session, request: pytest.FixtureRequest) -> None:
    """The untouched host equals its checkpoint and itself."""
    frt_session.judge_gate(request.node, record, "null_control")


@pytest.mark.frt_gate("seats")
def test_seats(record: RecordPlan, frt_session: Session, request: pytest.FixtureRequest) -> None:
    """Every seat asked for is bound or refused with a reason."""
    frt_session.judge_gate(request.node, record, "seats")


@pytest.mark.frt_gate("parity")
def test_parity(record: RecordPlan, frt_session: Session, request: pytest.FixtureRequest) -> None:
    """Seams agree with both oracles, the host with itself."""
    frt_session.judge_gate(request.node, record, "parity")


@pytest.mark.frt_gate("ledger")
def test_ledger(record: RecordPlan, frt_session: Session, request: pytest.FixtureRequest) -> None:
    """Every seat answered every call it should have."""
    frt_session.judge_gate(request.node, record, "ledger")


@pytest.mark.frt_gate("contract")
def test_contract(record: RecordPlan, frt_session: Session, request: pytest.FixtureRequest) -> None:
    """Every lifecycle check ended in its declared outcome."""
    frt_session.judge_gate(request.node, record, "contract")


@pytest.mark.frt_gate("net_win")
def test_net_win(record: RecordPlan, frt_session: Session, request: pytest.FixtureRequest) -> None:
    """The record pays, by rule FRT-NW-1."""
    frt_session.judge_gate(request.node, record, "net_win")


@pytest.mark.frt_gate("union")
def test_union(union: UnionPlan, frt_session: Session, request: pytest.FixtureRequest) -> None:
    """What passed alone holds and pays together."""
    frt_session.judge_union(request.node, union)
