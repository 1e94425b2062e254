"""The tokenizer that the metadata of a Gemma GGUF file describes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .._shared.library import require

CONTROL: Final = 3  # token types of the GGUF format
USER_DEFINED: Final = 4
SPACE: Final = "\N{LOWER ONE EIGHTH BLOCK}"  # how a vocabulary of this family writes a space
ROLES: Final = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}


def build_tokenizer(metadata: dict[str, Any]) -> Any:  # noqa: ANN401 (a class of an unstubbed library)
    """Return the tokenizer as transformers has it, ready for ``save_pretrained``.

    Args:
        metadata: Of a GGUF file with a byte-fallback vocabulary in merge order (the ``llama`` kind).
    """
    parts = require("tokenizers")
    pieces = [_spelled(piece) for piece in metadata["tokenizer.ggml.tokens"]]
    named = {role: pieces[metadata[f"tokenizer.ggml.{key}_token_id"]] for role, key in ROLES.items()}
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    model = parts.models.BPE(
        vocab=vocabulary, merges=_merges(pieces, vocabulary), unk_token=named["unk"], fuse_unk=True, byte_fallback=True
    )
    tokenizer = parts.Tokenizer(model)
    tokenizer.normalizer = parts.normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = parts.pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = parts.decoders.Sequence(
        [parts.decoders.Replace(SPACE, " "), parts.decoders.ByteFallback(), parts.decoders.Fuse()]
    )
    tokenizer.post_processor = parts.processors.TemplateProcessing(
        single=f"{named['bos']} $A",
        pair=f"{named['bos']} $A {named['bos']}:1 $B:1",
        special_tokens=[(named["bos"], vocabulary[named["bos"]])],
    )
    for kind, add in ((CONTROL, tokenizer.add_special_tokens), (USER_DEFINED, tokenizer.add_tokens)):
        marked = np.flatnonzero(metadata["tokenizer.ggml.token_type"] == kind)
        # Runs of spaces are marked too, but are reached through the normaliser and the merges.
        chosen = [pieces[i] for i in marked if not pieces[i].startswith(SPACE)]
        add([parts.AddedToken(piece, normalized=False, special=kind == CONTROL) for piece in chosen])
    return require("transformers").PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{role}_token": piece for role, piece in named.items()}
    )


def _spelled(piece: str) -> str:
    """Return a piece as text is spelled after normalisation: runs of spaces are stored as such in the file."""
    return SPACE * len(piece) if piece and not piece.strip(" ") else piece


def _merges(pieces: list[str], vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    """Return the merges a vocabulary in merge order implies: every cut of a piece into two pieces, earliest first."""
    found: list[tuple[int, int, int, str, str]] = []
    for number, piece in enumerate(pieces):
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in vocabulary and right in vocabulary:
                found.append((number, -len(left), -len(right), left, right))
    found.sort(key=lambda merge: merge[:3])
    return [merge[3:] for merge in found]
