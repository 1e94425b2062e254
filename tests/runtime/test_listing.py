"""Seats in few words, none lost."""

from __future__ import annotations

import pytest

from pytest_frt.runtime.listing import listed


@pytest.mark.parametrize(
    ("seats", "words"),
    [
        (["a.0.mlp", "a.1.mlp"], "a.0.mlp, a.1.mlp"),
        ([f"a.{i}.mlp" for i in range(18)], "a.{0..17}.mlp (18)"),
        (["a.2.mlp", "a.0.mlp", "a.1.mlp", "a.5.mlp"], "a.{0..2,5}.mlp (4)"),
        (["a.0.x", "a.1.x", "a.2.x", "lm_head"], "a.{0..2}.x (3), lm_head"),
        (["a.0.b.0", "a.0.b.1", "a.0.b.2"], "a.0.b.0, a.0.b.1, a.0.b.2"),
        (["fc1", "fc2", "fc3"], "fc1, fc2, fc3"),
    ],
    ids=["two", "all", "gap", "mixed", "second_number", "no_number_of_its_own"],
)
def test_paths_that_differ_in_one_number_share_a_word(seats: list[str], words: str) -> None:
    assert listed(seats) == words
