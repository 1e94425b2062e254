"""Evidence on disk: one folder per job, keyed by its digest, complete or absent, shared by the processes of a run."""

from __future__ import annotations

import errno
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from filelock import FileLock

from pytest_frt.contracts.job import CandidateJob, OracleJob, WitnessJob
from pytest_frt.errors import EvidenceError, StorageFault
from pytest_frt.lab.reports import Done, Faulted, JobReport, from_message, to_message
from pytest_frt.lab.wire import WireFault, decode
from pytest_frt.spec import codec
from pytest_frt.spec.digest import json_digest

JobT = TypeVar("JobT", WitnessJob, CandidateJob, OracleJob)
CAP_BYTES: Final = 2 << 30
"""Largest evidence of one job: 256 rows of 200 seats and 32 positions of a large vocabulary stay below half of it."""
REPORT: Final = "report.json"
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_LOW_BYTES: Final = 1 << 20  # a disk with less free cannot hold any evidence file


@dataclass(frozen=True, slots=True)
class Stored:
    """Evidence of one job.

    Attributes:
        path: Its folder.
        report: What became of the job; the folder holds its evidence when this is ``Done``.
    """

    path: Path
    report: JobReport


def free_bytes(path: Path) -> int:
    """Return the free bytes of the file system that ``path``, or its nearest existing parent, lies on."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure to write below ``path`` into a fault that names it.

    Raises:
        StorageFault: with the path and the free bytes.
    """
    try:
        yield
    except OSError as fault:
        why = "the disk is full" if fault.errno in _FULL else fault.strerror
        raise StorageFault(
            f"{fault.filename or path} cannot be written: {why} ({free_bytes(path)} bytes free)",
            hint="free space or choose another folder; what was measured before is kept",
        ) from fault


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below ``folder``, links not followed."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


class EvidenceStore:
    """Evidence of one run.

    Jobs name files by path, so a store serves one run: two runs over edited sources need two roots.

    Args:
        root: Folder of the run's evidence.
        cap_bytes: Largest evidence of one job.
    """

    def __init__(self, root: Path, *, cap_bytes: int = CAP_BYTES) -> None:
        self.root = root
        self._cap = cap_bytes

    def digest(self, job: WitnessJob | CandidateJob | OracleJob) -> str:
        """Return the sha256 of the job's canonical JSON; where its output goes is no part of it."""
        return json_digest(codec.to_json(replace(job, out="")))

    def obtain(self, job: JobT, run: Callable[[JobT], JobReport]) -> Stored:
        """Return the evidence of a job, running it when no process of this run has yet.

        Args:
            job: The job; ``out`` is set by the store.
            run: Runs it in a worker.

        Raises:
            StorageFault: the folder cannot be written, or the disk filled up while the job ran.
            EvidenceError: the job left more than the cap, or what lies there is no evidence.
        """
        digest = self.digest(job)
        final = self.root / f"{type(job).__name__.removesuffix('Job').lower()}-{digest[:32]}"
        with writing(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.root / f"{final.name}.lock")
        with lock:
            if not final.exists():
                self._produce(job, run, final)
            return Stored(final, self._read(final))

    def _produce(self, job: JobT, run: Callable[[JobT], JobReport], final: Path) -> None:
        with writing(self.root):
            work = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=self.root))
        try:
            report = run(replace(job, out=str(work)))
            self._check(job, report, work)
            if isinstance(report, Done):
                report = replace(report, out=str(final))
            with writing(final):
                (work / REPORT).write_text(json.dumps(to_message(report)), encoding="utf-8")
                work.rename(final)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _check(self, job: JobT, report: JobReport, work: Path) -> None:
        full = isinstance(report, Faulted) and report.code == StorageFault.code
        if full or (not isinstance(report, Done) and free_bytes(work) < _LOW_BYTES):
            raise StorageFault(
                f"{self.root} is full ({free_bytes(work)} bytes free): a job could not write its evidence",
                hint="free space or choose another folder; what was measured before is kept",
            )
        size = folder_bytes(work)
        if size > self._cap:
            raise EvidenceError(
                f"{type(job).__name__} on host {job.host.name} left {size} bytes, over the cap of {self._cap}",
                hint="lower the host's score_positions or heldout_samples",
            )

    def _read(self, folder: Path) -> JobReport:
        try:
            return from_message(decode((folder / REPORT).read_bytes()))
        except (OSError, WireFault) as fault:
            raise EvidenceError(
                f"{folder} holds no evidence: {fault}", hint=f"remove {folder} and run again"
            ) from fault
