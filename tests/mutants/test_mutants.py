"""Every mutant is refused by the gate meant for it, in the right word, at the shipped limits; sound parts pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import mutant_table
import pytest
import torch

from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.contracts.verdict import Measured, Pass, Refusal, Verdict
from pytest_frt.registry import Registry
from pytest_frt.rules import seam
from pytest_frt.seat.discover import discover
from tests.mutants.entries import CONTRACT, REFUSED
from tests.mutants.entry import SOUND, Fault, Mutant
from tests.mutants.judge import bench, contract, seam_refusal
from tests.mutants.places import PLACES, absent, host
from tests.mutants.seats import SEATS

Record = Callable[[str, object], None]
LEAST = 60


def placed() -> Iterator[object]:
    for mutant in REFUSED:
        for place in mutant.places:
            yield pytest.param(mutant, place, id=f"{mutant.id}-{place}")


def units() -> list[tuple[str, str, str]]:
    return sorted({(one.seat, one.scheme, place) for one in REFUSED for place in one.places})


def needs(seat: str, place: str) -> None:
    if place == "trained" and (why := absent(SEATS[seat].host)):
        pytest.skip(why)


def worst(refusal: Verdict | None) -> dict[str, object]:
    """Return the number that the word stands for, where it is furthest over its limit, or the furthest of any."""
    numbers = [one for one in getattr(refusal, "measured", ()) if isinstance(one, Measured)]
    word = getattr(refusal, "reason", "")
    own = [one for one in numbers if seam.REASONS.get(one.metric.removeprefix("seam.")) == word]
    if not numbers:
        return {}
    top = max(own or numbers, key=lambda one: one.value / one.required if one.required else one.value)
    case = top.at.partition("|")[2].partition("#")[0]
    return {"number": top.metric, "value": float(top.value), "limit": float(top.required), "at": case}


@pytest.mark.parametrize(("mutant", "place"), list(placed()))
def test_mutant_is_refused_in_the_right_word(mutant: Mutant, place: str, record_property: Record) -> None:
    needs(mutant.seat, place)
    if mutant.gate == "contract":
        verdict: Verdict | None = contract(mutant.seat, mutant.scheme, mutant.fault)
    else:
        verdict = seam_refusal(mutant.seat, mutant.scheme, place, mutant.fault)
    found = verdict.reason if isinstance(verdict, Refusal) else ""
    row = mutant_table.Row(
        mutant.seat, mutant.scheme, mutant.fault.name, mutant.gate, place, found, mutant.expected(place),
        **worst(verdict)
    )  # fmt: skip
    record_property(mutant_table.PROPERTY, mutant_table.as_property(row))
    assert row.as_expected, getattr(verdict, "detail", "the gate passes it")


@pytest.mark.parametrize(("seat", "scheme", "place"), [pytest.param(*one, id="-".join(one)) for one in units()])
def test_the_same_part_without_a_fault_passes(seat: str, scheme: str, place: str) -> None:
    needs(seat, place)
    refusal = seam_refusal(seat, scheme, place, SOUND)
    assert refusal is None, refusal


def test_sound_part_holds_the_contract() -> None:
    seat, scheme = CONTRACT[0].seat, CONTRACT[0].scheme
    assert isinstance(contract(seat, scheme, SOUND), Pass)


@pytest.mark.parametrize("name", ["decoder_ffn", "vision_ffn", "linear_proj", "linear_proj_biased", "qkv_pack"])
def test_seat_is_the_one_that_discovery_finds(name: str) -> None:
    built, structures = host(SEATS[name].host), [entry.spec for entry in Registry.load().structures.values()]
    found: dict[str, SeatFacts] = {facts.id: facts for facts in discover(built.model, structures, built.spec)[0]}
    mine = bench(name, "none", "tiny").facts
    theirs = found[mine.id]
    assert (theirs.structure, theirs.variant, theirs.dims) == (mine.structure, mine.variant, mine.dims)
    assert (theirs.slots, theirs.constants) == (mine.slots, mine.constants)


def test_there_are_enough_of_them_in_every_structure() -> None:
    assert len(REFUSED) >= LEAST
    assert len({mutant.id for mutant in REFUSED}) == len(REFUSED)
    by_structure = Counter(SEATS[mutant.seat].structure for mutant in REFUSED)
    assert min(by_structure.values()) >= LEAST // 4, by_structure


def test_every_mutant_is_refused_everywhere() -> None:
    assert all(word for mutant in REFUSED for place in mutant.places for word in mutant.expected(place).split("|"))


@pytest.mark.parametrize("place", PLACES)
def test_a_part_more_exact_than_its_scheme_passes_and_what_it_hides_is_counted(place: str) -> None:
    needs("decoder_ffn", place)
    fused = Fault("keeps_matmul_outputs_in_float32", lambda plan: replace(plan, product=torch.matmul))
    seats = bench("decoder_ffn", "w8a16_decode", place).judge(fused).seats
    assert seats.refused == ()
    (untold,) = (number for number in seats.measured if number.metric == "seam.untold")
    assert (untold.value, untold.op, untold.at.partition("|")[2]) == (1.0, "reported", "gelu_erf#0")
