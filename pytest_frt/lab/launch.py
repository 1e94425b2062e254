"""Start an interpreter of ours with a scrubbed environment and a control channel that nobody else can reach."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_frt.errors import FrtError
from pytest_frt.lab.reaper import MARK
from pytest_frt.lab.wire import Channel

KEPT: Final = frozenset(
    {
        "CC",  # the compiler of torch.compile
        "CUDA_HOME",
        "CUDA_PATH",
        "CUDA_VISIBLE_DEVICES",
        "CXX",
        "HF_HOME",
        "HF_HUB_CACHE",
        "HOME",
        "LANG",
        "LD_LIBRARY_PATH",
        "LOGNAME",
        "NVIDIA_VISIBLE_DEVICES",
        "PATH",
        "TMPDIR",
        "TORCH_HOME",
        "TZ",
        "USER",
        "XDG_CACHE_HOME",
    }
)
"""Variables a worker inherits. A list of what may pass keeps keys, tokens and signing settings out by default."""
FIXED: Final[Mapping[str, str]] = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "OPENBLAS_NUM_THREADS": "1",  # numpy would start threads before the server forks
    "PYTHONDONTWRITEBYTECODE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # a pool of compile processes would outlive its worker
}
_END_LIMIT_S: Final = 5.0


SHARED_CORES: Final[Mapping[str, str]] = {"OMP_WAIT_POLICY": "PASSIVE"}
"""For workers that share cores, where spinning OpenMP threads cost 20-40x. A timed process is alone on its cores and
keeps the default, which is what deployed code runs with."""


def worker_environment(
    parent: Mapping[str, str], *, threads: int, mark: str, cache: Path, alone: bool = False
) -> dict[str, str]:
    """Return the environment of a worker.

    Args:
        parent: The environment of the run.
        threads: Threads of the math libraries.
        mark: Id of the lab, by which stray processes are found.
        cache: Folder for code that torch.compile generates; not shared with the user's own.
        alone: True for processes that are timed: nothing else runs beside them.
    """
    kept = {name: value for name, value in parent.items() if name in KEPT or name.startswith("LC_")}
    math = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    return {
        **kept,
        **FIXED,
        **({} if alone else SHARED_CORES),
        **math,
        MARK: mark,
        "TORCHINDUCTOR_CACHE_DIR": str(cache),
    }


@dataclass(frozen=True, slots=True)
class Launched:
    """A started interpreter, the judge's end of its channel, and the file that holds its stdout and stderr."""

    process: subprocess.Popen[bytes]
    channel: Channel
    log: Path

    def end(self) -> int:
        """Close the channel, wait, kill the process group if that does not help, and return the exit status."""
        self.channel.close()
        try:
            return self.process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """Kill the process group at once and return the exit status."""
        self.channel.close()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait(_END_LIMIT_S)


def launch(module: str, arguments: Sequence[str], *, environment: Mapping[str, str], log: Path) -> Launched:
    """Exec ``python -I -B -m module --fd N arguments``.

    ``-I`` keeps the working directory, user site and ``PYTHON*`` variables out; ``-B`` repeats
    ``PYTHONDONTWRITEBYTECODE``, which ``-I`` ignores.

    Raises:
        FrtError: the interpreter cannot be started.
    """
    ours, theirs = socket.socketpair()
    with theirs, log.open("ab") as output:
        command = [sys.executable, "-I", "-B", "-m", module, "--fd", str(theirs.fileno()), *arguments]
        try:
            process = subprocess.Popen(
                command,
                env=dict(environment),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as fault:
            ours.close()
            raise FrtError(
                f"cannot start {sys.executable}: {fault}", hint="check the interpreter and free memory"
            ) from fault
    return Launched(process, Channel(ours), log)


def describe_exit(status: int) -> str:
    """Return an exit status in words: ``exit status 3`` or ``killed by SIGSEGV``."""
    if status >= 0:
        return f"exit status {status}"
    names = {one.value: one.name for one in signal.Signals}
    return f"killed by {names.get(-status, f'signal {-status}')}"
