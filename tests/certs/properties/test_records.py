"""What is stated can be read: every record, plan, index and memory comes back as it went in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_frt.certs import index, state, statement
from pytest_frt.certs.encode import cleaned
from pytest_frt.certs.reading import parse_time
from pytest_frt.contracts.record import FileDigest, Record
from pytest_frt.errors import CertificateRefused
from pytest_frt.spec.tree import tree_digest
from tests.certs.properties.strategies import COUNTS, DIGESTS, FEW, MANY, NAMES, PRINTABLE, maps, records
from tests.certs.vectors import world
from tests.fuzz import mutate


def no_twins(record: Record) -> bool:
    """Keys of one object that differ in case only cannot be stated."""
    return len({name.casefold() for name in record.software}) == len(record.software)


@given(records(), st.text(max_size=30))
@FEW
def test_record(record: Record, reason: str) -> None:
    assume(no_twins(record))
    told = replace(record, refused=record.refused | {"some.seat": reason})
    payload = statement.build_cell(told, **world.TERMS)
    found = statement.parse_payload(payload)
    assert isinstance(found, statement.CellCertificate)
    assert found.record == replace(told, refused=cleaned(told.refused))
    assert statement.build_cell(found.record, **world.TERMS) == payload


@given(maps(PRINTABLE, PRINTABLE), COUNTS, maps(NAMES, PRINTABLE))
@FEW
def test_plan(dropped: dict[str, str], seed: int, software: dict[str, str]) -> None:
    found = statement.parse_payload(world.plan_payload(world.cell_payload()))
    assert isinstance(found, statement.PlanCertificate)
    plan = replace(found.plan, dropped=dropped, seed=seed, software=software)
    again = statement.parse_payload(statement.build_plan(plan, **world.TERMS))
    assert isinstance(again, statement.PlanCertificate)
    assert again.plan == plan


@given(st.sets(DIGESTS, max_size=5), st.sets(DIGESTS, max_size=3), PRINTABLE, st.integers(1, 2**53 - 1))
@FEW
def test_index(current: set[str], withdrawn: set[str], reason: str, version: int) -> None:
    revoked = [index.Revoked("tree", digest, reason) for digest in withdrawn]
    terms: dict[str, Any] = {"issuer": "acme", "version": version, "issued_at": world.ISSUED, "expires": world.EXPIRES}
    found = index.parse_index(index.build_index(current=current, revoked=revoked, **terms))
    assert (found.version, set(found.current), set(found.revoked)) == (version, current, set(revoked))


@given(
    COUNTS, maps(NAMES, st.builds(state.Seen, COUNTS, DIGESTS)), maps(PRINTABLE, st.builds(state.Seen, COUNTS, DIGESTS))
)
@FEW
def test_memory(version: int, indexes: dict[str, state.Seen], certificates: dict[str, state.Seen]) -> None:
    memory = state.Memory(version, parse_time(world.NOW), indexes, certificates)
    assert state.parse_memory(state.memory_bytes(memory)) == memory


def code_of(read: Callable[[bytes], object], data: bytes) -> str:
    """Return the code of a refusal, or nothing."""
    try:
        read(data)
    except CertificateRefused as refusal:
        return refusal.refusal_code
    return ""


@given(st.integers(0, 2**32))
@MANY
def test_a_signer_reads_what_a_verifier_reads(seed: int) -> None:
    """A signer's check refuses whatever the verifier's parser refuses, with the same code."""
    data = mutate.document(world.cell_payload(), seed) or b""
    if refused := code_of(statement.parse_payload, data):
        assert code_of(statement.check, data) == refused


@st.composite
def two_trees(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, str]]:
    """Return two trees whose files have the same bytes in the same order, under names that often differ."""
    digests = draw(st.lists(st.sampled_from(["0" * 64, "1" * 64]), min_size=1, max_size=4))
    names = st.lists(st.from_regex(r"[ab]{1,2}(/[ab])?", fullmatch=True), unique=True, min_size=4, max_size=4).map(
        sorted
    )
    one, other = (dict(zip(draw(names), digests, strict=False)) for _ in range(2))
    return one, other


@given(two_trees())
@MANY
def test_two_trees_share_a_digest_only_when_names_and_bytes_are_equal(
    trees: tuple[dict[str, str], dict[str, str]],
) -> None:
    first, second = (tree_digest([FileDigest(*file) for file in tree.items()]) for tree in trees)
    assert (first == second) == (trees[0] == trees[1])
