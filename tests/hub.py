"""A stand-in for a Hub repo in the client's cache: blobs, snapshots of links to them, and refs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REPO = "acme/toy"
VARIANT = "torch-cpu"


def kernel_files(value: int = 1, *, kernel_id: str = "acme_toy_ab12", name: str = "toy") -> dict[str, bytes]:
    """Return the files of one variant of a kernel whose ``VALUE`` is ``value``."""
    metadata = {"id": kernel_id, "name": name, "version": 1, "license": "MIT", "python-depends": []}
    return {
        "__init__.py": b"from .inner import VALUE as VALUE\n\n\ndef same(x):\n    return x\n",
        "inner.py": b"VALUE = %d\n" % value,
        "metadata.json": json.dumps(metadata | {"backend": {"type": "cpu"}}).encode(),
    }


def write_build(project: Path, files: Mapping[str, bytes], variant: str = VARIANT) -> Path:
    """Write one variant of a local project and return its folder."""
    folder = project / "build" / variant
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@dataclass
class Hub:
    """The cache of a machine that fetched some releases and has no network now.

    Attributes:
        cache: What ``KERNELS_CACHE`` names.
    """

    cache: Path

    def home(self, repo: str = REPO) -> Path:
        return self.cache / f"kernels--{repo.replace('/', '--')}"

    def snapshot(self, commit: str, repo: str = REPO) -> Path:
        return self.home(repo) / "snapshots" / commit

    def release(
        self, files: Mapping[str, bytes], *refs: str, repo: str = REPO, variant: str = VARIANT, prefix: str = "build"
    ) -> str:
        """Add a commit with one variant and let refs name it; return it."""
        tree = {f"{prefix}/{variant}/{name}": data for name, data in files.items()}
        return self.commit(tree, *refs, repo=repo)

    def commit(self, tree: Mapping[str, bytes], *refs: str, repo: str = REPO) -> str:
        """Add a commit with files at any path and let refs name it; return it."""
        commit = hashlib.sha1(repr(sorted(tree.items())).encode(), usedforsecurity=False).hexdigest()
        for name, data in tree.items():
            blob = self.home(repo) / "blobs" / self.blob(data)
            blob.parent.mkdir(parents=True, exist_ok=True)
            blob.write_bytes(data)
            link = self.snapshot(commit, repo) / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(blob, link.parent))
        for ref in refs:
            self.point(ref, commit, repo)
        return commit

    def point(self, ref: str, commit: str, repo: str = REPO) -> None:
        """Let a branch or tag name a commit, whether that was fetched or not."""
        file = self.home(repo) / "refs" / ref
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(commit)

    @staticmethod
    def blob(data: bytes) -> str:
        return hashlib.sha1(b"blob %d\0%b" % (len(data), data), usedforsecurity=False).hexdigest()
