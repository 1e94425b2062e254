"""Windows of keys to the second, thresholds of owners, and what a policy means by saying nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pytest_frt.certs import keys
from pytest_frt.certs.policy_types import IndexNeed, KeylessSigner, Require, Rule, TrustedKey, matches

FROM, UNTIL = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
PUBLIC = keys.generate().public
MOMENTS = {"before": FROM - SECOND, "first": FROM, "last": UNTIL, "after": UNTIL + SECOND}
ALIVE = {"active": {"first", "last"}, "retired": {"first", "last", "after"}, "revoked": set()}


def key(status: str) -> TrustedKey:
    return TrustedKey("alice", PUBLIC, FROM, UNTIL, status)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("status", ALIVE)
def test_key_is_alive_to_the_second_of_its_window(status: str, moment: str) -> None:
    assert key(status).alive(MOMENTS[moment]) is (moment in ALIVE[status])


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("status", ALIVE)
def test_key_covers_what_was_issued_in_its_window(status: str, moment: str) -> None:
    assert key(status).covers(MOMENTS[moment]) is (moment in {"first", "last"})


@pytest.mark.parametrize("moment", MOMENTS)
def test_workflow_covers_every_moment(moment: str) -> None:
    assert KeylessSigner("acme-ci").covers(MOMENTS[moment]) is True


@pytest.mark.parametrize(
    ("owners", "met"),
    [((), False), (("a",), False), (("a", "x", "y"), False), (("a", "b"), True), (("a", "b", "c", "x"), True)],
    ids=str,
)
def test_threshold_counts_owners_of_the_rule_alone(owners: tuple[str, ...], met: bool) -> None:  # noqa: FBT001
    every = ("*",)
    rule = Rule("acme", frozenset("abc"), 2, every, every, every, every, every, ())
    assert rule.met_by(frozenset(owners)) is met
    assert rule.min_serial == 0


@pytest.mark.parametrize(
    ("pattern", "value", "hit"),
    [("*", "", True), ("a", "a", True), ("a", "ab", False), ("ab", "a", False), ("a/*", "a/", True),
     ("a/*", "a", False), ("a/*", "ab/c", False), ("a/*", "a/b/c", True), ("a*", "ab", False), ("/*", "a", False)],
)  # fmt: skip
def test_patterns_are_exact_or_end_after_a_segment(pattern: str, value: str, hit: bool) -> None:  # noqa: FBT001
    assert matches(pattern, value) is hit


def test_what_a_silent_policy_means() -> None:
    assert Require() == Require(("torch",), ("arch", "name"), ("configDigest", "moduleSourceDigest"))
    assert IndexNeed() == IndexNeed(required=False, issuers=(), max_life=timedelta(days=180))


def test_an_issuer_that_is_named_needs_what_it_says() -> None:
    for everybody in (False, True):
        need = IndexNeed(required=everybody, issuers=(("acme", True), ("toy", False)))
        assert [need.of(name) for name in ("acme", "toy", "other")] == [True, False, everybody]
