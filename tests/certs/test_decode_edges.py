"""Predicates at the edges: each member read as exactly what it must be, and named where it is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.certs import statement
from pytest_frt.contracts.record import PlanRecord, Record
from pytest_frt.errors import CertificateRefused

if TYPE_CHECKING:
    from tests.certs.conftest import World

Members = dict[str, Any]
Spoil = Callable[[Members], object]
KEY = "a-b-toy-c-cpu@eager.decode.real.hot"
TREE = "a" * 64


def read(world: World, spoil: Spoil, payload: bytes | None = None) -> Record | PlanRecord:
    """Return what a spoiled predicate states."""
    found = statement.parse_payload(world.spoiled(lambda document: spoil(document["predicate"]), payload))
    return found.record if isinstance(found, statement.CellCertificate) else found.plan


def put(value: object, *path: str | int) -> Spoil:
    """Put a value at a path of the predicate."""

    def spoil(members: Any) -> None:
        *way, last = path
        for step in way:
            members = members[step]
        members[last] = value

    return spoil


def twice(*path: str) -> Spoil:
    """Repeat the first entry of an array."""

    def spoil(members: Any) -> None:
        for step in path:
            members = members[step]
        members.append(members[0])

    return spoil


REFUSED: dict[str, tuple[Spoil, str, str]] = {
    **{
        f"cell.{name} with a dash": (put("a-b", "cell", name), "NAME", rf"cell\.{name} name 'a-b' does not match")
        for name in ("host", "scheme", "device")
    },
    **{
        f"deployment.{name} in capitals": (put("A", "deployment", name), "NAME", rf"deployment\.{name} name 'A'")
        for name in ("form", "phase", "size", "cache")
    },
    **{
        f"cell.{name} {what}": (put(text, "cell", name), "NAME", rf"cell\.{name} is not <name>@<version>")
        for name in ("structure", "impl")
        for what, text in {
            "without a version": "a",
            "of version zero": "a@0",
            "of a version with a sign": "a@+1",
            "of a version of seven digits": "a@1000000",
            "of two versions": "a@1@2",
            "in capitals": "A@1",
        }.items()
    },
    "structure as number": (put(1, "cell", "structure"), "SCHEMA", r"cell\.structure is not text"),
    "scheme as number": (put(1, "cell", "scheme"), "SCHEMA", r"cell\.scheme is not text"),
    "host of another cell": (put("other", "host", "name"), "SCHEMA", r"host\.name is not the host toy of the cell"),
    "weights of a host otherwise": (
        put("tuned", "host", "weights"),
        "SCHEMA",
        r"weights is not one of random, trained",
    ),
    "class twice": (
        twice("host", "moduleSourceDigest"),
        "SCHEMA",
        "moduleSourceDigest is not an array with each class",
    ),
    "refused seat twice": (twice("refused"), "SCHEMA", "refused is not an array with each seat once"),
    "a branch": (put("main", "kernel", "revision"), "SCHEMA", r"kernel\.revision is not a whole commit"),
    "no revision at all": (put(None, "kernel", "revision"), "SCHEMA", r"kernel\.revision is not a whole commit"),
    "one row": (put([1], "rows"), "SCHEMA", "rows is not a band"),
    "three rows": (put([1, 2, 3], "rows"), "SCHEMA", "rows is not a band"),
    "rows from high to low": (put([2, 1], "rows"), "SCHEMA", "rows is not a band"),
    "rows below zero": (put([-1, 1], "rows"), "SCHEMA", r"rows\[0\] is not an integer from 0"),
    "no attempt": (put(0, "attempts"), "SCHEMA", "attempts is not an integer from 1"),
    "a seed below zero": (put(-1, "seed"), "SCHEMA", "seed is not an integer from 0"),
    "threads below zero": (put(-1, "device", "threads"), "SCHEMA", r"device\.threads is not an integer from 0"),
    "no sample of a calibration": (put(0, "calibration", "samples"), "SCHEMA", "samples is not an integer from 1"),
    "no calibration object": (put(False, "calibration"), "SCHEMA", "calibration is not an object"),  # noqa: FBT003
    "a hidden artefact": (put(".a", "calibration", "artefact", "name"), "NAME", ""),
    "evidence above its folder": (put("../a", "evidence", 0, "name"), "NAME", ""),
    "evidence that has no name": (put(1, "evidence", 0, "name"), "SCHEMA", r"evidence\[0\]\.name is not text"),
    "checker without a digest": (put({}, "checker", "digest"), "DIGEST", r"checker\.digest has no sha256"),
    "a short configuration digest": (put("a", "host", "configDigest"), "DIGEST", r"host\.configDigest is not a sha256"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_named(world: World, case: str) -> None:
    spoil, code, words = REFUSED[case]
    with pytest.raises(CertificateRefused, match=words or None) as caught:
        read(world, spoil)
    assert caught.value.refusal_code == code


TAKEN: dict[str, tuple[Spoil, Callable[[Any], object], object]] = {
    "one number of rows": (put([8, 8], "rows"), lambda found: found.rows, (8, 8)),
    "rows from nothing": (put([0, 1], "rows"), lambda found: found.rows, (0, 1)),
    "one attempt": (put(1, "attempts"), lambda found: found.attempts, 1),
    "seed zero": (put(0, "seed"), lambda found: found.seed, 0),
    "no thread count": (put(0, "device", "threads"), lambda found: found.device.threads, 0),
    "one sample": (put(1, "calibration", "samples"), lambda found: found.calibration.samples, 1),
    "no calibration": (put(None, "calibration"), lambda found: found.calibration, None),
    "random weights": (put("random", "host", "weights"), lambda found: found.host.weights, "random"),
    "unnamed revision": (put("", "kernel", "revision"), lambda found: found.kernel.revision, ""),
    "version of six digits": (put("x@999999", "cell", "structure"), lambda found: found.structure_version, 999_999),
    "version of an impl": (put("x_9@21", "cell", "impl"), lambda found: found.impl_version, 21),
    "structure of the seats": (
        put("x@2", "cell", "structure"),
        lambda found: {seat.facts.structure for seat in found.seats} | {found.key.cell.structure},
        {"x"},
    ),
}


@pytest.mark.parametrize("case", TAKEN)
def test_what_fits_is_read(world: World, case: str) -> None:
    spoil, part, want = TAKEN[case]
    assert part(read(world, spoil)) == want


def named(name: str, digest: str = TREE) -> Callable[[Members], object]:
    return lambda document: document.update(subject=[{"name": name, "digest": {"sha256": digest}}])


def members(*digests: str) -> Callable[[Members], object]:
    entries = [{"name": f"cell/{KEY.replace('b', f'b{n}')}", "digest": {"sha256": d}} for n, d in enumerate(digests)]
    return lambda document: document.update(subject=entries)


PLANS: dict[str, tuple[Callable[[Members], object], str, str]] = {
    "one member": (named(f"cell/{KEY}"), "", ""),
    "two members in order": (members("a" * 64, "b" * 64), "", ""),
    "two members out of order": (members("b" * 64, "a" * 64), "SCHEMA", "subject is not sorted by distinct"),
    "one member twice": (members("a" * 64, "a" * 64), "SCHEMA", "subject is not sorted by distinct"),
    "no cell": (named(KEY), "SCHEMA", "is not cell/<record key> of toy"),
    "in another folder": (named(f"cells/{KEY}"), "SCHEMA", "is not cell/<record key>"),
    "no record key": (named("cell/a"), "NAME", "record key 'a' is not"),
    "of another host": (named(f"cell/{KEY.replace('toy', 'other')}"), "SCHEMA", "of toy"),
    "dropped twice": (
        lambda document: document["predicate"].update(dropped=[{"key": "a", "reason": "b"}] * 2),
        "SCHEMA",
        "dropped is not an array with each key once",
    ),
    "a name above its folder": (lambda document: document["predicate"].update(name="../a"), "NAME", ""),
    "no attempt": (lambda document: document["predicate"].update(attempts=0), "SCHEMA", "attempts is not an integer"),
    "a host in capitals": (lambda document: document["predicate"]["host"].update(name="Toy"), "NAME", "host"),
}


@pytest.mark.parametrize("case", PLANS)
def test_what_a_plan_is_made_of(world: World, case: str) -> None:
    spoil, code, words = PLANS[case]
    payload = world.spoiled(spoil, world.plan(world.payload()))
    if not code:
        found = statement.parse_payload(payload)
        assert isinstance(found, statement.PlanCertificate)
        assert [f"cell/{key}" for key in found.plan.keys] == [one["name"] for one in json.loads(payload)["subject"]]
        return
    with pytest.raises(CertificateRefused, match=words or None) as caught:
        statement.parse_payload(payload)
    assert caught.value.refusal_code == code


def test_every_member_is_read_back_as_it_was_written(world: World) -> None:
    facts = replace(world.record, attempts=1, seed=11, rows=(3, 5), dtype="bfloat16", evidence=())
    found = statement.parse_payload(world.payload(facts))
    assert isinstance(found, statement.CellCertificate)
    assert found.record == facts
