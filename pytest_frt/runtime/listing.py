"""Many seats in few words: paths that differ in one number are shown as one path with ranges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
FEWEST = 3
"""Paths that are drawn together; fewer read better as they are."""


def ranges(numbers: Iterable[int]) -> str:
    """Return sorted numbers as ``0..3,5``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs)


def listed(seats: Sequence[str]) -> str:
    """Return seat ids in their order, those that differ only in their first number as ``layers.{0..17}.mlp``."""
    groups: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for seat in seats:
        found = NUMBER.search(seat)
        key = (seat[: found.start()], seat[found.end() :]) if found else (seat, "")
        groups.setdefault(key, []).append((int(found.group()) if found else -1, seat))
    words: list[str] = []
    for (head, tail), members in groups.items():
        if len(members) < FEWEST:
            words += [seat for _, seat in members]
        else:
            words.append(f"{head}{{{ranges(number for number, _ in members)}}}{tail} ({len(members)})")
    return ", ".join(words)
