"""Files of base-against-base timing: every pair of every process, compressed, as the lab's own evidence."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pytest_frt.contracts.timing import ProcessTiming, TimedPair, TimedSample, TimingEvidence
from pytest_frt.spec import codec

SCHEMA: Final = 1
NANO: Final = 9
"""Decimals of a second that a clock can tell."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One collection.

    Attributes:
        about: Host, regime, machine and software.
        timing: The evidence.
    """

    about: Mapping[str, Any]
    timing: TimingEvidence


def map_samples(timing: TimingEvidence, change: Callable[[TimedSample], TimedSample]) -> TimingEvidence:
    """Return the evidence with every sample of the blocks changed."""

    def pair(one: TimedPair) -> TimedPair:
        return replace(one, base=change(one.base), candidate=change(one.candidate))

    def process(one: ProcessTiming) -> ProcessTiming:
        return replace(one, blocks=tuple((pair(first), pair(second)) for first, second in one.blocks))

    return replace(timing, processes=tuple(map(process, timing.processes)))


def _rounded(sample: TimedSample) -> TimedSample:
    seconds = (round(value, NANO) for value in (sample.worker_s, sample.judge_s, sample.canary_s))
    return TimedSample(sample.arm, sample.state, *seconds)


def write(path: Path, recording: Recording) -> None:
    """Write a recording; the same one gives the same bytes."""
    told = {
        "schema": SCHEMA,
        "about": dict(recording.about),
        "timing": codec.to_json(map_samples(recording.timing, _rounded)),
    }
    text = json.dumps(told, separators=(",", ":"), sort_keys=True, allow_nan=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def read(path: Path) -> Recording:
    """Read a recording back.

    Raises:
        ValueError: another schema.
        EvidenceError: the evidence is damaged.
    """
    told = json.loads(gzip.decompress(path.read_bytes()))
    if told.get("schema") != SCHEMA:
        raise ValueError(f"{path} has schema {told.get('schema')!r}, this reads {SCHEMA}")
    return Recording(told["about"], codec.from_json(TimingEvidence, told["timing"]))
