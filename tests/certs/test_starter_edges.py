"""The first policy of a developer: how long it lives, whom it trusts, and every floor that the table suggests."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from pytest_frt.certs import keys, policy
from pytest_frt.certs.mandatory import RULES
from pytest_frt.certs.starter import starter_policy

NOW = datetime(2026, 12, 1, tzinfo=UTC)
PUBLIC = keys.generate().public
TEXT = starter_policy(PUBLIC, "self", NOW)
LOADED = policy.parse(TEXT.encode())
ROW = re.compile(r'floors\."(\S+)" = \{ op = "([<>]=)", value = "([0-9.]+)" \}  # (.+)')
LITERAL = {
    "null_control.tensors_differing": ("<=", "0"),
    "null_control.repeat_identical": (">=", "1"),
    "seats.certified": (">=", "1"),
    "parity.seam.reference_ratio": ("<=", "1"),
    "parity.seam.slope": ("<=", "0.002"),
    "parity.seam.rel_l2": ("<=", "0.05"),
    "parity.seam.row_rel_l2": ("<=", "0.2"),
    "parity.seam.channel": ("<=", "0.002"),
    "parity.seam.alternative": ("<=", "0.5"),
    "parity.seam.untold": ("<=", "0"),
    "parity.host.cosine": (">=", "0.999"),
    "ledger.fallbacks": ("<=", "0"),
    "ledger.never_called": ("<=", "0"),
    "contract.failed": ("<=", "0"),
    "latency.net_win": (">=", "1.02"),
}


def test_it_lives_for_a_year_and_trusts_one_key_for_three() -> None:
    assert (LOADED.version, LOADED.expires, LOADED.min_time) == (1, NOW + timedelta(days=365), NOW)
    (key,) = LOADED.keys
    assert (key.owner, key.public, key.status) == ("self", PUBLIC, "active")
    assert (key.valid_from, key.valid_until) == (NOW - timedelta(days=365), NOW + timedelta(days=730))


def test_its_one_rule_lets_the_owner_certify_everything() -> None:
    (rule,) = LOADED.rules
    assert (rule.issuer, rule.signers, rule.threshold) == ("self", frozenset({"self"}), 1)
    assert {rule.structures, rule.kernels, rule.hosts, rule.devices, rule.schemes} == {("*",)}


@pytest.mark.parametrize(("name", "floor"), LITERAL.items(), ids=LITERAL)
def test_a_floor_is_the_one_that_is_suggested_or_the_limit(name: str, floor: tuple[str, str]) -> None:
    (rule,) = LOADED.rules
    assert [(one.op, str(one.value)) for one in rule.floors if one.gate == name] == [floor]


def test_every_floor_has_a_line_of_its_own_with_the_reason() -> None:
    lines = [line for line in TEXT.splitlines() if line.startswith("floors")]
    rows = [found.groups() for line in lines if (found := ROW.fullmatch(line))]
    assert len(rows) == len(lines)
    without = {"parity.seam.max_abs"}  # bounded by the scheme of the certified bytes alone
    assert [(name, because) for name, _, _, because in rows] == [
        (name, rule.because) for name, rule in RULES.items() if name not in without
    ]
    assert TEXT.splitlines()[-len(lines) :] == lines
    assert TEXT.endswith("\n")
