"""``frt publish``: lay certificates beside the builds of a kernel project, ready to be uploaded with them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_frt.certs import publish
from pytest_frt.cli.certs import DEFAULT_OUT

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)


def add_commands(subparsers: Subparsers) -> None:
    """Register ``frt publish``."""
    command = subparsers.add_parser("publish", help="lay certificates beside the builds of a kernel project")
    command.add_argument("path", metavar="PATH", type=Path, help="kernel project or checkout of its repo, with build/")
    command.add_argument(
        "--certificates",
        metavar="PATH",
        type=Path,
        action="append",
        help=f"certificate file or directory (repeatable; default: {DEFAULT_OUT})",
    )
    command.add_argument("--dry-run", action="store_true", help="check everything and write nothing")
    command.set_defaults(func=lay)


def lay(args: argparse.Namespace) -> int:
    """Check every certificate against the builds, then write those that are not there; a second call writes nothing.

    Raises:
        UsageFault: no build or no certificate.
        CertificateRefused: a certificate is of another build; nothing was written.
        StorageFault: a file cannot be written; everything is as it was.
    """
    sources = args.certificates or [Path(DEFAULT_OUT)]
    shipment = publish.plan_shipment(args.path, sources)
    root = args.path / publish.FOLDER
    written = [] if args.dry_run else publish.write_shipment(args.path, shipment)
    for name, title in shipment.titles.items():
        done = "checked" if args.dry_run else "written" if name in written else "kept"
        print(f"{done:9} {title}\n          {root / name}")
    for name in shipment.stale:
        print(f"stale     {root / name} certifies a build that is not here")
    print(f"{len(shipment.titles)} published, {len(written)} files written, {len(shipment.stale)} stale")
    return 0
