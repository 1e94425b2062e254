"""What fuzzing has found stays judged right, and so do all published vectors as input of every reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_frt.errors import CertificateRefused
from tests.fuzz import mutate
from tests.fuzz.keep import steps
from tests.fuzz.targets import POLICY as TRUSTED
from tests.fuzz.targets import TARGETS, judged, seeds, taken

CORPUS = Path(__file__).with_name("corpus")


@pytest.mark.parametrize("target", TARGETS)
def test_committed_inputs(target: str) -> None:
    inputs = sorted((CORPUS / target).iterdir())
    assert inputs
    for path in inputs:
        TARGETS[target](path.read_bytes())


@pytest.mark.parametrize("target", ["envelope", "policy", "set", "state", "index", "bundle"])
def test_published_vectors(target: str) -> None:
    given = set(seeds(target))
    assert given
    for data in given:
        TARGETS[target](data)


def test_another_error_is_no_refusal() -> None:
    def crash(_: bytes) -> None:
        raise ValueError("no code")

    with pytest.raises(ValueError, match="no code"):
        taken(crash, b"")


def test_a_refusal_without_a_registered_code_fails() -> None:
    def invent(_: bytes) -> None:
        raise CertificateRefused("MADE_UP", "never registered")

    with pytest.raises(AssertionError, match="MADE_UP"):
        taken(invent, b"")


def test_an_accepted_line_is_returned() -> None:
    (line,) = next(seeds("set")).split()
    assert [outcome.owners for outcome in judged([line, b"{}"], TRUSTED)] == [("alice",)]


def test_mutations_repeat_and_change() -> None:
    data = b'{"a":[1,{"b":"c"}],"d":"e"}'
    made = {seed: mutate.document(data, seed) for seed in range(40)}
    assert made == {seed: mutate.document(data, seed) for seed in range(40)}
    assert len(set(made.values())) > 15
    assert mutate.document(b"{", 1) is None
    assert len({mutate.lines(b"a = 1\nb = 2", seed) for seed in range(40)}) > 5


def test_inputs_are_told_apart_by_the_lines_they_reach() -> None:
    plain, refused = (steps(TARGETS["dialect"], data) for data in (b"[1]", b"[1"))
    assert plain - refused
    assert refused - plain
    assert steps(TARGETS["dialect"], b"[2]") == plain
