"""What an index lists and what it leaves out at the edges, and which file it is built upon."""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import dsse, index_build, store
from pytest_frt.certs.index import Index, Revoked
from pytest_frt.certs.index_build import Found, Listing, cosign, held, previous
from pytest_frt.errors import CertificateRefused, UsageFault
from tests.certs.conftest import NOW
from tests.certs.test_index import index_of, sha

if TYPE_CHECKING:
    from tests.certs.conftest import World

FOREIGN, EXPIRED = "not signed by this key", "expired"
SUPERSEDED, WITHDRAWN = "superseded by a higher serial", "revoked"
DIGEST, SECOND = "d" * 64, timedelta(seconds=1)
ENDS = NOW + timedelta(days=178)
"""The end of every certificate of the world."""


def put(folder: Path, name: str, *lines: bytes) -> str:
    """Write a set, and return what its lines are called up to their number."""
    path = folder / f"{name}{store.CERTIFICATE_SUFFIX}"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return f"{path}:"


def put_index(folder: Path, *lines: bytes) -> Path:
    path = folder / store.INDEX_NAME
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def serial(world: World, number: int, **changes: object) -> bytes:
    return world.spoiled(lambda document: document["predicate"].update({"serial": number} | changes))


def survey(world: World, folder: Path, *revoked: Revoked, now: datetime = NOW) -> tuple[list[str], dict[str, str]]:
    """Return the names of what is current, and what is left out."""
    listing = index_build.survey(folder, world.alice.public, now, revoked)
    return [one.payload_sha256 for one in listing.current], listing.left


def test_a_certificate_is_current_until_its_last_moment(world: World, tmp_path: Path) -> None:
    place = put(tmp_path, "a", world.line())
    assert survey(world, tmp_path, now=ENDS) == ([sha(world.payload())], {})
    assert survey(world, tmp_path, now=ENDS + SECOND) == ([], {f"{place}1": EXPIRED})


@pytest.mark.parametrize("order", list(itertools.permutations("abn")), ids="".join)
def test_two_certificates_of_one_serial_are_refused_whatever_lies_between(
    world: World, tmp_path: Path, order: tuple[str, ...]
) -> None:
    texts = {"a": serial(world, 1), "b": serial(world, 1, seed=8), "n": serial(world, 2)}
    put(tmp_path, "all", *(world.line(texts[one]) for one in order))
    with pytest.raises(CertificateRefused) as caught:
        survey(world, tmp_path)
    assert caught.value.refusal_code == "EQUIVOCATION"


@pytest.mark.parametrize("older", [1, 2, 3])
def test_of_one_place_the_highest_serial_is_current_wherever_it_lies(world: World, tmp_path: Path, older: int) -> None:
    serials = [1, 2]
    serials.insert(older - 1, 3)
    place = put(tmp_path, "a", *(world.line(serial(world, number)) for number in serials))
    lost = {f"{place}{line}": SUPERSEDED for line, number in enumerate(serials, start=1) if number != 3}
    assert survey(world, tmp_path) == ([sha(serial(world, 3))], lost)


def test_one_payload_counts_once(world: World, tmp_path: Path) -> None:
    put(tmp_path, "a", world.line(), world.line())
    put(tmp_path, "b", world.line())
    assert survey(world, tmp_path) == ([sha(world.payload())], {})
    put(tmp_path, "b", world.line(), world.line(serial(world, 2)))
    left = {f"{tmp_path / 'a'}{store.CERTIFICATE_SUFFIX}:1": SUPERSEDED}
    assert survey(world, tmp_path) == ([sha(serial(world, 2))], left)


def test_what_is_left_out_hides_nothing_behind_it(world: World, tmp_path: Path) -> None:
    old = serial(world, 9, expiresAt="2026-11-30T00:00:00Z")
    lines = [world.line(serial(world, 8), world.bob), world.line(old), world.line()]
    place = put(tmp_path, "a", *lines)
    expected = {f"{place}1": FOREIGN, f"{place}2": EXPIRED}
    assert survey(world, tmp_path) == ([sha(world.payload())], expected)


def test_the_index_that_is_there_is_no_certificate(world: World, tmp_path: Path) -> None:
    put_index(tmp_path, world.line(index_of()))
    (tmp_path / "below").mkdir()
    put_index(tmp_path / "below", world.line(index_of(version=4)))
    put(tmp_path / "below", "a", world.line())
    assert survey(world, tmp_path) == ([sha(world.payload())], {})


def test_two_payloads_of_one_serial_are_named(world: World, tmp_path: Path) -> None:
    twin = world.spoiled(lambda document: document["predicate"].update(seed=8))
    put(tmp_path, "a", world.line(), world.line(twin))
    with pytest.raises(CertificateRefused) as caught:
        survey(world, tmp_path)
    assert caught.value.refusal_code == "EQUIVOCATION"
    assert {sha(world.payload()), sha(twin)} <= set(caught.value.diagnostics().replace(",", " ").split())


def test_cells_and_plans_have_their_own_places_and_one_issuer(world: World, tmp_path: Path) -> None:
    other = serial(world, 1, issuer="zeta")
    payloads = [other, world.payload(), world.plan(world.payload())]
    put(tmp_path, "a", *map(world.line, payloads))
    listing = index_build.survey(tmp_path, world.alice.public, NOW)
    assert ([one.payload_sha256 for one in listing.current], listing.left) == ([sha(one) for one in payloads], {})
    assert listing.issuers == ("acme", "zeta")


@pytest.mark.parametrize("kind", ["payload", "tree", "key"])
@pytest.mark.parametrize("thing", ["payload", "tree"])
def test_a_cell_is_withdrawn_by_its_name_or_its_kernel(world: World, tmp_path: Path, kind: str, thing: str) -> None:
    digest = {"payload": sha(world.payload()), "tree": world.record.kernel.tree_digest}[thing]
    place = put(tmp_path, "a", world.line())
    expected = ([], {f"{place}1": WITHDRAWN}) if kind == thing else ([sha(world.payload())], {})
    assert survey(world, tmp_path, Revoked(kind, digest, "x"), Revoked("tree", DIGEST, "other")) == expected


@pytest.mark.parametrize("kind", ["payload", "tree"])
@pytest.mark.parametrize("thing", ["plan", "member"])
def test_a_plan_is_withdrawn_by_its_name_or_a_member(world: World, tmp_path: Path, kind: str, thing: str) -> None:
    member = world.payload()
    plan = world.plan(member)
    place = put(tmp_path, "a", world.line(plan))
    revoked = Revoked(kind, sha({"plan": plan, "member": member}[thing]), "x")
    expected = ([], {f"{place}1": WITHDRAWN}) if kind == "payload" else ([sha(plan)], {})
    assert survey(world, tmp_path, revoked) == expected


BROKEN = {"a line": (b"[]", "ENVELOPE", ":2"), "a set": (b"\n" * (dsse.MAX_SET_LINES + 1), "SET_SIZE", ": ")}


@pytest.mark.parametrize(("data", "code", "where"), BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_refused_by_name(world: World, tmp_path: Path, data: bytes, code: str, where: str) -> None:
    place = put(tmp_path, "a", world.line(), data)
    with pytest.raises(CertificateRefused) as caught:
        survey(world, tmp_path)
    assert caught.value.refusal_code == code
    assert caught.value.message.startswith(place[:-1] + where)


def test_an_index_that_can_be_read_hides_no_other(world: World, tmp_path: Path) -> None:
    put_index(tmp_path, world.line(index_of()))
    (tmp_path / "below").mkdir()
    put_index(tmp_path / "below", b"\n" * (dsse.MAX_SET_LINES + 1))
    with pytest.raises(CertificateRefused, match="below") as caught:
        survey(world, tmp_path)
    assert caught.value.refusal_code == "SET_SIZE"


def test_a_payload_that_is_no_certificate_is_refused_by_name(world: World, tmp_path: Path) -> None:
    place = put(tmp_path, "a", world.line(b"[]"))
    with pytest.raises(CertificateRefused, match="object") as caught:
        survey(world, tmp_path)
    assert caught.value.message.startswith(f"{place}1: ")


def test_an_index_is_found_with_the_bytes_that_were_signed(world: World, tmp_path: Path) -> None:
    assert previous(tmp_path, world.alice.public) is None
    payload = index_of(DIGEST)
    put_index(tmp_path, world.line(payload, world.bob), world.line(payload))
    for key in (world.alice, world.bob):
        found = previous(tmp_path, key.public)
        assert isinstance(found, Found)
        assert (found.payload, found.index.payload_sha256, found.index.version) == (payload, sha(payload), 3)


def refused_of(world: World, folder: Path, how: str) -> str:
    with pytest.raises(CertificateRefused) as caught:
        cosign(folder, world.bob) if how == "cosign" else previous(folder, world.alice.public)
    return caught.value.refusal_code


@pytest.mark.parametrize("how", ["previous", "cosign"])
def test_two_indexes_in_one_file_are_none(world: World, tmp_path: Path, how: str) -> None:
    path = put_index(tmp_path, world.line(index_of()), world.line(index_of(version=4)))
    before = path.read_bytes()
    assert (refused_of(world, tmp_path, how), path.read_bytes()) == ("SCHEMA", before)


@pytest.mark.parametrize(("how", "code"), [("previous", "SIG_NONE"), ("cosign", "SCHEMA")])
def test_an_empty_file_is_no_index(world: World, tmp_path: Path, how: str, code: str) -> None:
    put_index(tmp_path)
    assert refused_of(world, tmp_path, how) == code


def test_an_index_of_another_key_is_not_built_upon(world: World, tmp_path: Path) -> None:
    put_index(tmp_path, world.line(index_of(), world.bob))
    assert refused_of(world, tmp_path, "previous") == "SIG_NONE"


@pytest.mark.parametrize("how", ["previous", "cosign"])
def test_an_index_file_of_a_byte_too_many_is_refused(
    world: World, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put_index(tmp_path, dsse.sign(index_of(), world.bob).encode(), world.line(index_of()))
    monkeypatch.setattr(dsse, "MAX_SET_BYTES", path.stat().st_size - 1)
    assert refused_of(world, tmp_path, how) == "SET_SIZE"
    monkeypatch.setattr(dsse, "MAX_SET_BYTES", path.stat().st_size)
    assert found(tmp_path, world).index == cosign(tmp_path, world.bob)


def test_a_second_signature_is_of_the_same_bytes(world: World, tmp_path: Path) -> None:
    path = put_index(tmp_path, world.line(index_of()))
    assert cosign(tmp_path, world.bob).payload_sha256 == sha(index_of())
    assert path.read_bytes().splitlines() == [world.line(index_of()), dsse.sign(index_of(), world.bob).encode()]


def write(world: World, folder: Path, after: Found | None = None, **changes: object) -> Index:
    terms = {
        "issuer": "acme",
        "now": NOW,
        "expires": NOW + timedelta(days=9),
        "revoked": (),
        "listing": Listing((), {}),
    }
    return index_build.write_index(folder, key=world.alice, after=after, **(terms | changes))  # type: ignore[arg-type]


def found(folder: Path, world: World) -> Found:
    one = previous(folder, world.alice.public)
    assert one is not None
    return one


def test_an_index_says_what_it_was_given(world: World, tmp_path: Path) -> None:
    other = serial(world, 1, issuer="zeta")
    put(tmp_path, "a", world.line(other), world.line())
    listing = index_build.survey(tmp_path, world.alice.public, NOW)
    revoked = (Revoked("tree", DIGEST, "leaks"),)
    written = write(world, tmp_path, listing=listing, revoked=revoked)
    assert written == found(tmp_path, world).index
    assert (written.issuer, written.version) == ("acme", int(NOW.timestamp()))
    assert (written.issued_at, written.expires) == (NOW, NOW + timedelta(days=9))
    assert (written.current, written.revoked) == ((sha(world.payload()),), revoked)
    data = (tmp_path / store.INDEX_NAME).read_bytes()
    assert data == dsse.sign(found(tmp_path, world).payload, world.alice).encode() + b"\n"


@pytest.mark.parametrize(("version", "expected"), [(None, 1), (1, 2), (7, 8)])
def test_a_clock_that_is_far_behind_leaves_a_version_that_grows(
    world: World, tmp_path: Path, version: int | None, expected: int
) -> None:
    start = datetime(1970, 1, 1, tzinfo=UTC)
    if version is not None:
        put_index(tmp_path, world.line(index_of(version=version)))
    after = previous(tmp_path, world.alice.public)
    assert write(world, tmp_path, after, now=start, expires=start + SECOND).version == expected


def test_an_index_lives_for_a_second_at_least(world: World, tmp_path: Path) -> None:
    for expires in (NOW - SECOND, NOW):
        with pytest.raises(CertificateRefused) as caught:
            write(world, tmp_path, expires=expires)
        assert caught.value.refusal_code == "LIFETIME"
    assert not (tmp_path / store.INDEX_NAME).exists()
    assert write(world, tmp_path, expires=NOW + SECOND).expires == NOW + SECOND


def test_an_index_stays_with_its_issuer(world: World, tmp_path: Path) -> None:
    put_index(tmp_path, world.line(index_of()))
    before = found(tmp_path, world)
    with pytest.raises(UsageFault, match="of issuer acme, not zeta"):
        write(world, tmp_path, before, issuer="zeta")
    assert found(tmp_path, world) == before
    assert write(world, tmp_path, before).version == int(NOW.timestamp())


def test_a_lock_needs_a_directory_and_a_file(tmp_path: Path) -> None:
    lock = tmp_path / f"{store.INDEX_NAME}.lock"
    with held(tmp_path):
        assert lock.is_file()
    (tmp_path / "file").touch()
    for place in ("file", "nowhere"):
        with pytest.raises(UsageFault, match="is no directory"):
            held(tmp_path / place)
    os.mkfifo(lock)
    with pytest.raises(CertificateRefused) as caught, held(tmp_path):
        pytest.fail("a pipe locks nothing")
    assert caught.value.refusal_code == "SET_FILE"
