"""A timing process: ``python -I -m pytest_frt.lab.timing_worker --fd N``, exec'ed afresh for every counted start.

The judge drives it over the channel, one JSON object per line:

- ``load``: build the host and bind all arms in the order given, on one thread: processes load side by side, and the
  spinning threads of two would fight for the cores.
- ``warm``: run an arm a few times on all threads, untimed.
- ``arm``: switch to an arm outside any timed region, run the canary untimed, then timed.
- ``settle``: run the arm untimed on values of its own: attaching and detaching leave colder caches than an arm that
  stays finds, and Python specialises the calls of a module whose attributes changed anew only after several of them.
- ``draw``: draw the values that the region will run on. Neither they nor what draws them is anywhere before this
  message, and no code of an impl runs between it and ``go``. A cold record's caches are emptied after it.
- ``go``: run the timed region and reply with its seconds.
- ``peak``: copy memory, untimed by the judge, and reply with the most bytes per second: asked of witnesses alone.
- ``keep``: write the output of one execution of the last region to a file; which one is drawn after the fact, so that
  nothing can depend on it.

What it says is a claim: the judge clocks every ``go`` itself.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from safetensors.torch import save_file

from pytest_frt.contracts.job import COLD, Job, TimingJob
from pytest_frt.errors import EvidenceError, FrtError
from pytest_frt.lab import confine, reaper
from pytest_frt.lab.arms import BASE, Arms
from pytest_frt.lab.canary import Canary, peak_bytes_s, synchronizer
from pytest_frt.lab.cold import Flush
from pytest_frt.lab.kept import OUTPUT
from pytest_frt.lab.wire import Channel, PeerGone, WireFault, number, word
from pytest_frt.spec import codec

if TYPE_CHECKING:
    from torch import Tensor

KEPT_ELEMENTS: Final = 1 << 22
"""Elements kept of an output, from its end: 16 positions of the largest vocabularies."""


class Clock:
    """The timed region, on references taken when it is made: before any impl module is imported.

    Every output is copied inside the region: work that a part puts off, to a thread, a stream or the first look at its
    answer, is then either done in time or missing in the copy.

    Args:
        device: torch device string.
    """

    def __init__(self, device: str) -> None:
        self._read: Callable[[], float] = time.perf_counter
        self._pause, self._resume = gc.disable, gc.enable
        self._wait = synchronizer(device)
        self._flat, self._copy = torch.Tensor.flatten, torch.Tensor.clone

    def time(self, executions: Sequence[Callable[[], Tensor]]) -> tuple[float, list[Tensor]]:
        """Run executions back to back and return the seconds and the end of each output, flattened."""
        self._wait()
        self._pause()
        try:
            began = self._read()
            copies = [self._copy(self._flat(execute())[-KEPT_ELEMENTS:]) for execute in executions]
            self._wait()
            return self._read() - began, copies
        finally:
            self._resume()


class TimingWorker:
    """Answers the judge's messages.

    Args:
        job: The timing job.
    """

    def __init__(self, job: TimingJob) -> None:
        self._job = job
        self._clock = Clock(job.host.request.device)
        self._canary = Canary(job.host.request.device)
        self._flush = Flush(job.host.request.device) if job.cache == COLD else None
        self._arms: Arms | None = None
        self._instance = 0
        self._copies: list[Tensor] = []
        self._drawn: list[Callable[[], Tensor]] = []

    def load(self, order: Sequence[str]) -> dict[str, Any]:
        """Build everything."""
        torch.set_num_threads(1)
        arms = self._arms = Arms(self._job, order)
        torch.set_num_threads(self._job.host.threads)
        gc.collect()
        gc.freeze()
        return {"seats": {name: arms.seats(name) for name in arms.names}}

    def warm(self, name: str, phase: str, runs: int) -> dict[str, Any]:
        """Run an arm ``runs`` times."""
        self._bound().switch(name)
        for turn in range(runs):
            self._bound().calls(0 if name == BASE else 1, phase, turn % self._job.states, turn, 1)[0]()
        return {"warm": runs}

    def arm(self, name: str, instance: int, cycle: str) -> dict[str, Any]:
        """Switch and time the canary."""
        self._copies = []
        self._instance = instance
        self._bound().switch(name, cycle)
        return {"canary_s": self._canary.seconds()}

    def settle(self, phase: str, state: int, repeats: int, content: int) -> dict[str, Any]:
        """Run the arm as often as a region does."""
        for execute in self._bound().calls(self._instance, phase, state, content, repeats):
            execute()
        return {"settled": repeats}

    def draw(self, phase: str, state: int, repeats: int, content: int) -> dict[str, Any]:
        """Draw the values of the region that comes next."""
        self._drawn = self._bound().calls(self._instance, phase, state, content, repeats)
        if self._flush:
            self._flush.run()
        return {"drawn": repeats}

    def go(self) -> dict[str, Any]:
        """Time one region, once."""
        if not self._drawn:
            raise WireFault("go before anything was drawn")
        seconds, self._copies = self._clock.time(self._drawn)
        self._drawn = []
        return {"worker_s": seconds}

    def keep(self, name: str, index: int) -> dict[str, Any]:
        """Write the copied output of one execution as float32."""
        if not 0 <= index < len(self._copies):
            raise WireFault(f"keep {index} of a region with {len(self._copies)} executions")
        copied = self._copies[index]
        if type(copied) is not torch.Tensor:
            raise EvidenceError(f"the timed output is a {type(copied).__name__}, whose values need not exist yet")
        save_file({OUTPUT: copied.detach().float().cpu().contiguous()}, Path(self._job.out, name))
        return {"kept": name}

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one message.

        Raises:
            WireFault: an unknown operation or a missing field.
        """
        match word(message, "op"):
            case "load":
                return self.load(message["order"])
            case "warm":
                return self.warm(word(message, "arm"), word(message, "phase"), int(number(message, "runs")))
            case "arm":
                return self.arm(word(message, "arm"), int(number(message, "instance")), word(message, "cycle"))
            case "settle" | "draw" as step:
                state, repeats, content = (int(number(message, name)) for name in ("state", "repeats", "content"))
                prepare = self.settle if step == "settle" else self.draw
                return prepare(word(message, "phase"), state, repeats, content)
            case "go":
                return self.go()
            case "peak":
                return {"bytes_s": peak_bytes_s(self._job.host.request.device)}
            case "keep":
                return self.keep(word(message, "name"), int(number(message, "index")))
            case other:
                raise WireFault(f"operation {other!r} is none of load, warm, arm, settle, draw, go, peak, keep")

    def _bound(self) -> Arms:
        if self._arms is None:
            raise WireFault("an operation came before load")
        return self._arms


@torch.no_grad()
def serve(channel: Channel) -> None:
    """Answer until the judge closes the channel. An error raised on purpose is told; any other ends the process."""
    message = channel.receive()
    job = codec.loads(cast("type[Job]", Job), word(message, "job"))
    if not isinstance(job, TimingJob):
        raise WireFault(f"a timing process was given a {type(job).__name__}")
    torch.set_num_threads(job.host.threads)
    Path(job.out).mkdir(parents=True, exist_ok=True)
    worker = TimingWorker(job)
    while True:
        try:
            reply = worker.answer(message)
        except FrtError as fault:
            reply = {"fault": {"code": fault.code, "message": fault.message, "hint": fault.hint}}
        channel.send(reply)
        message = channel.receive()


def main(arguments: Sequence[str]) -> int:
    """Serve one judge and return the exit status."""
    parser = argparse.ArgumentParser(prog="pytest_frt.lab.timing_worker")
    parser.add_argument("--fd", type=int, required=True)
    channel = Channel.adopt(parser.parse_args(arguments).fd)
    confine.be_first_to_go()
    reaper.die_with_parent()  # a judge that was killed may leave it in the middle of minutes of loading
    try:
        serve(channel)
    except PeerGone:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
