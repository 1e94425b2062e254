"""One item per gate of each record, and one per union. All the judging lies in the session's bench."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_frt.plugin import session_of

if TYPE_CHECKING:
    from pytest_frt.run.plan import RecordPlan, UnionPlan
    from pytest_frt.session import Session


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
    session = session_of(request.config)
    if session is None:
        pytest.fail("the suite needs an --frt-* selection, e.g. --frt-host=qwen3", pytrace=False)
    return session


def test_null_control(record: RecordPlan, frt_session: Session, request: pytest.FixtureRequest) -> None:
    """The untouched host equals its checkpoint and itself."""
    frt_session.judge(request.node, record, "null_control")


def test_seats(record: RecordPlan, frt_session: Session, request: pytest.FixtureRequest) -> None:
    """Every seat asked for is bound or refused with a reason."""
    frt_session.judge(request.node, record, "seats")


def test_parity(record: RecordPlan, frt_session: Session, request: pytest.FixtureRequest) -> None:
    """Seams agree with both oracles, the host with itself."""
    frt_session.judge(request.node, record, "parity")


def test_ledger(record: RecordPlan, frt_session: Session, request: pytest.FixtureRequest) -> None:
    """Every seat answered every call it should have."""
    frt_session.judge(request.node, record, "ledger")


def test_contract(record: RecordPlan, frt_session: Session, request: pytest.FixtureRequest) -> None:
    """Every lifecycle check ended in its declared outcome."""
    frt_session.judge(request.node, record, "contract")


def test_net_win(record: RecordPlan, frt_session: Session, request: pytest.FixtureRequest) -> None:
    """The record pays, by rule FRT-NW-1."""
    frt_session.judge(request.node, record, "net_win")


def test_union(union: UnionPlan, frt_session: Session, request: pytest.FixtureRequest) -> None:
    """What passed alone holds and pays together."""
    frt_session.unite(request.node, union)
