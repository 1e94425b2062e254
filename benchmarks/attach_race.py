"""Attach while two processes rewrite kernel, impl, host entry, certificates and policy: do wrong bytes ever run?

Each try is a process forked from a warm one, in which nothing of the world is loaded yet. It attaches, and reports what
code was executed by the notes that the executed files leave themselves. A try may end in two ways: everything that ran
is certified, or nothing was activated and the refusal has a code.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import race_world
import torch

from pytest_frt.errors import CertificateRefused, FrtError
from pytest_frt.registry import Registry
from pytest_frt.seat.jit_caches import jit_caches
from pytest_frt.spec.modules import load_file

RESULT: Final = Path(__file__).resolve().parent / "results" / "attach_race.md"
REWRITERS: Final = 2
ACTIVE: Final = "activated"
UNCODED: Final = "no code"


@dataclass(frozen=True, slots=True)
class Try:
    """How one try ended.

    Attributes:
        end: ``activated``, a refusal code or ``no code``.
        ran: Notes of executed code.
        right: The model answers as it must after that end.
        fault: What is told of an end without a code.
    """

    end: str
    ran: list[str]
    right: bool = True
    fault: str = ""


@dataclass(slots=True)
class Tally:
    """What the tries ended in.

    Attributes:
        ends: ``activated``, a refusal code or ``no code``, and how often.
        executed: Notes of executed code, and in how many tries.
        wrong: Tries in which code ran that is not certified, or that answered as no certified code does.
        faults: Text of what has no code.
        seconds: Time of all tries.
    """

    ends: Counter[str] = field(default_factory=Counter)
    executed: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, found: Try) -> None:
        """Count one try."""
        self.ends[found.end] += 1
        self.executed.update(set(found.ran))
        hostile = [note for note in found.ran if not note.startswith(race_world.GOOD)]
        if hostile or not found.right:
            self.wrong.append(f"{found.end}: {', '.join(hostile) or 'answers differ'}")
        if found.end == UNCODED:
            self.faults.append(found.fault)

    @property
    def sound(self) -> bool:
        """True when no wrong byte ran, every refusal had a code, and both ways to end were seen."""
        coded = sum(count for end, count in self.ends.items() if end not in {ACTIVE, UNCODED})
        return not self.wrong and not self.faults and self.ends[ACTIVE] > 0 and coded > 0


def attempt(world: Any) -> Try:  # noqa: ANN401
    """Attach once in this process and return how it ended and what ran.

    Raises:
        Exception: what has no code.
    """
    right = True
    try:
        handle = world_attach(world)
        x = torch.ones(2, 8)
        gain = 2 if handle.active else 1
        right = torch.allclose(world.model.blocks[0](x), gain * world.twin.blocks[0](x), atol=1e-6)
        codes = sorted({one.code for one in (*handle.seats, *handle.refused)} - {"", "NOT_CERTIFIED"})
        end = ACTIVE if handle.active else " ".join(codes) or UNCODED
    except CertificateRefused as refusal:
        end = refusal.refusal_code
    except FrtError as refusal:
        end = refusal.code
    return Try(end, race_world.ran(), right, "nothing was activated and nothing was refused" if end == UNCODED else "")


def world_attach(world: Any) -> Any:  # noqa: ANN401
    """Attach as a deployer does: the policy is the file that lies there now."""
    from pytest_frt import attach

    builds = {"acme/toy": world.root / "kernel"}
    trust = world.root / "trust.toml"
    return attach(world.model, certificates=world.out, trust=trust, now=world.now, kernels=builds, state=False)


def forked(work: Callable[[], Try]) -> Try:
    """Run ``work`` in a child process and return its answer; what it raises, or dies of, has no code."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        found: Try | None = None
        try:
            found = work()
        finally:
            try:
                if found is None:
                    found = Try(UNCODED, race_world.ran(), fault=traceback.format_exc())
                with os.fdopen(writer, "w") as pipe:
                    json.dump(asdict(found), pipe)
            finally:
                os._exit(0)  # the child ends here, whatever was raised
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if status or not text:
        return Try(UNCODED, [], fault=f"the process ended with status {status}")
    return Try(**json.loads(text))


def race(tries: int, seed: int, *, library: bool = True, until_wrong: bool = False) -> Tally:
    """Attach ``tries`` times while files are exchanged.

    Args:
        tries: Processes that attach, one after the other.
        seed: Of the exchanges.
        library: Race for a compiled library as well.
        until_wrong: End with the first try in which a wrong byte ran.
    """
    torch.set_num_threads(1)  # threads do not survive a fork
    settings = load_file(race_world.TESTS / "conftest.py")
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder, _caches(Path(folder)):
        root = Path(folder)
        for name in ("warm", "raced", "spare"):
            (root / name).mkdir()
        warm, _ = race_world.build(root / "warm", settings, library=False)
        _serve(warm, settings)
        if (first := forked(lambda: attempt(warm))).end != ACTIVE:
            raise SystemExit(f"the world does not attach when it is left alone: {first}")
        world_attach(warm).detach()  # what is imported late is imported before the first fork
        vars(sys).pop("frt_ran", None)
        world, targets = race_world.build(root / "raced", settings, library=library)
        _serve(world, settings)
        start = time.monotonic()
        with race_world.rewriters(targets, root / "spare", seed, REWRITERS):
            for _ in range(tries):
                tally.add(forked(lambda: attempt(world)))
                if until_wrong and tally.wrong:
                    break
        tally.seconds = time.monotonic() - start
        last = forked(lambda: attempt(world))
        if last.end != ACTIVE or not last.right:
            raise SystemExit(f"the world does not attach once it is left alone again: {last}")
    return tally


def _serve(world: Any, settings: Any) -> None:  # noqa: ANN401
    world.now = settings.NOW
    Registry.load = classmethod(lambda _cls: world.registry)  # type: ignore[method-assign,assignment]


class _caches:  # noqa: N801 (a context manager)
    """Let compile caches and private copies lie in a folder of this run: forked processes clean nothing up."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._wanted = {name: str(folder / "jit" / name.lower()) for name in jit_caches({})}

    def __enter__(self) -> None:
        self._before = {name: os.environ.get(name) for name in self._wanted}
        os.environ.update(self._wanted)
        tempfile.tempdir = self._folder

    def __exit__(self, *_: object) -> None:
        for name, value in self._before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        tempfile.tempdir = None


def told(tally: Tally, tries: int, seed: int) -> str:
    """Return the report as Markdown."""
    run = f"`python benchmarks/attach_race.py --tries {tries} --seed {seed}`; {REWRITERS} processes rewrite"
    place = f"Python {platform.python_version()}, torch {torch.__version__}, {platform.system()}"
    wrong = f"{len(tally.wrong)} of {tries} tries executed anything that is not certified"
    ends = sorted(tally.ends.items(), key=lambda one: (one[0] != ACTIVE, -one[1]))
    lines = [
        "# Attaching while files are exchanged",
        "",
        f"{run}, {tally.seconds:.0f} s, {place}.",
        "",
        f"**{wrong}; {len(tally.faults)} ended without a code.**",
        "",
        "| end of a try | tries |",
        "|---|---|",
        *(f"| {end if end == ACTIVE else f'`{end}`'} | {count} |" for end, count in ends),
        "",
        "What was executed, as the executed files say themselves:",
        "",
        "| content | tries |",
        "|---|---|",
        *(f"| {note} | {count} |" for note, count in sorted(tally.executed.items())),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Race, write the report, and return 1 when a wrong byte ran or an end had no code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULT, help="report (default: %(default)s)")
    given = parser.parse_args(arguments)
    tally = race(given.tries, given.seed)
    report = told(tally, given.tries, given.seed)
    given.out.write_text(report, encoding="utf-8")
    print(report)
    for fault in (*tally.wrong, *tally.faults):
        print(fault, file=sys.stderr)
    return 0 if tally.sound else 1


if __name__ == "__main__":
    sys.exit(main())
