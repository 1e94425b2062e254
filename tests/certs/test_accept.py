"""Honest certificates are accepted, and parse back to exactly the record that was certified."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import dsse, statement, verify
from pytest_frt.certs.reading import EMPTY_SHA256
from pytest_frt.contracts.record import FileDigest
from pytest_frt.contracts.seat import PairSeat, RoutedSeat

if TYPE_CHECKING:
    from tests.certs.conftest import World

TWO = (('signers = ["alice"]\nthreshold = 1', 'signers = ["alice", "bob"]\nthreshold = 2'),)


def accepted(outcomes: list[verify.Outcome]) -> verify.Accepted:
    (outcome,) = outcomes
    assert isinstance(outcome, verify.Accepted), outcome
    return outcome


def test_a1_plain(world: World) -> None:
    payload = world.payload()
    found = accepted(world.verify(dsse.sign(payload, world.alice).encode()))
    assert isinstance(found.certificate, statement.CellCertificate)
    assert found.certificate.record == world.record
    assert found.owners == ("alice",)
    assert {gate.name: str(gate.value) for gate in found.gates}["latency.net_win"] == "1.31"


def test_a2_two_signers_on_two_lines_add_up(world: World) -> None:
    payload = world.payload()
    found = accepted(world.verify(world.line(payload), world.line(payload, world.bob), changes=TWO))
    assert (found.owners, found.source) == (("alice", "bob"), "line 1")


def test_a2_two_signers_in_one_envelope(world: World) -> None:
    one, two = (json.loads(world.line(key=key)) for key in (world.alice, world.bob))
    one["signatures"] += two["signatures"]
    assert accepted(world.verify(json.dumps(one).encode(), changes=TWO)).owners == ("alice", "bob")


def test_a3_inside_a_sigstore_bundle(world: World) -> None:
    bundle = {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": "anything"}},
        "dsseEnvelope": json.loads(world.line()),
    }
    accepted(world.verify(json.dumps(bundle).encode()))


def test_a4_keyid_absent(world: World) -> None:
    envelope = json.loads(world.line())
    del envelope["signatures"][0]["keyid"]
    accepted(world.verify(json.dumps(envelope).encode()))


def test_a5_unknown_members_that_do_not_restrict(world: World) -> None:
    payload = world.spoiled(lambda s: s["predicate"].update(colour="blue"))
    envelope = json.loads(world.line(payload)) | {"note": "ignored"}
    accepted(world.verify(json.dumps(envelope).encode()))


def test_a6_same_bytes_at_a_later_commit(world: World) -> None:
    accepted(world.verify(world.line(world.spoiled(lambda s: s["predicate"]["kernel"].update(revision="b" * 40)))))


def test_url_safe_base64_is_the_same_envelope(world: World) -> None:
    envelope = json.loads(world.line())
    for holder, name in ((envelope, "payload"), (envelope["signatures"][0], "sig")):
        holder[name] = base64.urlsafe_b64encode(base64.b64decode(holder[name])).decode()
    accepted(world.verify(json.dumps(envelope).encode()))


@pytest.mark.parametrize("revision", ["", "local"], ids=["unnamed", "local"])
def test_local_kernel_builds_have_no_commit(world: World, revision: str) -> None:
    kernel = replace(world.record.kernel, revision=revision)
    accepted(world.verify(world.line(world.payload(replace(world.record, kernel=kernel)))))


@pytest.mark.parametrize("place", [RoutedSeat("m.attn", "sdpa"), PairSeat("m.a.q", ("m.a.k", "m.a.v"))], ids=repr)
def test_every_kind_of_seat_survives(world: World, place: PairSeat | RoutedSeat) -> None:
    first = world.record.seats[0]
    record = replace(
        world.record, seats=(replace(first, facts=replace(first.facts, seat=place)),), calibration=None, refused={}
    )
    parsed = statement.parse_payload(world.payload(record))
    assert isinstance(parsed, statement.CellCertificate)
    assert parsed.record == record


def test_empty_files_are_left_out_of_the_subjects(world: World) -> None:
    empty = FileDigest("kernel/ops/__init__.py", EMPTY_SHA256)
    parsed = statement.parse_payload(world.payload(replace(world.record, subjects=(empty, *world.record.subjects))))
    assert isinstance(parsed, statement.CellCertificate)
    assert parsed.record.subjects == world.record.subjects


def test_a_plan_activates_its_members_and_nothing_else(world: World) -> None:
    member, loose = world.payload(), world.payload(replace(world.record, seed=8))
    lines = [world.line(payload) for payload in (member, loose, world.plan(member))]
    cell, other, plan = world.verify(*lines)
    assert (cell.activates, other.activates, plan.activates) == (True, False, True)
    refused = world.verify(b"{}")
    assert verify.activable([cell, *refused, other, plan]) == (cell, plan)
    by_cell = world.verify(*lines, changes=(('composition = "plan"', 'composition = "cell"'),))
    assert all(outcome.activates for outcome in by_cell)


def test_unprintable_reasons_become_one_line(world: World) -> None:
    record = replace(world.record, refused={"model.layers.2.mlp": "first\nsecond\u202e" + "x" * 5000})
    parsed = statement.parse_payload(world.payload(record))
    assert isinstance(parsed, statement.CellCertificate)
    reason = parsed.record.refused["model.layers.2.mlp"]
    assert reason.startswith("first second x")
    assert reason.endswith("…")


def test_another_implementation_reads_our_envelopes(world: World) -> None:
    oracle = pytest.importorskip("securesystemslib.dsse")
    signer = pytest.importorskip("securesystemslib.signer")
    public = world.alice._private.public_key()
    key = signer.SSlibKey.from_crypto(public, keyid=world.alice.public.keyid)
    raw = dsse.sign(world.payload(), world.alice)
    envelope = oracle.Envelope.from_dict(json.loads(raw))
    assert world.alice.public.keyid in envelope.verify([key], 1)
    assert envelope.payload == world.payload()
