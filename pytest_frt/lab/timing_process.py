"""The judge's handle on one timing process: commands, the judge's own clock, and what became of the process."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_frt.contracts.job import TimingJob
from pytest_frt.contracts.timing import TimedSample
from pytest_frt.contracts.verdict import Crashed
from pytest_frt.errors import EvidenceError
from pytest_frt.lab.launch import describe_exit, launch
from pytest_frt.lab.machine import Resident
from pytest_frt.lab.reports import tail
from pytest_frt.lab.wire import PeerGone, PeerSilent, WireFault, number, word
from pytest_frt.spec import codec

BASE: Final = "base"
GATE: Final = "net_win"
CONTENT_BITS: Final = 48
"""Bits of what draws the values of a region: a JSON number carries them exactly, and no two regions share them."""


class ProcessLost(EvidenceError):
    """A timing process died, hung, broke the protocol or raised an error on purpose.

    Args:
        kind: ``CRASH`` or ``TIMEOUT``.
        detail: What was seen, with the end of its log.
    """

    code = "TIMING_PROCESS"

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind

    def verdict(self) -> Crashed:
        """Return it as evidence of the net-win gate."""
        return Crashed(GATE, self.kind, self.message)


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds a timing process may take.

    Attributes:
        load_s: For imports, building the host and binding, or for warming an arm up.
        step_s: For one switch or one timed region.
    """

    load_s: float = 600.0
    step_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Turn:
    """What one sample runs.

    Attributes:
        arm: Arm name.
        phase: Row regime.
        instance: Prepared instance of the inputs.
        cycle: Arm attached and detached on the way; empty for none.
    """

    arm: str
    phase: str
    instance: int
    cycle: str = ""


class TimingProcess:
    """A freshly exec'ed timing process.

    Args:
        job: What it loads; ``out`` is its own folder.
        environment: Scrubbed environment.
        limits: Time limits.
        warmup: Untimed executions of each arm in each phase before its first timed one.
    """

    def __init__(self, job: TimingJob, environment: Mapping[str, str], limits: Limits, warmup: int = 1) -> None:
        self.job = job
        self._limits, self._warmup = limits, warmup
        self._warm: set[tuple[str, str]] = set()
        self._kept = 0
        out = Path(job.out)
        out.mkdir(parents=True, exist_ok=True)
        self._launched = launch("pytest_frt.lab.timing_worker", (), environment=environment, log=out / "timing.log")

    def begin_load(self, order: Sequence[str]) -> None:
        """Tell it to load its arms in ``order``; :meth:`end_load` waits for it."""
        message = {"op": "load", "job": codec.dumps(self.job), "order": list(order)}
        with self._heard():
            self._launched.channel.send(message)

    def end_load(self) -> None:
        """Wait until everything is built.

        Raises:
            ProcessLost: it died, hung, or an arm cannot be bound.
        """
        self._receive(self._limits.load_s)

    def warm(self, *turns: Turn) -> None:
        """Run arms untimed unless they were; compiled code is made here.

        Raises:
            ProcessLost: it died or hung.
        """
        for turn in turns:
            if (turn.arm, turn.phase) not in self._warm:
                with self._heard():
                    self._launched.channel.send(
                        {"op": "warm", "arm": turn.arm, "phase": turn.phase, "runs": self._warmup}
                    )
                self._receive(self._limits.load_s)
                self._warm.add((turn.arm, turn.phase))

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._launched.process.pid

    def resident(self) -> Resident:
        """Return its memory."""
        return Resident.of(self.pid)

    def sample(self, turn: Turn, state: int, repeats: int, content: int) -> TimedSample:
        """Switch, settle and draw untimed, then time one region on both clocks.

        Args:
            turn: What runs.
            state: Prepared input.
            repeats: Executions of the region.
            content: Draws the values they run on.

        Raises:
            ProcessLost: it died, hung or broke the protocol.
        """
        ready = self._ask({"op": "arm", "arm": turn.arm, "instance": turn.instance, "cycle": turn.cycle})
        region = {"phase": turn.phase, "state": state, "repeats": repeats}
        # What draws the region's values is told once the arm's own code has had its untimed runs.
        self._ask({"op": "settle", **region, "content": secrets.randbits(CONTENT_BITS)})
        self._ask({"op": "draw", **region, "content": content})
        began = time.perf_counter()
        done = self._ask({"op": "go"})
        judge_s = time.perf_counter() - began
        with self._heard():
            return TimedSample(turn.arm, state, number(done, "worker_s"), judge_s, number(ready, "canary_s"))

    def keep(self, index: int = 0) -> Path:
        """Have the output of one execution of the last region written and return the file.

        Args:
            index: Which execution, from 0.

        Raises:
            ProcessLost: it died, hung or broke the protocol.
        """
        self._kept += 1
        name = f"kept.{self._kept}.safetensors"
        self._ask({"op": "keep", "name": name, "index": index})
        return Path(self.job.out, name)

    def peak(self) -> float:
        """Return the most bytes per second that it can move on its device.

        Raises:
            ProcessLost: it died, hung or broke the protocol.
        """
        done = self._ask({"op": "peak"})
        with self._heard():
            return number(done, "bytes_s")

    def close(self) -> None:
        """Kill the process: it has nothing left to write; idempotent."""
        self._launched.kill()

    def lost(self, kind: str, detail: str) -> ProcessLost:
        """Kill the process and return what happened as an error, with the end of its log."""
        self._launched.kill()
        return ProcessLost(kind, "\n".join((detail, *tail(self._launched.log))))

    def _ask(self, message: Mapping[str, object]) -> dict[str, Any]:
        with self._heard():
            self._launched.channel.send(message)
        return self._receive(self._limits.step_s)

    def _receive(self, limit_s: float) -> dict[str, Any]:
        with self._heard():
            reply = self._launched.channel.receive(limit_s)
            fault = reply.get("fault")
            if fault is None:
                return reply
            if not isinstance(fault, dict):
                raise WireFault("a fault is no object")
            said = f"[{word(fault, 'code')}] {word(fault, 'message')}"
        raise self.lost("CRASH", said)

    @contextmanager
    def _heard(self) -> Iterator[None]:
        try:
            yield
        except PeerSilent as fault:
            raise self.lost("TIMEOUT", f"timing process: {fault.message}") from fault
        except PeerGone as fault:
            raise self.lost("CRASH", f"timing process ended: {describe_exit(self._launched.end())}") from fault
        except WireFault as fault:
            raise self.lost("CRASH", f"timing process broke the protocol: {fault.message}") from fault
