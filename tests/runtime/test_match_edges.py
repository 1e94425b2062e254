"""What a refusal says word for word: both values of every kind of fact, what is absent, and its next step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.runtime.match import LiveFacts, LiveSeat, Reject, Wish, match, match_config

if TYPE_CHECKING:
    from pytest_frt.contracts.record import Record
    from tests.runtime.conftest import World

EAGER = Wish("eager")


@pytest.fixture
def record(world: World) -> Record:
    found = world.record()
    library = {"transformers": "5.24.0"}
    return replace(found, host=replace(found.host, library=library), device=replace(found.device, isa=("avx2", "amx")))


@pytest.fixture
def live(record: Record) -> LiveFacts:
    return LiveFacts(
        device=record.device,
        software=dict(record.software),
        distributions={},
        host_class=record.host.host_class,
        library=dict(record.host.library),
        sources={},
        seats={seat.facts.id: LiveSeat((), "cpu") for seat in record.seats},
        weights={seat.facts.id: seat.weights_digest for seat in record.seats},
    )


def refused(record: Record, live: LiveFacts, wish: Wish = EAGER) -> Reject:
    found = match(record, live, wish)
    assert isinstance(found, Reject)
    return found


FACTS: dict[str, tuple[dict[str, Any], str]] = {
    "other instructions": ({"isa": ("sse", "mmx")}, "device isa is certified as avx2, amx, here it is sse, mmx"),
    "no instructions": ({"isa": ()}, "device isa is certified as avx2, amx, here it is nothing"),
    "no mathematics": ({"math": ""}, "device math is certified as {math}, here it is nothing"),
    "other mathematics": ({"math": "other"}, "device math is certified as {math}, here it is other"),
    "other threads": ({"threads": 99}, "device threads is certified as {threads}, here it is 99"),
}


@pytest.mark.parametrize("case", FACTS)
def test_device_fact_is_said_as_people_write_it(record: Record, live: LiveFacts, case: str) -> None:
    changes, words = FACTS[case]
    found = refused(record, replace(live, device=replace(live.device, **changes)))
    assert found.message == words.format(math=record.device.math, threads=record.device.threads)
    assert found.hint == (f"torch.set_num_threads({record.device.threads})" if "threads" in changes else "")


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Wish("compiled"), "certified for the eager form, attached for compiled"),
        (Wish("eager", "prefill"), "certified for the decode phase, attached for prefill"),
    ],
)
def test_form_and_phase_are_called_by_their_names(record: Record, live: LiveFacts, wish: Wish, words: str) -> None:
    assert refused(record, live, wish).message == words


def test_absent_software_is_said_to_be_nothing(record: Record, live: LiveFacts) -> None:
    version = record.software["torch"]
    words = f"torch is certified as {version}, installed is nothing"
    assert refused(record, replace(live, software={})) == Reject("SOFTWARE", words)


def test_other_library_of_the_model_is_another_host(record: Record, live: LiveFacts) -> None:
    words = "transformers, which defines the model, is certified as 5.24.0, here it is nothing"
    assert refused(record, replace(live, library={})) == Reject("HOST", words)


def test_other_configuration_is_another_host(record: Record) -> None:
    found = match_config(record, "0" * 64)
    assert isinstance(found, Reject)
    assert found.code == "HOST"


@pytest.mark.parametrize(("slots", "held"), [((), ""), (("w_up: a", "w_down: b"), " (w_up: a; w_down: b)")])
def test_other_weights_are_said_with_what_the_slots_hold(
    record: Record, live: LiveFacts, slots: tuple[str, ...], held: str
) -> None:
    seats = dict.fromkeys(live.seats, LiveSeat((), "cpu", slots=slots))
    first = record.seats[0]
    found = refused(record, replace(live, seats=seats, weights=dict.fromkeys(live.weights, "x")))
    words = f"weights are certified with digest {first.weights_digest}, in memory they have x{held}"
    assert (found.code, found.message, found.seat) == ("WEIGHTS", words, first.facts.id)
