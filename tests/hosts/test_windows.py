"""Windows of real text: distinct, topics first, and computed without the tokenizer after the first time."""

from __future__ import annotations

from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from pytest_frt.errors import CheckpointError

windows: Any = import_module("pytest_frt.hosts._shared.windows")
TEXTS = {"b": "w1 w2 w3 w4 w5 w6 w7", "a": "w8 w9 w10 w11", "short": "w1 w2", "c": "w12 w13 w14 w15 w16"}


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    vocabulary = {"[UNK]": 0, "<s>": 1, "</s>": 2} | {f"w{i}": 10 + i for i in range(20)}
    made = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106 (no password)
    made.pre_tokenizer = Whitespace()
    made.enable_truncation(2)
    made.enable_padding(length=50)
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


@pytest.fixture(autouse=True)
def _topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "topics", TEXTS)


def draw(tokenizer: Path, **changes: Any) -> list[list[int]]:
    plain = {"first": "<s>", "last": "", "length": 4, "seed": 0, "device": "cpu", "cache": tokenizer.parent}
    return [window["input_ids"][0].tolist() for window in windows.text_windows(tokenizer, **plain | changes)]


def test_windows_are_whole_pieces_of_the_texts(tokenizer: Path) -> None:
    assert sorted(draw(tokenizer)) == [[1, 11, 12, 13], [1, 14, 15, 16], [1, 18, 19, 20], [1, 22, 23, 24]]


def test_windows_of_distinct_texts_come_first(tokenizer: Path) -> None:
    for seed in range(8):
        assert draw(tokenizer, seed=seed)[3] == [1, 14, 15, 16]


def test_order_follows_the_seed(tokenizer: Path) -> None:
    orders = [draw(tokenizer, seed=seed) for seed in (0, 0, 1, 2, 3)]
    assert orders[0] == orders[1]
    assert any(order != orders[0] for order in orders)


def test_closing_token_is_part_of_the_length(tokenizer: Path) -> None:
    assert all(window[0] == 1 and window[3] == 2 for window in draw(tokenizer, last="</s>"))


def test_second_time_needs_no_tokenizer(tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = draw(tokenizer)
    monkeypatch.setattr(windows, "_encoder", lambda *_: pytest.fail("the tokenizer was loaded again"))
    assert draw(tokenizer) == before


@pytest.mark.parametrize("sabotage", ["length", "text", "tokenizer"])
def test_other_parameters_are_cached_apart(sabotage: str, tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = draw(tokenizer)
    match sabotage:
        case "length":
            assert draw(tokenizer, length=3) != before
        case "text":
            monkeypatch.setattr(windows, "topics", TEXTS | {"c": "w1 w1 w1 w1"})
            assert draw(tokenizer) != before
        case _:
            tokenizer.write_text(tokenizer.read_text().replace('"w1":11', '"w1":40').replace('"w1": 11', '"w1": 40'))
            assert draw(tokenizer) != before


def test_tokenizer_without_the_opening_token_is_refused(tokenizer: Path) -> None:
    with pytest.raises(CheckpointError, match="no token '<bos>'"):
        draw(tokenizer, first="<bos>")


def test_random_windows_follow_the_seed() -> None:
    first, again, other = (list(islice(windows.random_windows(50, 8, seed, "cpu"), 3)) for seed in (1, 1, 2))
    assert all(torch.equal(a["input_ids"], b["input_ids"]) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0]["input_ids"], other[0]["input_ids"])
