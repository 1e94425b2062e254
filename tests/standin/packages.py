"""Writes stand-ins of published packages as kernel repos: in the client's cache, or as local projects.

A stand-in is a build for ``cpu`` where the package has builds for ``cuda``: it shows that an impl loads, binds, refuses
and computes what its scheme says. It shows nothing of the speed, and nothing of the device, of the package itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

from pytest_frt.seat import kernels
from tests.hub import Hub, write_build

from .conformance import EPILOGUES, FFN, NORM, SWIGLU, WEIGHT_ONLY

SOURCES: Final = Path(__file__).parent / "sources"
SHARED: Final = ("_ops.py", "common.py")
FILES: Final[Mapping[str, str]] = {
    SWIGLU: "fp8_swiglu_ffn.py",
    FFN: "fp8_ffn.py",
    WEIGHT_ONLY: "weight_only_ffn.py",
    EPILOGUES: "gemm_epilogues.py",
    NORM: "residual_norm_quant.py",
}
"""Package to the file that stands in for it."""
Edits = Mapping[str, str]
"""Text of the sources, which must be there, to what takes its place."""


def files(package: str, edits: Edits | None = None) -> dict[str, bytes]:
    """Return the files of one build, whose id is its own: builds that differ are loaded side by side."""
    texts = {name: (SOURCES / name).read_text(encoding="utf-8") for name in (FILES[package], *SHARED)}
    for old, new in (edits or {}).items():
        assert sum(text.count(old) for text in texts.values()) == 1, f"{old!r} is not there exactly once"
        texts = {name: text.replace(old, new) for name, text in texts.items()}
    texts["__init__.py"] = texts.pop(FILES[package])
    name = package.rpartition("/")[2]
    digest = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:8]
    metadata = {
        "id": f"_{name.replace('-', '_')}_cpu_{digest}",
        "name": name,
        "version": 1,
        "license": "Apache-2.0",
        "python-depends": [],
        "backend": {"type": "cpu"},
    }
    return {file: text.encode() for file, text in texts.items()} | {"metadata.json": json.dumps(metadata).encode()}


def publish(cache: Path, package: str, edits: Edits | None = None) -> str:
    """Put a release into a cache of the client, as branch ``v1``, and return its commit."""
    return Hub(cache).release(files(package, edits), "v1", repo=package)


def write(folder: Path, package: str, edits: Edits | None = None) -> Path:
    """Write a local kernel project of one build and return it."""
    project = folder / package.rpartition("/")[2]
    write_build(project, files(package, edits))
    return project


def loaded(folder: Path, package: str, edits: Edits | None = None) -> ModuleType:
    """Write a build and load it as every build is loaded."""
    return kernels.load(package, write(folder, package, edits), backend="cpu")[0]
