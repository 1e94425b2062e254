"""Every mutant is refused by the gate meant for it, in the right word, at the shipped limits; sound parts pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import mutant_table
import pytest
import torch
from torch import Tensor

from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.contracts.verdict import Measured, Pass, Refusal, Verdict
from pytest_frt.registry import Registry
from pytest_frt.rules import seam
from pytest_frt.seat.discover import discover
from tests.mutants import faults as f
from tests.mutants.entries import CONTRACT, REFUSED
from tests.mutants.entry import SOUND, Fault, Mutant
from tests.mutants.judge import Product, bench, contract, seam_refusal
from tests.mutants.places import PLACES, host
from tests.mutants.seats import SEATS
from tests.trained import absent

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


def coded(x: Tensor, w: Tensor) -> Tensor:
    """Multiply as the shipped kernel does: sums over codes leave as bfloat16 and are scaled after."""
    scale = w.abs().amax(0) / 127
    return (x @ (w / scale)).bfloat16().float() * scale


def only_down_is_rounded(x: Tensor, w: Tensor) -> Tensor:
    """Keep gate and up in float32, as a kernel fused up to the activation does; it is as exact as its scheme asks."""
    return (x @ w).bfloat16().float() if w.shape[0] > w.shape[1] else x @ w


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("product", [coded, torch.matmul, only_down_is_rounded])
def test_other_right_roundings_pass_and_what_they_hide_is_counted(product: Product, place: str) -> None:
    needs("decoder_ffn", place)
    other = Fault("rounds_otherwise", lambda plan: replace(plan, product=product))
    seats = bench("decoder_ffn", "w8a16_decode", place).judge(other).seats
    assert seats.refused == ()
    (untold,) = (number for number in seats.measured if number.metric == "seam.untold")
    assert (untold.value, untold.op) == (float(product is only_down_is_rounded), "reported")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("product", [coded, torch.matmul])
def test_the_other_gelu_is_refused_however_matmuls_round(product: Product, place: str) -> None:
    needs("decoder_ffn", place)
    erf = f.activation("gelu_erf")
    other = Fault("gelu_erf_and_rounds_otherwise", lambda plan: replace(erf.change(plan), product=product))
    refusal = seam_refusal("decoder_ffn", "w8a16_decode", place, other)
    assert refusal is not None
    assert refusal.reason == "alternative"
