"""Token windows that hosts are fed with: real text of the standard library's documentation, or random ids."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from pytest_frt.sdk import CheckpointError

from .library import require
from .once import made_once

LAYOUT: Final = "topic_windows_v1"
RENEWED: Final = 4  # one id in so many is drawn anew: enough that every row differs, few enough that a text stays one
Encode = Callable[[str], list[int]]


def random_windows(vocabulary: int, length: int, seed: int, device: str) -> Iterator[dict[str, Tensor]]:
    """Yield endless windows of uniformly drawn ids.

    Args:
        vocabulary: Ids are drawn below this.
        length: Tokens per window.
        seed: Fixes the sequence.
        device: torch device string.

    Yields:
        ``input_ids`` int64 ``[1, length]``.
    """
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield {"input_ids": torch.randint(vocabulary, (1, length), generator=generator).to(device)}


def renewed(tokens: Tensor, config: Any, seed: int) -> Tensor:  # noqa: ANN401 (a class of an unstubbed library)
    """Return a window with one id in four drawn anew; a window of one id gets another one.

    The ends of a longer window stay: they may be markers that a tokenizer puts there.

    Args:
        tokens: int64 ``[1, L]``.
        config: The model's configuration: ids are drawn below its ``vocab_size``.
        seed: Fixes what is drawn.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(config.vocab_size, tokens.shape, generator=generator).to(tokens.device)
    if tokens.shape[1] <= RENEWED:
        return drawn
    chosen = torch.rand(tokens.shape, generator=generator) < 1 / RENEWED
    chosen[:, 0], chosen[:, 1], chosen[:, -1] = False, True, False  # causal rows differ from the second one on
    return torch.where(chosen.to(tokens.device), drawn, tokens)


def text_windows(
    tokenizer: Path, *, first: str, last: str, length: int, seed: int, device: str, cache: Path
) -> Iterator[dict[str, Tensor]]:
    """Yield each window of the documentation topics once, windows of distinct topics first.

    The ids are computed once per tokenizer, text and parameters and kept in the cache, so that later processes do
    not load the tokenizer.

    Args:
        tokenizer: A tokenizer.json.
        first: Token that opens every window.
        last: Token that closes every window, or an empty string.
        length: Tokens per window, those two included.
        seed: Fixes the order.
        device: torch device string.
        cache: Directory for the table of ids.

    Yields:
        ``input_ids`` int64 ``[1, length]``.

    Raises:
        CheckpointError: the tokenizer cannot be read or lacks one of the two tokens.
    """
    texts = [topics[name] for name in sorted(topics)]
    parameters = (LAYOUT, first, last, str(length), *texts)
    sha = hashlib.sha256(tokenizer.read_bytes())
    for text in parameters:
        sha.update(hashlib.sha256(text.encode()).digest())

    def make(folder: Path) -> None:
        ids, rounds = _cut(texts, *_encoder(tokenizer, first, last), length)
        save_file({"input_ids": ids, "round": rounds}, folder / "windows.safetensors")

    table = load_file(made_once(cache / f"windows-{sha.hexdigest()[:16]}", make) / "windows.safetensors")
    for row in _order(table["round"], seed):
        yield {"input_ids": table["input_ids"][row : row + 1].to(device)}


def _encoder(tokenizer: Path, first: str, last: str) -> tuple[Encode, list[int], list[int]]:
    loaded = require("tokenizers").Tokenizer.from_file(str(tokenizer))
    loaded.no_truncation()
    loaded.no_padding()
    ids = {token: loaded.token_to_id(token) for token in (first, last) if token}
    if None in ids.values():
        raise CheckpointError(f"{tokenizer} has no token {first!r} or {last!r}", hint="give the tokenizer of this host")

    def encode(text: str) -> list[int]:
        return [int(token) for token in loaded.encode(text, add_special_tokens=False).ids]

    return encode, [ids[first]], [ids[last]] if last else []


def _cut(texts: list[str], encode: Encode, head: list[int], tail: list[int], length: int) -> tuple[Tensor, Tensor]:
    """Return ids ``[N, length]`` and, per window, its place in its topic ``[N]``, sorted by that place."""
    body = length - len(head) - len(tail)
    rows: list[tuple[int, list[int]]] = []
    for text in texts:
        tokens = encode(text)
        rows += [(i, [*head, *tokens[i * body : (i + 1) * body], *tail]) for i in range(len(tokens) // body)]
    rows.sort(key=lambda row: row[0])
    return torch.tensor([row for _, row in rows]), torch.tensor([place for place, _ in rows])


def _order(rounds: Tensor, seed: int) -> list[int]:
    """Return row numbers: all first windows of a topic in seeded order, then all second ones, and so on."""
    shuffled = torch.randperm(len(rounds), generator=torch.Generator().manual_seed(seed))
    return [int(row) for row in shuffled[torch.argsort(rounds[shuffled], stable=True)]]
