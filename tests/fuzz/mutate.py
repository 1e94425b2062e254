"""Mutations that keep a document a document: most random bytes never get past a parser."""

from __future__ import annotations

import copy
import json
import random
import re
from typing import Any, Final

ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2**53 - 1, "", "0", "-0", "0.5", "1e5", "NaN", "x", "a/b", "../x", "é", "\u202e",
    "2026-11-29T00:00:00Z", "2027-02-30T00:00:00Z", "a" * 64, "0:1.5", "max", "median", "frt_nw_1", ">=", "<=", [], {},
    ["torch"], {"sha256": "a" * 64},
)  # fmt: skip
_WORD: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_.]{2,40}")


def words(seeds: list[bytes]) -> list[str]:
    """Return the words of documents as a dictionary for the engine."""
    found = {word.decode() for seed in seeds[:200] for word in _WORD.findall(seed[:20_000])}
    return [f'"{word}"' for word in sorted(found)[:400]]


def document(data: bytes, seed: int) -> bytes | None:
    """Return JSON with one to three nodes changed; None when ``data`` is none."""
    try:
        root = json.loads(data)
    except (ValueError, RecursionError):
        return None
    choose = random.Random(seed)  # noqa: S311 (repeatable, no secret)
    for _ in range(choose.randint(1, 3)):
        places = _places(root)
        if not places:
            return None
        _change(*choose.choice(places), choose)
    return json.dumps(root, separators=(",", ":"), ensure_ascii=choose.random() < 0.5).encode("utf-8", "surrogatepass")


def lines(data: bytes, seed: int) -> bytes:
    """Return text with lines doubled, dropped, swapped, or a value replaced."""
    choose = random.Random(seed)  # noqa: S311 (repeatable, no secret)
    found = data.split(b"\n")
    at, other = choose.randrange(len(found)), choose.randrange(len(found))
    match choose.randrange(4):
        case 0:
            found.insert(other, found[at])
        case 1:
            del found[at]
        case 2:
            found[at], found[other] = found[other], found[at]
        case _:
            name, equals, _ = found[at].partition(b"=")
            found[at] = name + equals + json.dumps(choose.choice(ODD)).encode()
    return b"\n".join(found)


def _places(root: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    todo = [root]
    while todo and len(found) < 5_000:
        item = todo.pop()
        keys = range(len(item)) if isinstance(item, list) else list(item) if isinstance(item, dict) else ()
        found += [(item, key) for key in keys]
        todo += [item[key] for key in keys]
    return found


def _change(holder: Any, key: Any, choose: random.Random) -> None:
    match choose.randrange(5):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        case 1 | 2 if isinstance(holder, dict):
            holder[choose.choice([key.upper(), key + "x", "crit", "name"])] = copy.deepcopy(holder[key])
        case _:
            holder[key] = copy.deepcopy(choose.choice(ODD))
