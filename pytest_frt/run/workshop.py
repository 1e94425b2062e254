"""Where a run's workers live: its folder, and the fork server, which is started before anything is planned."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from pytest_frt.lab.client import LabClient

PRELOAD: Final = ("torch", "safetensors", "transformers", "transformers.modeling_utils")
"""Libraries the fork server imports once; a missing one is skipped by the server."""
JOB_S: Final = 900.0
"""Seconds a parity or contract worker may take."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """One per pytest process that judges.

    Attributes:
        root: Folder of the run's working files.
        client: Client of the fork server.
    """

    root: Path
    client: LabClient

    @classmethod
    def of(cls, environ: Mapping[str, str], threads: int, job_s: float = JOB_S) -> Self:
        """Make the folder and the client; the server starts when first needed, or with ``client.begin``.

        Args:
            environ: Environment of the run; workers get the scrubbed part of it.
            threads: Intra-op threads of workers.
            job_s: Seconds a parity or contract worker may take.
        """
        root = Path(tempfile.mkdtemp(prefix="frt-"))
        return cls(root, LabClient(root / "lab", environ=environ, threads=threads, preload=PRELOAD, time_limit_s=job_s))

    def close(self) -> None:
        """End every worker and remove working files; idempotent."""
        self.client.close()
        shutil.rmtree(self.root, ignore_errors=True)
