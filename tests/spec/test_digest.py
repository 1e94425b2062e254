"""Digests are over bytes that mean one thing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from pytest_frt.spec.digest import BLOCK, canonical_json, file_digest, json_digest


@pytest.mark.parametrize("size", [0, 1, BLOCK, BLOCK + 1, 3 * BLOCK - 1], ids=str)
def test_file_digest_is_sha256_of_the_bytes(tmp_path: Path, size: int) -> None:
    data = bytes(index % 253 for index in range(1000)) * (size // 1000 + 1)
    (tmp_path / "f").write_bytes(data[:size])
    assert file_digest(tmp_path / "f") == hashlib.sha256(data[:size]).hexdigest()


def test_canonical_json_has_one_form() -> None:
    assert canonical_json({"b": [1, None], "a": "\u00e9"}) == '{"a":"\u00e9","b":[1,null]}'.encode()
    assert json_digest({"a": 1, "b": 2}) == json_digest({"b": 2, "a": 1})


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=str)
def test_what_json_cannot_say_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": value})
