"""sha256 of bytes, files and canonical JSON."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pytest_frt.spec.plain import open_plain

BLOCK = 1 << 20


def bytes_digest(data: bytes) -> str:
    """Return the lower-case hex sha256 of ``data``."""
    return hashlib.sha256(data).hexdigest()


def file_digest(path: str | Path) -> str:
    """Return the lower-case hex sha256 of a file's bytes, read in 1 MiB blocks.

    Raises:
        OSError: the file cannot be read, or is no regular file.
    """
    sha = hashlib.sha256()
    with open_plain(path) as file:
        while block := file.read(BLOCK):
            sha.update(block)
    return sha.hexdigest()


def canonical_json(value: object) -> bytes:
    """Return UTF-8 JSON with sorted keys and no spaces, the form digests are taken over.

    Raises:
        ValueError: a NaN or an infinity, which JSON has no word for.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def json_digest(value: object) -> str:
    """Return the sha256 of :func:`canonical_json`."""
    return bytes_digest(canonical_json(value))
