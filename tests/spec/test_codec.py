"""JSON and back: every contract survives the trip, and anything but the contract is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.contracts.host import BuildRequest
from pytest_frt.contracts.job import HostRef, Job, TimingJob, UnitRef
from pytest_frt.contracts.seat import ModuleSeat, PairSeat, PointAt, RoutedSeat, Seat, SeatFacts, SlotRef
from pytest_frt.contracts.verdict import Crashed, Inconclusive, Invalid, Measured, NotRun, Pass, Refusal, Verdict
from pytest_frt.errors import EvidenceError
from pytest_frt.spec import codec

NUMBER = Measured("cosine", 0.5, ">=", 0.999, 12, "a.b")
SEATS = [ModuleSeat("a"), RoutedSeat("a", "f"), PairSeat("a.q", ("a.k", "a.v"))]
VERDICTS = [
    Pass("parity", (NUMBER,), "warn"),
    Refusal("parity", "nan", "text", "a", (NUMBER,)),
    Inconclusive("net_win", "text"),
    Invalid("net_win", "clock", "text"),
    Crashed("parity", "CRASH", "exit 3"),
    NotRun("union", "parity"),
]


def facts(seat: Seat = SEATS[2]) -> SeatFacts:
    slots = {"w": SlotRef("a.weight", transpose=True)}
    return SeatFacts("toy", seat, {"bias": "none"}, {"D": 4}, slots, {"eps": 1e-6}, "float32", {"x": PointAt("a.q")})


@pytest.mark.parametrize("seat", SEATS, ids=lambda seat: type(seat).__name__)
def test_seat_facts_survive(seat: Seat) -> None:
    assert codec.loads(tuple[SeatFacts, ...], codec.dumps((facts(seat), facts()))) == (facts(seat), facts())


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: type(verdict).__name__)
def test_bare_verdict_survives(verdict: Verdict) -> None:
    assert codec.from_json(Verdict, json.loads(codec.dumps(verdict))) == verdict


def test_job_survives() -> None:
    host = HostRef("h", "/h", BuildRequest("tiny", 0, None, "cpu", "/c"), 2)
    unit = UnitRef("s", "/s", "i", "/i", "n", "/n", "r", "/k", "d", (1, 8), ("a",))
    job = TimingJob(host, {"fast": (unit,)}, "/seats", {"fast": ""}, ("decode",), "eager", "eager", 3, "/out")
    assert codec.loads(Job, codec.dumps(job)) == job


def changed(**change: object) -> dict[str, Any]:
    return {**codec.to_json(facts()), **change}


NOT_FACTS = {
    "unknown_field": (changed(colour="red"), ["colour"]),
    "missing_field": ({k: v for k, v in changed().items() if k != "dtype"}, ["dtype"]),
    "text_for_a_number": (changed(dims={"D": "4"}), ["dims"]),
    "number_for_text": (changed(dtype=32), ["dtype"]),
    "number_for_a_boolean": (changed(slots={"w": {"tensor": "a", "transpose": 1}}), ["slots", "transpose"]),
    "boolean_for_a_number": (changed(dims={"D": True}), ["dims"]),
    "unknown_member": (changed(seat={"type": "FlyingSeat", "path": "a"}), ["seat"]),
    "member_without_tag": (changed(seat={"path": "a"}), ["seat"]),
    "unknown_field_of_a_member": (changed(seat={"type": "ModuleSeat", "path": "a", "x": 1}), ["seat", "x"]),
    "text_for_a_list": (changed(seat={"type": "PairSeat", "producer": "q", "consumers": "kv"}), ["seat"]),
    "list_for_an_object": ([1], ["SeatFacts"]),
}


@pytest.mark.parametrize(("value", "words"), NOT_FACTS.values(), ids=NOT_FACTS)
def test_anything_else_is_refused(value: object, words: list[str]) -> None:
    with pytest.raises(EvidenceError) as caught:
        codec.from_json(SeatFacts, value)
    assert all(word in caught.value.message for word in words), caught.value.message


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '{"a": NaN}', "[1,", '{"a": Infinity}'], ids=["key_twice", "nan", "cut", "inf"]
)
def test_json_means_one_thing(text: str) -> None:
    with pytest.raises(EvidenceError, match="not JSON"):
        codec.loads(DeviceFacts, text)


def test_nan_is_not_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        codec.dumps(Measured("cosine", float("nan"), ">=", 1.0, 1))


def test_text_does_not_depend_on_key_order() -> None:
    one, other = (codec.dumps(DeviceFacts("cpu", "x", "n", ("a", "b"), 2, "m")) for _ in range(2))
    assert one == other
    assert list(json.loads(one)) == sorted(json.loads(one))
