"""Each fact that differs between a record and the live process rejects it, naming both values; nothing is executed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.contracts.record import FileDigest, Record
from pytest_frt.runtime.facts import Asked
from pytest_frt.runtime.match import Accept, Inner, LiveFacts, LiveSeat, Odd, Reject, Wish, match, match_config

if TYPE_CHECKING:
    from tests.runtime.conftest import World

EAGER = Wish("eager")
CLASS = "toy.Ffn"


@pytest.fixture
def record(world: World) -> Record:
    found = world.record()
    dist = (FileDigest("dist/some-lib-1.0", "a" * 64),)
    return replace(found, host=replace(found.host, module_source={CLASS: "b" * 64}), subjects=found.subjects + dist)


@pytest.fixture
def live(record: Record) -> LiveFacts:
    return LiveFacts(
        device=record.device,
        software=dict(record.software),
        distributions={"some-lib-1.0": "a" * 64},
        host_class=record.host.host_class,
        library=dict(record.host.library),
        sources={CLASS: "b" * 64},
        seats={seat.facts.id: LiveSeat((CLASS,), "cpu") for seat in record.seats},
        weights={seat.facts.id: seat.weights_digest for seat in record.seats},
    )


def test_equal_facts_are_accepted(record: Record, live: LiveFacts) -> None:
    assert match(record, live, EAGER) == Accept()
    assert match(record, live, Wish("eager", "decode")) == Accept()


def seat(**changes: Any) -> dict[str, LiveSeat]:
    good = LiveSeat((CLASS,), "cpu")
    return {"blocks.0": good, "blocks.1": replace(good, **changes)}


SPOILS: dict[str, tuple[dict[str, Any], str, str]] = {
    "torch": ({"software": {"torch": "0.1"}}, "SOFTWARE", "installed is 0.1"),
    "torch_absent": ({"software": {}}, "SOFTWARE", "installed is nothing"),
    "distribution": ({"distributions": {"some-lib-1.0": "c" * 64}}, "SOFTWARE", "RECORD of some-lib-1.0"),
    "host_class": ({"host_class": "other.Model"}, "CELL_HOST", "this model is other.Model"),
    "source": ({"sources": {CLASS: "d" * 64}}, "HOST", f"source of {CLASS} is certified as {'b' * 64}, here"),
    "source_absent": ({"sources": {}}, "HOST", "here it is nothing"),
    "other_class": ({"seats": seat(classes=("toy.Other",))}, "HOST", "source of toy.Other is certified as nothing"),
    "place_absent": ({"seats": seat(missing=("module blocks.1",))}, "SEAT", "the model has no module blocks.1"),
    "attached_already": ({"seats": seat(seated="blocks.1")}, "SEATED", "seat blocks.1 is attached already"),
    "seat_on_gpu": ({"seats": seat(device="cuda")}, "DEVICE", "its tensors are on cuda, certified is cpu"),
    "odd": ({"seats": seat(odd=(Odd("SEAT", "blocks.1.up", "it has hooks"),))}, "SEAT", "blocks.1.up: it has hooks"),
    "weights": ({"weights": {"blocks.0": "x"}}, "WEIGHTS", "in memory they have x"),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_other_fact_is_rejected(record: Record, live: LiveFacts, spoil: str) -> None:
    changes, code, words = SPOILS[spoil]
    verdict = match(record, replace(live, **changes), EAGER)
    assert isinstance(verdict, Reject)
    assert verdict.code == code
    assert words in verdict.message


DEVICES = {"kind": "cuda", "arch": "arm64", "name": "Other CPU", "isa": ("sse",), "threads": 99, "math": "other"}


@pytest.mark.parametrize("field", DEVICES)
def test_every_device_fact_counts(record: Record, live: LiveFacts, field: str) -> None:
    other: DeviceFacts = replace(live.device, **{field: DEVICES[field]})
    verdict = match(record, replace(live, device=other), EAGER)
    assert isinstance(verdict, Reject)
    assert verdict.code == ("CELL_DEVICE" if field in {"kind", "arch"} else "DEVICE")
    assert f"device {field} is certified as" in verdict.message
    assert (f"torch.set_num_threads({record.device.threads})" in verdict.hint) == (field == "threads")


@pytest.mark.parametrize(("wish", "words"), [(Wish("compiled"), "compiled"), (Wish("eager", "prefill"), "prefill")])
def test_other_form_or_phase_is_rejected(record: Record, live: LiveFacts, wish: Wish, words: str) -> None:
    verdict = match(record, live, wish)
    assert isinstance(verdict, Reject)
    assert (verdict.code, words in verdict.message) == ("FORM", True)


def test_library_version_is_compared(record: Record, live: LiveFacts) -> None:
    wanted = replace(record, host=replace(record.host, library={"transformers": "5.24.0"}))
    verdict = match(wanted, replace(live, library={"transformers": "5.25.0"}), EAGER)
    assert isinstance(verdict, Reject)
    assert "certified as 5.24.0, here it is 5.25.0" in verdict.message


def test_boundary_dtype_of_a_seat_is_the_records(record: Record, live: LiveFacts) -> None:
    verdict = match(replace(record, dtype="bfloat16"), live, EAGER)
    assert isinstance(verdict, Reject)
    assert (verdict.code, verdict.seat) == ("DTYPE", "blocks.0")


def test_configuration_digest_is_compared(record: Record) -> None:
    assert match_config(record, record.host.config_digest) == Accept()
    verdict = match_config(record, "0" * 64)
    assert isinstance(verdict, Reject)
    assert record.host.config_digest in verdict.message


def test_weights_are_asked_for_last(record: Record, live: LiveFacts) -> None:
    asked: list[str] = []
    lazy = replace(live, weights=Asked(asked.append), software={})
    assert isinstance(match(record, lazy, EAGER), Reject)
    assert asked == []


def test_asked_computes_once() -> None:
    asked: list[str] = []
    table = Asked(lambda name: asked.append(name) or (name.upper() if name == "a" else None))
    assert (table["a"], table["a"], table.get("b"), table.get("b"), list(table)) == ("A", "A", None, None, ["a"])
    assert asked == ["a", "b"]


INNER = {
    "torch": ((("torch",), "0" * 64), True),
    "library": ((("lib",), "0" * 64), True),
    "software": ((("other",), "0" * 64), True),
    "bound_file": (((), "b" * 64), True),
    "local": (((), "0" * 64), False),
    "unbound_library": ((("else",), "0" * 64), False),
    "no_source": (((), ""), False),
}


@pytest.mark.parametrize("case", INNER)
def test_class_below_a_place_is_of_something_bound(record: Record, live: LiveFacts, case: str) -> None:
    (libraries, source), fits = INNER[case]
    versions = {"lib": "1", "other": "2"}
    host = replace(record.host, library={"lib": "1"})
    wanted = replace(record, host=host, software={"other": "2"})
    seats = seat(inner=(Inner("blocks.1.up", "some.Layer", libraries, source),))
    verdict = match(wanted, replace(live, software=versions, library=versions, seats=seats), EAGER)
    assert isinstance(verdict, Accept) == fits
    assert fits or (verdict.code, "blocks.1.up is a some.Layer" in verdict.message) == ("HOST", True)  # type: ignore[union-attr]
