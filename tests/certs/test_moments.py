"""Every limit in time holds to the second, on both of its sides."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import verify
from pytest_frt.certs.reading import time_text
from tests.certs.conftest import NOW
from tests.certs.test_index import REQUIRED, index_of, sha

if TYPE_CHECKING:
    from pathlib import Path

    from tests.certs.conftest import World

SECOND = timedelta(seconds=1)
SKEW, LIFE, INDEX_LIFE = timedelta(seconds=300), timedelta(days=400), timedelta(days=180)


def code(world: World, **moments: str) -> str:
    payload = world.spoiled(lambda s: s["predicate"].update(moments))
    (outcome,) = world.verify(world.line(payload))
    return getattr(outcome, "code", "")


@pytest.mark.parametrize(("late", "expected"), [(0, ""), (1, "EXPIRED")])
def test_a_certificate_stands_up_to_its_last_second(world: World, late: int, expected: str) -> None:
    assert code(world, expiresAt=time_text(NOW - late * SECOND)) == expected


@pytest.mark.parametrize(("early", "expected"), [(0, ""), (1, "NOT_YET")])
def test_the_skew_forgives_a_late_clock_to_the_second(world: World, early: int, expected: str) -> None:
    assert code(world, issuedAt=time_text(NOW + SKEW + early * SECOND)) == expected


@pytest.mark.parametrize(("more", "expected"), [(0, ""), (1, "LIFETIME")])
def test_a_life_is_as_long_as_the_policy_allows(world: World, more: int, expected: str) -> None:
    issued = NOW - 2 * SECOND
    ends = issued + LIFE + more * SECOND
    assert code(world, issuedAt=time_text(issued), expiresAt=time_text(ends)) == expected


@pytest.mark.parametrize(("length", "expected"), [(0, "LIFETIME"), (1, "")])
def test_a_life_has_a_length(world: World, length: int, expected: str) -> None:
    moment = NOW + 60 * SECOND
    ends = moment + length * SECOND
    assert code(world, issuedAt=time_text(moment), expiresAt=time_text(ends)) == expected


@pytest.mark.parametrize(("late", "expected"), [(0, ""), (1, "POLICY_EXPIRED")])
def test_a_policy_stands_up_to_its_last_second(world: World, late: int, expected: str) -> None:
    change = ('expires = "2027-03-01T00:00:00Z"', f'expires = "{time_text(NOW - late * SECOND)}"')
    (outcome,) = world.verify(world.line(), changes=(change,))
    assert getattr(outcome, "code", "") == expected


@pytest.mark.parametrize(
    ("name", "value", "moved", "expected"),
    [
        ("from", "2026-01-01", 0, ""),
        ("from", "2026-01-01", 1, "KEY_WINDOW"),
        ("until", "2027-06-01", 0, ""),
        ("until", "2027-06-01", -1, "KEY_WINDOW"),
    ],
)
def test_a_retired_key_covers_its_window_to_the_second(
    world: World, name: str, value: str, moved: int, expected: str
) -> None:
    issued = world.terms["issued_at"]
    window = (f'{name} = "{value}T00:00:00Z"', f'{name} = "{time_text(issued + moved * SECOND)}"')
    (outcome,) = world.verify(world.line(), changes=(window, ('status = "active"', 'status = "retired"')))
    assert getattr(outcome, "code", "") == expected


@pytest.mark.parametrize(
    ("name", "value", "moved", "expected"),
    [
        ("from", "2026-01-01", 0, "KEY_WINDOW"),  # alive now, and not when the certificate was issued
        ("from", "2026-01-01", 1, "SIG_REVOKED"),
        ("until", "2027-06-01", 0, ""),
        ("until", "2027-06-01", -1, "SIG_REVOKED"),
    ],
)
def test_an_active_key_is_alive_within_its_window(
    world: World, name: str, value: str, moved: int, expected: str
) -> None:
    window = (f'{name} = "{value}T00:00:00Z"', f'{name} = "{time_text(NOW + moved * SECOND)}"')
    (outcome,) = world.verify(world.line(), changes=(window,))
    assert getattr(outcome, "code", "") == expected


INDEXES = {
    "issued at the edge of the skew": (NOW + SKEW, NOW + SKEW + SECOND, ""),
    "issued a second later": (NOW + SKEW + SECOND, NOW + SKEW + 2 * SECOND, "NOT_YET"),
    "ends now": (NOW - SECOND, NOW, ""),
    "ended a second ago": (NOW - 2 * SECOND, NOW - SECOND, "INDEX_EXPIRED"),
    "lives as long as it may": (NOW, NOW + INDEX_LIFE, ""),
    "lives a second longer": (NOW, NOW + INDEX_LIFE + SECOND, "LIFETIME"),
    "has no length": (NOW + SECOND, NOW + SECOND, "LIFETIME"),
}


@pytest.mark.parametrize(("issued", "expires", "expected"), INDEXES.values(), ids=INDEXES)
def test_an_index_stands_to_the_second(world: World, issued: object, expires: object, expected: str) -> None:
    index = index_of(sha(world.payload()), issued_at=issued, expires=expires)
    outcomes = verify.verify_set([world.line(index), world.line()], world.policy(REQUIRED), world.now)
    codes = {getattr(one, "code", "") for one in outcomes if one.name != sha(world.payload())}
    assert codes == ({expected} if expected else set())
    accepted = [one for one in outcomes if isinstance(one, verify.Accepted)]
    assert len(accepted) == (0 if expected else 1)


def test_files_are_held_against_a_clock_unless_an_audit_says_otherwise(world: World, tmp_path: Path) -> None:
    past = {"issuedAt": "2026-02-01T00:00:00Z", "expiresAt": "2026-03-01T00:00:00Z"}
    file = tmp_path / "old.frt.intoto.jsonl"
    file.write_bytes(world.line(world.spoiled(lambda s: s["predicate"].update(past))))
    at = NOW.replace(month=2, day=15)
    (now,) = verify.verify_paths([file], world.policy(), at)
    (then,) = verify.verify_paths([file], world.policy(), at, audit=True)
    assert (getattr(now, "code", ""), now.source) == ("EXPIRED", f"{file}:1")
    assert isinstance(then, verify.Accepted)


@pytest.mark.parametrize(("line", "expected"), [("[]", "ENVELOPE"), ("\ud800", "JSON_UTF8"), ("é", "JSON_SYNTAX")])
def test_lines_may_be_text(world: World, line: str, expected: str) -> None:
    first, second = verify.verify_set([line, world.line().decode()], world.policy(), world.now)
    assert (getattr(first, "code", ""), first.source) == (expected, "line 1")
    assert isinstance(second, verify.Accepted)
