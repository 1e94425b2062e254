"""The catalogue is whole: every planted impl belongs to a test, has a word, and stands in the threat model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.contracts.verdict import Outcome
from pytest_frt.spec.modules import load_file

catalogue: Any = load_file(Path(__file__).with_name("catalogue.py"))
FEWEST = 30
MODULES = ("planted", "conduct", "reach", "timed")
ROW = re.compile(r"^\| (?P<tries>[^|]+) \| (?P<word>[^|]+) \| (?P<names>[^|]+) \|$", re.MULTILINE)


def word(one: Any) -> str:
    """Return the outcome word of an entry, with the reason of a refusal."""
    if hasattr(one, "word"):
        return f"{one.word}({one.guard})" if one.word == Outcome.INVALID_RUN else one.word
    return one.reason if one.reason in Outcome.__members__ else f"REFUSED({one.reason})"


def written(module: Any) -> Iterator[tuple[str, Any]]:
    """Yield every entry that a module writes down, by whatever name its group goes."""
    for value in list(vars(module).values()):
        if isinstance(value, Mapping):
            yield from ((name, one) for name, one in value.items() if hasattr(one, "source"))


def hostile() -> dict[str, str]:
    """Return every hostile entry and its word; a trick that is timed under a taken name is told apart."""
    judged = {**catalogue.REFUSED, **catalogue.HANGS}
    return {
        **{name: word(one) for name, one in judged.items()},
        **{f"{name} (timed)": word(one) for name, one in catalogue.TIMED.items()},
    }


@pytest.mark.parametrize("module", MODULES)
def test_every_entry_belongs_to_a_test(module: str) -> None:
    groups = (catalogue.SOUND, catalogue.REFUSED, catalogue.HANGS, catalogue.TIMED, catalogue.TIMED_SOUND)
    known = [id(one) for group in groups for one in group.values()]
    assert [name for name, one in written(getattr(catalogue, module)) if id(one) not in known] == []


def test_there_are_enough_and_no_word_is_certified() -> None:
    found = hostile()
    assert len(found) >= FEWEST
    assert [name for name, said in found.items() if said.startswith(Outcome.CERTIFIED)] == []


def test_no_name_is_given_twice() -> None:
    groups = (catalogue.SOUND, catalogue.REFUSED, catalogue.HANGS)
    assert sum(map(len, groups)) == len(catalogue.JUDGED)
    parts = (catalogue.conduct.ALL, catalogue.reach.ALL, catalogue.planted.REFUSED)
    assert sum(map(len, parts)) == len(catalogue.REFUSED)


def test_threat_model_names_every_entry_with_its_word(repository: Path) -> None:
    text = (repository / "docs" / "threat-model.md").read_text(encoding="utf-8")
    told = {
        name: row["word"].strip("` ")
        for row in ROW.finditer(text)
        for name in re.findall(r"`([a-z_]+(?: \(timed\))?)`", row["names"])
    }
    assert told == hostile()


def test_threat_model_says_how_many_there_are(repository: Path) -> None:
    text = (repository / "docs" / "threat-model.md").read_text(encoding="utf-8")
    assert f"{len(hostile())} hostile" in text
