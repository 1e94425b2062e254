"""The texts name no machine, no registry and no unfinished work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import check_words
import pytest

SLASH = "/"  # keeps the examples from being found in this file
WriteTree = Callable[[Mapping[str, str]], Path]


def test_this_tree_is_clean(repository: Path) -> None:
    assert check_words.check(repository) == []


@pytest.mark.parametrize(
    "words",
    [
        f"{SLASH}home{SLASH}someone{SLASH}x",
        f"see {SLASH}tmp{SLASH}x",
        "TO" + "DO: later",
        "https://py" + "pi.org",
    ],
    ids=["home_path", "scratch_path", "unfinished", "registry"],
)
@pytest.mark.parametrize("place", ["README.md", "pytest_frt/a.py", "docs/adr/a.md", "hosts/llama/host.yaml"])
def test_leftover_is_reported_with_its_line(write_tree: WriteTree, place: str, words: str) -> None:
    found = check_words.check(write_tree({place: f"fine\n{words}\n"}))
    assert len(found) == 1, found
    assert found[0].startswith(f"{place}:2 ")


@pytest.mark.parametrize(
    "text",
    [
        f"docs{SLASH}work{SLASH}plan",
        f"{{out}}{SLASH}tmp{SLASH}x",
        "a user-ag" + "ent header",
        f"https://host{SLASH}root{SLASH}x",
        f"~{SLASH}opt{SLASH}x",
    ],
)
def test_ordinary_text_passes(write_tree: WriteTree, text: str) -> None:
    assert check_words.check(write_tree({"README.md": text})) == []
