"""Statements at the edges: roles, caps, lives, restrictions; and what a signer is told instead of signing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.certs import statement
from pytest_frt.certs.reading import EMPTY_SHA256
from pytest_frt.contracts.record import FileDigest
from pytest_frt.errors import CertificateRefused

if TYPE_CHECKING:
    from tests.certs.conftest import World

Statement = dict[str, Any]
Spoil = Callable[[Statement], object]
ROLES = ("kernel", "impl", "structure", "reference", "host", "scheme", "dist")
NEEDED = ROLES[:4]
CAP = 1_024
CRIT = (
    *("issuer", "serial", "issuedAt", "expiresAt", "result", "cell", "deployment", "kernel", "host", "weights"),
    *("device", "software", "seats", "refused", "rows", "dtype", "calibration", "gates", "attempts", "seed"),
    *("evidence", "checker"),
)


def outcome(world: World, spoil: Spoil, payload: bytes | None = None) -> str:
    """Return the refusal code of a spoiled statement, or nothing."""
    try:
        statement.check(world.spoiled(spoil, payload))
    except CertificateRefused as refusal:
        return refusal.refusal_code
    return ""


def subject(name: str, digest: str = "a" * 64) -> Statement:
    return {"name": name, "digest": {"sha256": digest}}


def more(*subjects: Statement) -> Spoil:
    return lambda document: document["subject"].extend(subjects)


def filled(count: int) -> Spoil:
    def spoil(document: Statement) -> None:
        held = document["subject"]
        held += [subject(f"kernel/{index}.py") for index in range(count - len(held))]

    return spoil


def predicate(**members: object) -> Spoil:
    return lambda document: document["predicate"].update(members)


def without(role: str, instead: str) -> Spoil:
    def spoil(document: Statement) -> None:
        held = [one for one in document["subject"] if not one["name"].startswith(f"{role}/")]
        document["subject"] = [*held, subject(instead)]

    return spoil


SPOILS: dict[str, tuple[Spoil, str]] = {
    **{f"a file of {role}": (more(subject(f"{role}/more.py")), "") for role in ROLES},
    **{f"no file of {role}": (without(role, "host/more.py"), "ROLE_FILE") for role in NEEDED},
    **{f"a bare name for {role}": (without(role, role), "ROLE_FILE") for role in NEEDED},
    **{f"a bare name beside the files of {role}": (more(subject(role)), "ROLE_FILE") for role in ROLES},
    "a role nobody knows": (more(subject("other/more.py")), "ROLE_FILE"),
    "a name twice": (more(subject("kernel/a.py"), subject("kernel/a.py", "b" * 64)), "SCHEMA"),
    "an empty file": (more(subject("kernel/a.py", EMPTY_SHA256)), "DIGEST"),
    "subjects at the cap": (filled(CAP), ""),
    "a subject over the cap": (filled(CAP + 1), "SCHEMA"),
    "no subject": (lambda document: document.update(subject=[]), "SCHEMA"),
    "subjects that are no array": (lambda document: document.update(subject={}), "SCHEMA"),
    "a number of subjects": (lambda document: document.update(subject=4), "SCHEMA"),
    "another type of predicate": (
        lambda document: document.update(predicateType=f"{statement.CELL_TYPE}/"),
        "PREDICATE_TYPE",
    ),
    "no word on restrictions": (lambda document: document["predicate"].pop("crit"), "CRIT"),
    "a type of statement in another case": (
        lambda document: document.update(_type=statement.STATEMENT_TYPE.upper()),
        "STATEMENT_TYPE",
    ),
    "weights bound by configuration": (predicate(weights={"binding": "config"}), ""),
    "weights bound otherwise": (predicate(weights={"binding": "none"}), "SCHEMA"),
    "a serial below zero": (predicate(serial=-1), "SCHEMA"),
    "a result that is neither": (predicate(result="passed"), "SCHEMA"),
    "failed": (predicate(result="FAILED"), "RESULT"),
    "no time to live": (predicate(expiresAt="2026-11-29T00:00:00Z"), "LIFETIME"),
    "a second to live": (predicate(expiresAt="2026-11-29T00:00:01Z"), ""),
    "every member that restricts": (predicate(crit=list(CRIT)), ""),
    "a restriction of plans": (predicate(crit=["dropped"]), "CRIT"),
    "a restriction that is not known": (predicate(crit=["more"], more=1), "CRIT"),
    "a restriction in another case": (predicate(crit=["Rows"], Rows=1), "JSON_DUPKEY"),
}


@pytest.mark.parametrize("case", SPOILS)
def test_what_a_cell_may_say(world: World, case: str) -> None:
    spoil, code = SPOILS[case]
    assert outcome(world, spoil) == code


PLANS: dict[str, tuple[Spoil, str]] = {
    "restrictions of plans": (predicate(crit=["name", "dropped"]), ""),
    "a restriction of cells": (predicate(crit=["cell"]), "CRIT"),
    "failed": (predicate(result="FAILED"), "RESULT"),
    "no time to live": (predicate(expiresAt="2026-11-29T00:00:00Z"), "LIFETIME"),
}


@pytest.mark.parametrize("case", PLANS)
def test_what_a_plan_may_say(world: World, case: str) -> None:
    spoil, code = PLANS[case]
    assert outcome(world, spoil, world.plan(world.payload())) == code


def test_what_a_certificate_is_about_and_until_when(world: World) -> None:
    certificate = statement.parse_payload(world.payload())
    assert isinstance(certificate, statement.CellCertificate)
    assert (certificate.issuer, certificate.serial, certificate.result) == ("acme", 1, "PASSED")
    assert (certificate.crit, certificate.binding) == ((), "exact")
    assert certificate.expires_at - certificate.issued_at == timedelta(days=180)
    assert certificate.issued_at == world.now - timedelta(days=2)
    assert certificate.title == world.record.key.id
    plan = statement.parse_payload(world.plan(world.payload()))
    assert plan.title == "plan-toy-cpu@eager.decode.real.hot"


def test_warnings_are_signed(world: World) -> None:
    gates = tuple(replace(row, band="warn") if row.name == "parity.seam.rel_l2" else row for row in world.record.gates)
    found = json.loads(world.payload(replace(world.record, gates=gates)))
    assert [row["name"] for row in found["predicate"]["gates"] if row["band"] == "warn"] == ["parity.seam.rel_l2"]


def test_what_does_not_read_back_as_it_was_is_not_written(world: World) -> None:
    with pytest.raises(CertificateRefused, match="does not survive") as caught:
        world.payload(replace(world.record, rows=[1, 8]))  # type: ignore[arg-type]
    assert caught.value.refusal_code == "SCHEMA"
    member = world.payload()
    with pytest.raises(CertificateRefused, match="does not survive") as caught:
        world.plan(member, keys=[world.record.key.id])
    assert caught.value.refusal_code == "SCHEMA"


def test_only_files_that_hold_something_are_subjects(world: World) -> None:
    full, empty = FileDigest("kernel/full.py", "b" * 64), FileDigest("kernel/empty.py", EMPTY_SHA256)
    payload = world.payload(replace(world.record, subjects=(*world.record.subjects, empty, full)))
    names = [one["name"] for one in json.loads(payload)["subject"]]
    assert names == [*(one.name for one in world.record.subjects), "kernel/full.py"]


def test_a_plan_has_a_key_per_member(world: World) -> None:
    with pytest.raises(ValueError, match="zip"):
        world.plan(world.payload(), keys=(world.record.key.id,) * 2)


def test_faults_are_placed_from_the_statement_on(world: World) -> None:
    spoiled = world.spoiled(lambda document: document.update(_type="other"))
    with pytest.raises(CertificateRefused, match=r"^statement\._type is not exactly https://in-toto\.io/Statement/v1$"):
        statement.open_statement(spoiled)


def test_a_signer_who_says_nothing_is_called_self_for_half_a_year() -> None:
    assert ("self", timedelta(days=180)) == (statement.DEFAULT_ISSUER, statement.DEFAULT_LIFE)
