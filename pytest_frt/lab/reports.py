"""What became of a job: a closed type, and how it travels from the server to the judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pytest_frt.contracts.verdict import Crashed
from pytest_frt.errors import EvidenceError, FrtError
from pytest_frt.lab.wire import WireFault, word
from pytest_frt.spec import codec

TAIL_LINES: Final = 40
"""Lines of a worker's stderr kept in a report: a Python traceback with its cause fits."""
_TAIL_BYTES: Final = 8192


@dataclass(frozen=True, slots=True)
class Done:
    """The job filled ``out`` and left nothing running."""

    out: str
    seconds: float


@dataclass(frozen=True, slots=True)
class CrashedJob:
    """The worker died before it completed the job.

    Attributes:
        status: Exit status, or minus the signal's number.
        cause: The same in words.
        stderr: Last lines of its stderr.
    """

    status: int
    cause: str
    stderr: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The worker and everything it had started was killed after ``seconds``."""

    seconds: float
    stderr: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Orphans:
    """The worker ended and left processes behind; they were killed."""

    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Faulted:
    """The job raised an error of this project on purpose, e.g. an absent kernel or an unreadable checkpoint."""

    code: str
    message: str
    hint: str

    def error(self) -> FrtError:
        """Return the error as its own class, so that the judge can raise it with its exit code."""
        kinds = {kind.code: kind for kind in _error_kinds(FrtError)}
        kind = kinds.get(self.code, FrtError)
        fault = FrtError(self.message, hint=self.hint)
        return kind(self.message, hint=self.hint) if kind.__init__ is FrtError.__init__ else fault


def _error_kinds(base: type[FrtError]) -> Iterator[type[FrtError]]:
    yield base
    for kind in base.__subclasses__():
        yield from _error_kinds(kind)


JobReport = Done | CrashedJob | TimedOut | Orphans | Faulted
_KINDS: Final[Mapping[str, type[JobReport]]] = {
    kind.__name__: kind for kind in (Done, CrashedJob, TimedOut, Orphans, Faulted)
}


def to_message(report: JobReport) -> dict[str, Any]:
    """Return a report as a JSON object that names its type."""
    return {"type": type(report).__name__, **asdict(report)}


def from_message(message: Mapping[str, Any]) -> JobReport:
    """Read a report back.

    Raises:
        WireFault: the type or a field is unknown or absent.
    """
    kind = _KINDS.get(word(message, "type"))
    if kind is None:
        raise WireFault(f"report type {message['type']!r} is not one of {', '.join(_KINDS)}")
    try:
        return codec.from_json(kind, {name: value for name, value in message.items() if name != "type"})
    except EvidenceError as fault:
        raise WireFault(fault.message) from fault


def crashed(gate: str, report: CrashedJob | TimedOut | Orphans) -> Crashed:
    """Return the verdict a gate gives for a job that did not complete."""
    match report:
        case CrashedJob(cause=cause, stderr=stderr):
            return Crashed(gate, "CRASH", "\n".join((cause, *stderr)))
        case TimedOut(seconds=seconds, stderr=stderr):
            return Crashed(gate, "TIMEOUT", "\n".join((f"no result after {seconds:.0f} s", *stderr)))
        case Orphans(pids=pids):
            left = ", ".join(map(str, pids))
            return Crashed(gate, "CRASH", f"the worker left {len(pids)} running processes behind: {left}")


def tail(path: Path) -> tuple[str, ...]:
    """Return the last lines of a log that code under test may have filled; empty when there is none."""
    if not path.is_file():
        return ()
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return tuple(log.read(_TAIL_BYTES).decode(errors="replace").splitlines()[-TAIL_LINES:])
