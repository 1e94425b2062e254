"""Whatever is handed in: what was signed is accepted as it was signed, or a registered code refuses it."""

from __future__ import annotations

import hashlib
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from pytest_frt.certs import dsse, policy
from pytest_frt.certs.policy_types import matches
from pytest_frt.errors import CertificateRefused
from tests.certs.properties.strategies import FEW, MANY, edited
from tests.certs.vectors import world
from tests.fuzz import mutate, targets

SEEDS = st.integers(0, 2**32)
HONEST = targets.HONEST_LINE
NAME = hashlib.sha256(targets.HONEST).hexdigest()


@given(edited(HONEST))
@MANY
def test_an_edited_envelope_gives_the_signed_payload_or_a_refusal(data: bytes) -> None:
    targets.envelope(data)
    assert {outcome.name for outcome in targets.judged(data.split(b"\n"), targets.POLICY)} <= {NAME}


@given(st.binary(min_size=64, max_size=64), st.integers(0, 511))
@FEW
def test_any_other_signature_is_refused(raw: bytes, bit: int) -> None:
    right = world.ALICE.sign(dsse.pae(targets.HONEST))
    flipped = bytearray(right)
    flipped[bit // 8] ^= 1 << bit % 8
    document = world.envelope(targets.HONEST)
    for value in (raw, bytes(flipped), right[:-1], right + b"x"):
        document["signatures"][0]["sig"] = world.text64(value)
        assert targets.judged([world.dumped(document)], targets.POLICY) == []


@given(edited(targets.HONEST))
@FEW
def test_an_edited_statement_is_judged_by_its_own_bytes(data: bytes) -> None:
    targets.signed(data)


@given(SEEDS)
@MANY
def test_a_changed_statement_is_judged_by_its_own_bytes(seed: int) -> None:
    data = mutate.document(targets.HONEST, seed) or b""
    targets.signed(data)
    targets.roundtrip(data)


@given(
    st.lists(st.sampled_from([HONEST, world.line(targets.HONEST, world.BOB), b"{}", b"", b"\xff"]), max_size=6), SEEDS
)
@FEW
def test_an_edited_set_accepts_only_what_was_signed(lines: list[bytes], seed: int) -> None:
    data = mutate.lines(b"\n".join(lines), seed)
    assert {outcome.name for outcome in targets.judged(data.split(b"\n"), targets.POLICY)} <= {NAME}


@given(SEEDS)
@MANY
def test_any_policy_loads_or_is_refused(seed: int) -> None:
    targets.trust(mutate.lines(world.POLICY.encode(), seed))


@given(st.text("[]{}=\".,#\n\\'aktrue019-:TZ", max_size=60) | st.text(max_size=30))
@MANY
def test_any_text_is_a_policy_or_refused(text: str) -> None:
    targets.trust(text.encode("utf-8", "surrogatepass"))


@cache
def trusting(threshold: int, listed: tuple[str, ...]) -> policy.Policy:
    names = ", ".join(f'"{name}"' for name in listed)
    change = ('signers = ["alice"]\nthreshold = 1', f"signers = [{names}]\nthreshold = {threshold}")
    return policy.parse(world.policy(change).encode())


@given(
    st.lists(st.sampled_from(["alice", "bob", "mallory"]), min_size=1, max_size=5),
    st.sampled_from([("alice",), ("bob",), ("alice", "bob")]),
    st.integers(1, 2),
)
@FEW
def test_only_distinct_listed_owners_count(signed: list[str], listed: tuple[str, ...], threshold: int) -> None:
    try:
        trusted = trusting(threshold, listed)
    except CertificateRefused as refusal:
        assert (refusal.refusal_code, threshold > len(listed)) == ("POLICY_SCHEMA", True)  # noqa: PT017
        return
    lines = [world.line(targets.HONEST, world.published_key(name)) for name in signed]
    counted = set(signed) & set(listed)
    accepted = targets.judged(lines, trusted)
    assert bool(accepted) == (len(counted) >= threshold)
    assert all(set(outcome.owners) == counted for outcome in accepted)


@given(
    st.permutations(
        [HONEST, world.line(targets.HONEST, world.BOB), b"{}", world.line(world.plan_payload(targets.HONEST))]
    )
)
@FEW
def test_the_order_of_lines_never_matters(lines: list[bytes]) -> None:
    accepted = targets.judged(lines, targets.POLICY)
    assert len(accepted) == 2
    assert {outcome.owners for outcome in accepted} == {("alice",)}


SEGMENTS = st.lists(st.sampled_from(["a", "ab", "b"]), min_size=1, max_size=4)


@given(SEGMENTS, SEGMENTS)
@MANY
def test_a_wildcard_takes_whole_segments_only(pattern: list[str], value: list[str]) -> None:
    inside = len(value) > len(pattern) and value[: len(pattern)] == pattern
    assert matches("/".join(pattern) + "/*", "/".join(value)) == inside
    assert matches("/".join(pattern), "/".join(value)) == (pattern == value)
