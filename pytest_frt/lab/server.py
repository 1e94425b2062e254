"""The fork server: ``python -I -m pytest_frt.lab.server --fd N [--preload NAME]...``.

It imports the heavy libraries once, stays on one thread, runs no torch operation, and forks a
supervisor for each job it is sent. It ends when the judge closes the channel.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pytest_frt.errors import FrtError
from pytest_frt.lab import closure, reaper
from pytest_frt.lab.reports import CrashedJob, from_message, to_message
from pytest_frt.lab.wire import Channel, PeerGone, WireFault, decode, encode
from pytest_frt.lab.worker import Request, supervise

_CHUNK: Final = 1 << 16


@dataclass(slots=True)
class Flight:
    """A job under way: its number, its supervisor, and what the supervisor has written so far."""

    number: int
    pid: int
    report: bytearray = field(default_factory=bytearray)


def preload(names: Sequence[str]) -> None:
    """Import the libraries of the jobs; those not installed are left to the job that needs them.

    Raises:
        FrtError: an import started a thread, which a fork would lose with its locks held.
    """
    for name in names:
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            importlib.import_module(name)
    threads = _threads()
    if threads != 1:
        raise FrtError(
            f"importing {', '.join(names)} left {threads} threads in the fork server, which may have 1",
            hint="take the library that starts a thread off the preload list",
        )


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def rehearse(names: Sequence[str]) -> None:
    """Import what a host was seen to import, so that no later job has to; what cannot be imported is left to the job.

    Raises:
        FrtError: an import started a thread; the judge then starts a server that rehearses nothing.
    """
    for name in names:
        with suppress(ImportError):
            importlib.import_module(name)
    closure.owners()
    if (threads := _threads()) != 1:
        raise FrtError(f"the libraries of the host left {threads} threads in the fork server, which may have 1")


class Server:
    """Forks supervisors and passes their reports on.

    Args:
        channel: To the judge.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._flights: dict[int, Flight] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel, selectors.EVENT_READ)

    def serve(self) -> None:
        """Run until the judge is gone; then nothing of any job is left."""
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is self._channel:
                        self._take()
                    else:
                        self._collect(key.fd)
        except PeerGone:
            reaper.kill_descendants()

    def _take(self) -> None:
        message = self._channel.receive()
        if (libraries := message.get("libraries")) is not None:
            rehearse(libraries)
            return
        job = message.get("id")
        if not isinstance(job, int):
            raise WireFault("request has no integer id")
        request = Request.read(message)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._supervise(request, reading, writing)
        os.close(writing)
        self._flights[reading] = Flight(job, pid)
        self._selector.register(reading, selectors.EVENT_READ)

    def _supervise(self, request: Request, reading: int, writing: int) -> None:
        """Run one job in the supervisor's process; never returns."""
        try:
            reaper.die_with_parent()
            self._selector.close()
            self._channel.close()
            for fd in (reading, *self._flights):
                os.close(fd)
            report = encode(to_message(supervise(request, writing)))
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(report)
        finally:
            if sys.exc_info()[0] is not None:
                traceback.print_exc()
                sys.stderr.flush()
            os._exit(0)

    def _collect(self, reading: int) -> None:
        flight = self._flights[reading]
        data = os.read(reading, _CHUNK)
        if data:
            flight.report += data
            return
        self._selector.unregister(reading)
        os.close(reading)
        del self._flights[reading]
        self._channel.send({"id": flight.number, "report": self._report(flight)})
        reaper.reap()

    def _report(self, flight: Flight) -> Mapping[str, Any]:
        try:
            return to_message(from_message(decode(bytes(flight.report))))
        except WireFault:
            # The job killed its supervisor; what it had started is ours now.
            reaper.kill_descendants(frozenset(other.pid for other in self._flights.values()))
            return to_message(CrashedJob(-signal.SIGKILL, "the supervisor of the job was killed", ()))


def main(arguments: Sequence[str]) -> int:
    """Serve one judge and return the exit status."""
    parser = argparse.ArgumentParser(prog="pytest_frt.lab.server")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--preload", action="append", default=[])
    options = parser.parse_args(arguments)
    channel = Channel.adopt(options.fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the judge, which closes the channel
    reaper.become_subreaper()
    preload(options.preload)
    channel.send({"ready": True})
    Server(channel).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
