"""A peer that is not trusted can send anything; the judge gets a message, or a fault that says what is wrong."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from pytest_frt.lab.reports import CrashedJob, Done, Faulted, JobReport, Orphans, TimedOut, from_message, to_message
from pytest_frt.lab.wire import Channel, PeerGone, PeerSilent, WireFault, number, word

Ends = tuple[Channel, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    with theirs:
        channel = Channel(ours, cap=1000)
        yield channel, theirs
        channel.close()


def test_messages_arrive_whole_and_in_order(ends: Ends) -> None:
    channel, peer = ends
    peer.sendall(b'{"a": 1}\n{"b"')
    assert channel.receive(1) == {"a": 1}
    peer.sendall(b": [2.5]}\n")
    assert channel.receive(1) == {"b": [2.5]}


@pytest.mark.parametrize(
    "line",
    [
        b"x" * 2000,
        b'{"a": "' + b"x" * 2000 + b'"}\n',
        b"not json\n",
        b"[1]\n",
        b'{"a": NaN}\n',
        b'{"a": Infinity}\n',
        b"\xff\n",
    ],
    ids=["endless", "oversize", "no_json", "no_object", "nan", "infinity", "no_utf8"],
)
def test_bad_message_is_a_fault(ends: Ends, line: bytes) -> None:
    channel, peer = ends
    peer.sendall(line)
    with pytest.raises(WireFault):
        channel.receive(1)


def test_deep_nesting_is_a_fault() -> None:
    ours, theirs = socket.socketpair()
    deep = b"[" * 100_000 + b"\n"
    writer = threading.Thread(target=theirs.sendall, args=(deep,))
    writer.start()
    with pytest.raises(WireFault):
        Channel(ours).receive(5)
    writer.join()
    theirs.close()
    ours.close()


def test_oversize_message_is_not_sent(ends: Ends) -> None:
    with pytest.raises(WireFault, match="over the cap of 1000"):
        ends[0].send({"a": "x" * 1000})


def test_silence_and_closure_differ(ends: Ends) -> None:
    channel, peer = ends
    with pytest.raises(PeerSilent):
        channel.receive(0.05)
    peer.close()
    with pytest.raises(PeerGone):
        channel.receive(1)


@pytest.mark.parametrize("value", [None, "1", True, -1, 10**400], ids=["absent", "text", "bool", "negative", "huge"])
def test_number_of_an_untrusted_peer(value: object) -> None:
    with pytest.raises(WireFault):
        number({"x": value}, "x")
    with pytest.raises(WireFault):
        word({"x": 1}, "x")


@pytest.mark.parametrize(
    "report",
    [
        Done("/out", 1.5),
        CrashedJob(-9, "killed by SIGKILL", ("a", "b")),
        TimedOut(3.0, ()),
        Orphans((7, 8)),
        Faulted("STORAGE", "full", "free space"),
    ],
    ids=lambda report: type(report).__name__,
)
def test_report_travels(report: JobReport) -> None:
    assert from_message(to_message(report)) == report


@pytest.mark.parametrize(
    "message",
    [{}, {"type": "Passed"}, {"type": "Done", "out": "x"}, {"type": "Done", "out": "x", "seconds": "1"}],
    ids=["empty", "unknown", "field_missing", "wrong_type"],
)
def test_forged_report_is_a_fault(message: dict[str, object]) -> None:
    with pytest.raises(WireFault):
        from_message(message)
