"""Impls of the toy host that want to win time which they do not save: each is an honest impl and a trick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_frt.spec.modules import load_file

toy: Any = load_file(Path(__file__).parents[1] / "lab" / "toy.py")


@dataclass(frozen=True)
class Timed:
    """One trick and what must become of it.

    Attributes:
        word: Outcome word.
        guard: What decides: a guard of the timing, ``witness``, ``process`` or ``rule``.
        top: What the module does after the honest impl is defined.
        turns: How often the honest impl works; the base works three times.
        alone: The trick harms other arms of its process.
    """

    word: str
    guard: str
    top: str
    turns: int = 3
    alone: bool = False

    def source(self, name: str) -> str:
        """Return the text of the impl module."""
        text: str = toy.IMPL.format(name=name, turns=self.turns, spoil="")
        return f"{text}\nimport gc, os, sys, threading, time\nhonest, answers = Part.forward, {{}}\n{self.top}"


AS_LONG: Final = "    time.sleep(3e-4)  # as long as honest work, so that regions stay short\n"
IN_A_REGION: Final = """
def region():
    frame = sys._getframe()
    while frame and "executions" not in frame.f_locals:
        frame = frame.f_back
    return frame and frame.f_locals["executions"]
"""
ENTRIES: Final[Mapping[str, Timed]] = {
    "replays_by_shape": Timed(
        "INVALID_RUN",
        "outputs",
        f"def replay(self, x):\n{AS_LONG}"
        "    return answers.setdefault(x.shape, None) if x.shape in answers else answers.setdefault(\n"
        "        x.shape, honest(self, x))\n"
        "Part.forward = replay",
    ),
    "replays_by_fingerprint": Timed(
        "INVALID_RUN",
        "outputs",
        f"def replay(self, x):\n{AS_LONG}    seen = int(x.flatten()[0])\n"
        "    if seen not in answers: answers[seen] = honest(self, x)\n"
        "    return answers[seen]\n"
        "Part.forward = replay",
    ),
    "wrong_when_timed": Timed(
        "INVALID_RUN",
        "outputs",
        IN_A_REGION + f"def fast(self, x):\n{AS_LONG}    return torch.zeros_like(x) if region() else honest(self, x)\n"
        "Part.forward = fast",
    ),
    "works_for_the_last_alone": Timed(
        "INVALID_RUN",
        "outputs",
        IN_A_REGION
        + f"""
calls = []
def last(self, x):
{AS_LONG}    region() and calls.append(1)
    if not region() or len(calls) == len(region()):
        calls.clear()
        return honest(self, x)
    return torch.zeros_like(x)
Part.forward = last
""",
    ),
    "works_afterwards": Timed(
        "INVALID_RUN",
        "outputs",
        IN_A_REGION
        + f"""
def fill(out, self, x):
    time.sleep(0.02)
    with torch.no_grad():
        out.copy_(honest(self, x))
def late(self, x):
    if not region():
        return honest(self, x)
{AS_LONG}    out = torch.zeros_like(x)
    threading.Thread(target=fill, args=(out, self, x)).start()
    return out
Part.forward = late
""",
    ),
    "foresees": Timed(
        "CORRECT_NOT_FASTER",
        "rule",
        IN_A_REGION
        + """
def ahead(like):
    frame = sys._getframe()
    while frame:
        if {"content", "repeats"} <= frame.f_locals.keys():
            content = frame.f_locals["content"]
            seeds = () if content in answers else range(content, content + frame.f_locals["repeats"])
            answers[content] = None
            return [torch.randn(like.shape, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
        frame = frame.f_back
    return []
def foresee(self, x):
    if not region():
        answers.update((one.numpy().tobytes(), honest(self, one)) for one in ahead(x))
        return honest(self, x)
    return answers[seen] if (seen := x.numpy().tobytes()) in answers else honest(self, x)
Part.forward = foresee
""",
        turns=9,
    ),
    "keeps_answers": Timed("CORRECT_NOT_FASTER", "rule", toy.KEEP_ANSWERS, turns=9),
    "patches_the_clock": Timed(
        "CORRECT_NOT_FASTER", "rule", "time.perf_counter = time.monotonic = lambda: 0.0", turns=9
    ),
    "patches_the_event": Timed(
        "CORRECT_NOT_FASTER", "rule", "torch.cuda.Event.elapsed_time = lambda *_: 1e-6", turns=9
    ),
    "lies": Timed("INVALID_RUN", "clock", toy.HALVE_THE_CLOCK, alone=True),
    "sleeps_in_base_and_fixes_the_canary": Timed(
        "INVALID_RUN",
        "witness",
        toy.SLEEP_IN_BASE + "from pytest_frt.lab.canary import Canary\nCanary.seconds = lambda self: 1e-3",
        alone=True,
    ),
    "slows_an_op_it_does_not_use": Timed(
        "INVALID_RUN",
        "witness",
        """
LIBRARY = torch.library.Library("aten", "IMPL")
def slow(left, right):
    time.sleep(1e-3)
    return torch.addmm(torch.zeros(left.shape[0], right.shape[1]), left, right)
LIBRARY.impl("mm", slow, "CPU")
def forward(self, x):
    for _ in range(3):
        y = torch.addmm(torch.zeros(x.shape[-2], self.w.shape[0]), x.flatten(0, -2), self.w.t())
    return y.view(*x.shape[:-1], -1)
Part.forward = forward
""",
        alone=True,
    ),
    "exits_when_timed": Timed(
        "CRASH",
        "process",
        "calls = []\ndef dying(self, x):\n    calls.append(1)\n"
        "    return os._exit(0) if len(calls) > 9 else honest(self, x)\n"
        "Part.forward = dying",
        alone=True,
    ),
    "works_in_a_helper": Timed(
        "CRASH",
        "process",
        "from pytest_frt.lab import reaper\nif not os.fork():\n    reaper.die_with_parent()\n    time.sleep(600)",
        alone=True,
    ),
}
HONEST: Final = "twice_as_fast"
SOUND: Final[Mapping[str, Timed]] = {HONEST: Timed("CERTIFIED", "rule", "", turns=1)}
