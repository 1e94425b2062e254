"""The ``frt`` command: what is installed, what a certificate says, whether this machine is fit, and signing.

No command imports torch, but for ``doctor``, which asks whether kernels serve this machine, and ``bench``, which runs
models.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import NoReturn

from pytest_frt.cli import (
    bench,
    bundle,
    certs,
    compare,
    doctor,
    explain,
    export,
    index,
    listing,
    publish,
    replay,
    report,
    trust,
)
from pytest_frt.errors import FrtError, UsageFault


class Parser(argparse.ArgumentParser):
    """A parser whose usage errors have the exit code of ours."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the fault.

        Raises:
            SystemExit: with the exit code of a usage fault.
        """
        self.print_usage(sys.stderr)
        self.exit(UsageFault.exit_code, f"{self.prog}: error: {message}\n")


def parser() -> argparse.ArgumentParser:
    """Return the parser of every command; each sets ``func``, which takes the arguments and returns the exit status."""
    top = Parser(prog="frt", description="Certificates of faster model parts: list, explain, sign, verify.")
    top.add_argument("--version", action="version", version=f"pytest-frt {version('pytest-frt')}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for part in (
        listing,
        explain,
        doctor,
        certs,
        trust,
        index,
        publish,
        bundle,
        export,
        replay,
        compare,
        report,
        bench,
    ):
        part.add_commands(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        Its exit status; that of the fault when one was raised, after printing it with its next step.
    """
    args = parser().parse_args(argv)
    try:
        status: int = args.func(args)
        sys.stdout.flush()
    except FrtError as fault:
        print(f"frt: {fault.diagnostics()}", file=sys.stderr)
        return fault.exit_code
    except BrokenPipeError:  # the reader, a pager or head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status
