"""The forked process that runs one job, and the supervisor above it that outlives whatever the job does."""

from __future__ import annotations

import errno
import faulthandler
import gc
import importlib
import json
import os
import resource
import secrets
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from pytest_frt.contracts.job import Job
from pytest_frt.errors import FrtError, StorageFault
from pytest_frt.lab import confine, reaper
from pytest_frt.lab.launch import describe_exit
from pytest_frt.lab.reports import CrashedJob, Done, Faulted, JobReport, Orphans, TimedOut, tail
from pytest_frt.lab.wire import WireFault, number, word
from pytest_frt.spec import codec
from pytest_frt.spec.modules import load_file

COMPLETION: Final = "completion.json"
"""Written last by a job that returned; an exit without it is a crash, whatever the status."""
STDOUT: Final = "stdout.txt"
STDERR: Final = "stderr.txt"
_GRACE_S: Final = 0.5  # a helper process that watches its parent ends within this
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True)
class Request:
    """One job as the server receives it.

    Attributes:
        target: Module name or absolute ``.py`` path that defines ``run(job)``.
        job: The job as codec text.
        out: Its output folder.
        limit_s: Seconds until it is killed.
    """

    target: str
    job: str
    out: str
    limit_s: float

    @classmethod
    def read(cls, message: Mapping[str, Any]) -> Request:
        """Read a request.

        Raises:
            WireFault: a field is absent.
        """
        return cls(word(message, "target"), word(message, "job"), word(message, "out"), number(message, "limit_s"))


def entry(target: str) -> Callable[[Job], None]:
    """Return ``run`` of a module given by name or by path."""
    module = load_file(target) if target.endswith(".py") else importlib.import_module(target)
    return cast("Callable[[Job], None]", module.run)


def _redirect(out: Path) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for name, fd in ((STDOUT, 1), (STDERR, 2)):
        file = os.open(out / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(file, fd)
        os.close(file)


def _prepare(request: Request) -> None:
    os.setsid()
    reaper.die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _redirect(Path(request.out))
    faulthandler.enable(file=2)
    confine.be_first_to_go()
    # Code that one kind of job compiles is never loaded by another: a candidate could leave altered code behind.
    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(cache, Path(request.target).stem))


def _run(request: Request) -> FrtError | None:
    try:
        job = codec.loads(cast("type[Job]", Job), request.job)
        confine.limit_memory(job.host.request.device)
        entry(request.target)(job)
    except FrtError as fault:
        traceback.print_exc()
        return fault
    except OSError as fault:
        if fault.errno not in _FULL:
            raise
        return StorageFault(f"{fault.filename or request.out} cannot be written: {fault.strerror}")
    return None


def work(request: Request, token: str, report_fd: int) -> NoReturn:
    """Run the job in this freshly forked process and leave without the interpreter's exit handlers."""
    status = 1
    try:
        os.close(report_fd)  # only the supervisor reports
        _prepare(request)
        fault = _run(request)
        told = None if fault is None else {"code": fault.code, "message": fault.message, "hint": fault.hint}
        Path(request.out, COMPLETION).write_text(json.dumps({"token": token, "fault": told}), encoding="utf-8")
        status = 0
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _completion(out: Path, token: str) -> Faulted | None:
    """Return the fault that a completed job raised, None for one that went well.

    Raises:
        WireFault: no completion of this very run.
    """
    try:
        told = json.loads((out / COMPLETION).read_bytes())
    except (OSError, ValueError, RecursionError) as fault:
        raise WireFault("no completion marker") from fault
    if not isinstance(told, dict) or told.get("token") != token:
        raise WireFault("a completion marker that is not this run's")
    raised = told.get("fault")
    if raised is None:
        return None
    if not isinstance(raised, dict):
        raise WireFault("a completion marker of another form")
    return Faulted(word(raised, "code"), word(raised, "message"), word(raised, "hint"))


def _report(request: Request, status: int | None, token: str, orphans: tuple[int, ...], seconds: float) -> JobReport:
    out = Path(request.out)
    stderr = tail(out / STDERR)
    if status is None:
        return TimedOut(request.limit_s, stderr)
    left = f", {len(orphans)} processes left running" if orphans else ""
    if status != 0:
        return CrashedJob(status, describe_exit(status) + left, stderr)
    try:
        fault = _completion(out, token)
    except WireFault as wrong:
        return CrashedJob(status, f"exit status 0 with {wrong.message}{left}", stderr)
    if orphans:
        return Orphans(orphans)
    return fault or Done(request.out, seconds)


def supervise(request: Request, report_fd: int) -> JobReport:
    """Fork the worker, wait for it, kill what it leaves, and say what became of it.

    Runs in a process of its own, which inherits every process the job starts.

    Args:
        request: The job.
        report_fd: Descriptor the report will be written to; kept from the worker.
    """
    reaper.become_subreaper()
    token = secrets.token_hex(16)
    Path(request.out, COMPLETION).unlink(missing_ok=True)
    began = time.monotonic()
    gc.freeze()  # collections in the child would touch, and so copy, every page of the imported libraries
    pid = os.fork()
    if pid == 0:
        work(request, token, report_fd)
    status = reaper.wait_exit(pid, request.limit_s)
    seconds = time.monotonic() - began
    orphans = () if status is None else tuple(reaper.settle(_GRACE_S))
    reaper.kill_descendants()
    return _report(request, status, token, orphans, seconds)
