"""Certificates of a kernel build that lies on disk, as a publisher has them after a run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_frt.certs import index, store, tree
from pytest_frt.contracts.record import CalibrationFacts, FileDigest, KernelFacts, Record
from tests.certs.conftest import World
from tests.hub import VARIANT, kernel_files, write_build

SCALES = b"scales"


def record_of(world: World, build: Path, **changes: Any) -> Record:
    """Return the world's record, certified on a build."""
    files = [FileDigest(f"kernel/{file.name}", file.sha256) for file in tree.list_files(build)]
    others = [subject for subject in world.record.subjects if not subject.name.startswith("kernel/")]
    artefact = FileDigest("scales.safetensors", hashlib.sha256(SCALES).hexdigest())
    calibration = CalibrationFacts(artefact, "amax", 8, "c" * 64, "d" * 64)
    made = replace(
        world.record,
        subjects=(*files, *others),
        kernel=KernelFacts("acme/toy", "a" * 40, build.name, tree.tree_digest(build)),
        calibration=calibration,
        evidence=(),
    )
    return replace(made, **changes)


@dataclass
class Publisher:
    """A kernel project, and what a run on it left in ``out``.

    Attributes:
        world: Keys and policy.
        root: Folder with ``mine`` (the project) and ``frt-certs``.
    """

    world: World
    root: Path

    @property
    def project(self) -> Path:
        return self.root / "mine"

    @property
    def out(self) -> Path:
        return self.root / "frt-certs"

    def build(self, value: int = 1, variant: str = VARIANT) -> Path:
        return write_build(self.project, kernel_files(value), variant)

    def certify(self, build: Path, **changes: Any) -> str:
        """Sign a record of a build, with its artefact beside; return the certificate's name."""
        payload = self.world.payload(record_of(self.world, build, **changes))
        store.write_artefact(self.out, "toy", "cpu", SCALES)
        store.write_certificate(self.out, self.world.line(payload).decode())
        return hashlib.sha256(payload).hexdigest()

    def plan(self, *builds: Path) -> str:
        """Sign a plan of cells and return its name."""
        payload = self.world.plan(*(self.world.payload(record_of(self.world, build)) for build in builds))
        store.write_certificate(self.out, self.world.line(payload).decode())
        return hashlib.sha256(payload).hexdigest()

    def index(self, version: int, *current: str) -> None:
        """Sign an index."""
        terms = self.world.terms
        payload = index.build_index(
            issuer="acme", version=version, issued_at=terms["issued_at"], expires=terms["expires_at"], current=current
        )
        self.out.mkdir(exist_ok=True)
        (self.out / store.INDEX_NAME).write_bytes(self.world.line(payload) + b"\n")


def listing(root: Path) -> dict[str, bytes]:
    """Return every file below a folder with its bytes."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
