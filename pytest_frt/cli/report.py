"""``frt report``: the HTML page of a JSON report, offline."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_frt.certs.files import check_replaceable, write_atomic
from pytest_frt.errors import UsageFault
from pytest_frt.report import drawing
from pytest_frt.spec.validate import check

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)

AGAIN: Final = "write it again with --frt-json"


def add_commands(subparsers: Subparsers) -> None:
    """Register ``frt report``."""
    command = subparsers.add_parser("report", help="make an HTML page of a JSON report, offline")
    command.add_argument("report", type=Path, metavar="REPORT.json", help="what --frt-json wrote")
    command.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="default: REPORT.html; an earlier page is replaced, a link, device or key never",
    )
    command.set_defaults(func=render)


def read(path: Path) -> dict[str, Any]:
    """Read a JSON report.

    Raises:
        UsageFault: it cannot be read, is no JSON, or has another schema.
        SpecError: it breaks its schema.
    """
    from pytest_frt.report.document import SCHEMA

    try:
        report = json.loads(path.read_bytes())
    except OSError as fault:
        raise UsageFault(f"{path}: cannot be read: {fault.strerror}", hint="name what --frt-json wrote") from fault
    except ValueError as fault:
        raise UsageFault(f"{path}: no JSON: {fault}", hint=AGAIN) from fault
    found = report.get("schema") if isinstance(report, dict) else None
    if found != SCHEMA:
        raise UsageFault(f"{path}: schema {found!r}, this version reads {SCHEMA!r}", hint=AGAIN)
    check(report, str(path), "report")
    return dict(report)


def render(args: argparse.Namespace) -> int:
    """Write the page.

    Raises:
        MissingExtra: the ``report`` extra is not installed.
        UsageFault: see :func:`read`, or what lies where the page goes must not be replaced.
        StorageFault: the page cannot be written.
    """
    drawing.check_extra()
    from pytest_frt.report import html

    out: Path = args.output or args.report.with_suffix(".html")
    check_replaceable(out)
    report = read(args.report)
    if out.exists() and out.samefile(args.report):
        raise UsageFault(f"{out} is the report itself", hint="name another file with -o")
    write_atomic(out, html.render(report))
    print(out)
    return 0
