"""Words of a command line that can be mistyped: checked when it is read, before anything is opened."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Final

from pytest_frt.certs import shape
from pytest_frt.certs.reading import parse_time
from pytest_frt.errors import CertificateRefused, UsageFault

MOMENT: Final = "write YYYY-MM-DDTHH:MM:SSZ"
DIGEST: Final = "give all 64 hex digits, in lower case"
NAME: Final = "e.g. acme or acme.org/kernels"
READERS: Final[Mapping[str, tuple[str, Callable[[str], object], str]]] = {
    "at": ("--at", parse_time, MOMENT),
    "start": ("--from", parse_time, MOMENT),
    "until": ("--until", parse_time, MOMENT),
    "expires": ("--expires", parse_time, MOMENT),
    "payload": ("--payload", shape.sha256, DIGEST),
    "tree": ("--tree", shape.sha256, DIGEST),
    "owner": ("--owner", shape.identifier, NAME),
    "issuer": ("--issuer", shape.identifier, NAME),
    "rule": ("--rule", shape.identifier, NAME),
}
"""Attribute of the parsed arguments to the option that sets it, what reads it, and the next step."""


def check(args: argparse.Namespace) -> None:
    """Refuse a moment, digest or name that no command would take.

    Raises:
        UsageFault: with the option and what it needs.
    """
    for dest, (option, read, hint) in READERS.items():
        value = getattr(args, dest, None)
        if not isinstance(value, str):
            continue
        try:
            read(value)
        except (shape.Misfit, CertificateRefused) as fault:
            said = fault.said if isinstance(fault, shape.Misfit) else fault.message
            raise UsageFault(f"{option}: {said}", hint=hint) from fault
