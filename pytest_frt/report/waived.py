"""What became of each waiver in a run: which were used, and which a strict run fails for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from itertools import product
from typing import Any, Final

from pytest_frt.contracts.verdict import NotRun, Verdict
from pytest_frt.errors import WaiverFault
from pytest_frt.registry import Registry, did_you_mean
from pytest_frt.report.collected import Collected
from pytest_frt.report.told import fails, word
from pytest_frt.run.plan import RunPlan
from pytest_frt.waivers import Waiver

FORMS: Final = ("eager", "compiled", "captured")
CACHES: Final = ("hot", "cold")
SHOWN: Final = 3
"""Subjects that a sentence names; the JSON report holds all."""


class State(StrEnum):
    """How a waiver ended."""

    USED = "used"
    UNREACHED = "unreached"
    ELSEWHERE = "elsewhere"
    EXPIRED = "expired"
    UNMATCHED = "unmatched"
    NEEDLESS = "needless"


FAILING: Final = frozenset({State.EXPIRED, State.UNMATCHED, State.NEEDLESS})


@dataclass(frozen=True, slots=True)
class Standing:
    """One waiver at the end of a run.

    Attributes:
        waiver: The entry.
        state: How it ended.
        subjects: Record key ids or union names that the state is about.
        detail: Sentence for people.
    """

    waiver: Waiver
    state: State
    subjects: tuple[str, ...]
    detail: str

    @property
    def fault(self) -> WaiverFault | None:
        """What the run fails with; None where the waiver stands."""
        if self.state not in FAILING:
            return None
        text = f"{self.waiver.place} of {self.waiver.owner} (gate {self.waiver.gate}, {self.waiver.url}): {self.detail}"
        hint = "renew or remove it" if self.state is State.EXPIRED else "correct, narrow or remove it"
        return WaiverFault(text, hint=hint)

    def json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        one = self.waiver
        return {
            "owner": one.owner,
            "reason": one.reason,
            "url": one.url,
            "gate": one.gate,
            "record": list(one.record),
            "cell": list(one.cell),
            "device": list(one.device),
            "scheme": list(one.scheme),
            "expires": one.expires.isoformat(),
            "until": one.until,
            "state": self.state.value,
            "subjects": list(self.subjects),
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class World:
    """What waivers are held against.

    Attributes:
        plan: What the run was to judge.
        registry: What is installed: a waiver for a cell that this run left out is not unmatched.
        collected: What items told.
    """

    plan: RunPlan
    registry: Registry
    collected: Collected

    def standing(self, waiver: Waiver, today: date, version: str) -> Standing:
        """Judge one waiver."""
        names = [*(one.id for one in self.plan.records), *self.plan.aside, *(one.name for one in self.plan.unions)]
        covered = [name for name in names if waiver.covers(name)]
        if why := waiver.over(today, version):
            return Standing(waiver, State.EXPIRED, tuple(covered), why)
        if not covered:
            return self._unplanned(waiver, names)
        verdicts = {name: self._verdict(name, waiver.gate) for name in covered}
        needless = {name: one for name, one in verdicts.items() if one is not None and not fails(one)}
        if needless:
            told = "; ".join(_needless(name, waiver.gate, one) for name, one in list(needless.items())[:SHOWN])
            return Standing(waiver, State.NEEDLESS, tuple(needless), f"{told} ({len(needless)} of {len(covered)})")
        used = tuple(name for name, one in verdicts.items() if one is not None)
        if not used:
            return Standing(waiver, State.UNREACHED, tuple(covered), f"gate {waiver.gate} was not reached")
        return Standing(waiver, State.USED, used, f"{len(used)} of {len(covered)} covered failed gate {waiver.gate}")

    def _unplanned(self, waiver: Waiver, names: Sequence[str]) -> Standing:
        cells = (f"{row.cell.id}@*" for row in self.plan.not_supported)
        if any(waiver.covers(name) for name in (*cells, *_known(self.registry))):
            return Standing(waiver, State.ELSEWHERE, (), "it is about records that this run does not judge")
        glob = waiver.globs[0]
        why = f"{', '.join(waiver.globs)} on device {', '.join(waiver.device)}, scheme {', '.join(waiver.scheme)}"
        near = did_you_mean(glob, names).partition("? ")[0]
        return Standing(waiver, State.UNMATCHED, (), f"{why} match nothing; {near}")

    def _verdict(self, subject: str, gate: str) -> Verdict | None:
        """Return what a gate said, None when it was not reached."""
        if (united := self.collected.unions.get(subject)) is not None:
            found: Verdict = united.verdict
        elif (result := self.collected.gates.get(subject, {}).get(gate)) is not None:
            found = result.verdict
        else:
            return None
        return None if isinstance(found, NotRun) else found


def _needless(name: str, gate: str, verdict: Verdict) -> str:
    said = word(verdict)
    return f"gate {gate} of {name} ended in {said}, which fails no run" if said else f"gate {gate} of {name} passes"


def _known(registry: Registry) -> Iterator[str]:
    """Yield every record key id and union name that any selection could plan."""
    for host, device in product(registry.hosts.values(), registry.devices):
        spec = host.spec
        phases = [phase.name for phase in spec.phases]
        tails = [".".join(parts) for parts in product(FORMS, phases, spec.sizes, CACHES)]
        yield from (f"{spec.name}-{device}@{tail}" for tail in tails)
        for entry in registry.impls.values():
            for scheme, tail in product(entry.impl.schemes, tails):
                yield f"{entry.impl.structure}-{entry.impl.name}-{spec.name}-{scheme}-{device}@{tail}"


def standings(waivers: Sequence[Waiver], world: World, today: date, version: str) -> tuple[Standing, ...]:
    """Judge every waiver of a run."""
    return tuple(world.standing(waiver, today, version) for waiver in waivers)
