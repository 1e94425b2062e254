"""Settling drops the seats that do not hold, tries the rest again, and never takes a silence for a pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_frt.contracts.verdict import Crashed, Pass, Refusal
from pytest_frt.run.settle import MAX_TRIES, Settled, Settling

DEATH = Crashed("parity", "CRASH", "exit status 0")


def settle(toy: Any, *answers: Any, seats: int = 3) -> tuple[Settled, list[tuple[str, ...]]]:
    stages = toy.Stages(list(answers))
    found = toy.witnessed(*(toy.seat(name) for name in "abcdefgh"[:seats]))
    return Settling(stages, toy.question(toy.unit()), found, lifecycle=True).run(), stages.asked


def test_all_that_hold_stand_after_one_try(toy: Any) -> None:
    settled, asked = settle(toy, toy.Answer())
    assert asked == [("a", "b", "c")]
    assert settled.survivors == ("a", "b", "c")
    assert [type(settled.verdicts[gate]) for gate in ("seats", "parity", "ledger")] == [Pass, Pass, Pass]


@pytest.mark.parametrize(
    ("answer", "gate", "reason"),
    [
        ({"gain": ("b",)}, "parity", "gain"),
        ({"unbound": ("b",)}, "seats", "envelope"),
        ({"fallbacks": ("b",)}, "ledger", "fallbacks"),
    ],
    ids=["gain", "unbound", "fallback"],
)
def test_seat_that_does_not_hold_is_dropped_and_the_rest_tried_again(
    toy: Any, answer: dict[str, Any], gate: str, reason: str
) -> None:
    settled, asked = settle(toy, toy.Answer(**answer), toy.Answer())
    assert asked == [("a", "b", "c"), ("a", "c")]
    assert settled.survivors == ("a", "c")
    assert settled.units[0].seats == ("a", "c")
    assert [(refusal.at, refusal.reason) for refusal in settled.refused[gate]] == [("b", reason)]
    assert all(isinstance(verdict, Pass) for verdict in settled.verdicts.values())


def test_no_seat_that_holds_ends_it(toy: Any) -> None:
    settled, asked = settle(toy, toy.Answer(gain=("a", "b", "c")))
    assert len(asked) == 1
    assert settled.survivors == ()
    assert isinstance(settled.verdicts["parity"], Refusal)
    assert "ledger" not in settled.verdicts


@pytest.mark.parametrize(
    "lost", [Crashed("parity", "TIMEOUT", "no result"), Refusal("seats", "kernel_unavailable", "no build")]
)
def test_loss_without_evidence_shows_at_the_first_gate(toy: Any, lost: Crashed | Refusal) -> None:
    settled, _ = settle(toy, toy.Answer(lost=lost))
    assert list(settled.verdicts) == ["seats"]
    assert type(settled.verdicts["seats"]) is type(lost)


def test_death_in_the_host_is_a_crash_when_the_seams_hold(toy: Any) -> None:
    settled, _ = settle(toy, toy.Answer(died=DEATH, composed=False, host=()))
    assert settled.verdicts["parity"] is DEATH
    assert isinstance(settled.verdicts["seats"], Pass)


def test_death_in_the_host_is_explained_by_a_bad_seam(toy: Any) -> None:
    settled, asked = settle(toy, toy.Answer(died=DEATH, composed=False, host=(), gain=("c",)), toy.Answer())
    assert asked[1] == ("a", "b")
    assert isinstance(settled.verdicts["parity"], Pass)


def test_host_that_was_never_run_proves_nothing(toy: Any) -> None:
    settled, _ = settle(toy, toy.Answer(composed=False, host=()))
    assert getattr(settled.verdicts["parity"], "reason", "") == "unjudged"


def test_tampering_refuses_whatever_the_seats_show(toy: Any) -> None:
    settled, asked = settle(toy, toy.Answer(tampered=("seats.json",), gain=("a",)))
    assert len(asked) == 1
    assert getattr(settled.verdicts["parity"], "reason", "") == "tampered"
    assert settled.survivors == ()


def test_host_without_a_seat_starts_nothing(toy: Any) -> None:
    settled, asked = settle(toy, toy.Answer(), seats=0)
    assert asked == []
    assert getattr(settled.verdicts["seats"], "reason", "") == "no_seats"


@pytest.mark.parametrize(
    ("rows", "phase", "started"),
    [("1", "decode", True), ("8", "decode", True), ("9", "decode", False), ("1", "prefill", False)],
    ids=["inside", "edge_of_the_band", "beyond_the_band", "another_phase"],
)
def test_seats_that_the_host_does_not_call_so_start_nothing(toy: Any, rows: str, phase: str, *, started: bool) -> None:
    found = toy.witnessed(toy.seat("a"))
    calls = tuple(replace(one, by_rows={rows: one.calls}, phase=phase) for one in found.evidence.calls)
    found = replace(found, evidence=replace(found.evidence, calls=calls))
    stages = toy.Stages([toy.Answer()])
    settled = Settling(stages, toy.question(toy.unit()), found, lifecycle=True).run()
    assert bool(stages.asked) is started
    assert started or getattr(settled.verdicts["seats"], "reason", "") == "no_calls"


def test_set_that_keeps_moving_is_refused(toy: Any) -> None:
    settled, asked = settle(toy, *(toy.Answer(gain=(name,)) for name in "abcdefgh"), seats=8)
    assert len(asked) == MAX_TRIES
    assert getattr(settled.verdicts["parity"], "reason", "") == "unstable"
    assert [refusal.at for refusal in settled.refused["parity"]] == ["a", "b", "c", "d"]
