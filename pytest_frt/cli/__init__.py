"""The ``frt`` command: what is installed, what a certificate says, whether this machine is fit, and signing.

No command imports torch, but for ``doctor``, which asks whether kernels serve this machine, and ``bench`` and
``conform``, which run models.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Final, NoReturn

from pytest_frt.certs.codes import next_step
from pytest_frt.cli import (
    bench,
    build,
    bundle,
    certs,
    compare,
    conform,
    doctor,
    explain,
    export,
    index,
    listing,
    publish,
    replay,
    report,
    trust,
    words,
)
from pytest_frt.errors import CertificateRefused, FrtError, UsageFault

INTERRUPTED: Final = 130  # what a shell says of a command that a signal of the keyboard ended
LOOK: Final = "check the path, its permissions and the free space, then run it again"


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
        conform,
        build,
    ):
        part.add_commands(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        Its exit status; that of the fault when one was raised, after printing it with its next step.
    """
    if sys.stdout is None:  # or the first file that is written would be taken for it
        return _fail(FrtError("standard output is closed", hint="send it to a file, or to /dev/null"))
    try:
        words.check_filled(sys.argv[1:] if argv is None else argv)
        args = _parsed(argv)
        words.check_known(args)
        status: int = args.func(args)
        sys.stdout.flush()
    except FrtError as fault:
        return _fail(fault)
    except BrokenPipeError:  # the reader, a pager or head, has seen enough
        _silence()
        return 0
    except OSError as fault:
        where = fault.filename or "standard output"
        _silence()
        return _fail(FrtError(f"{where}: {fault.strerror or fault}", hint=LOOK))
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    try:
        return parser().parse_args(argv)
    except SystemExit:  # help and version were printed
        sys.stdout.flush()
        raise


def _fail(fault: FrtError) -> int:
    """Print a fault, with the next step of its code when it has none of its own, and return its exit status."""
    said = fault.diagnostics()
    if isinstance(fault, CertificateRefused) and not fault.hint and (step := next_step(fault.refusal_code)):
        said += f"\n  next: {step}"
    print(f"frt: {said}", file=sys.stderr)
    return fault.exit_code


def _silence() -> None:
    """Lead standard output nowhere when it takes no more, or the end of the process would try again and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
