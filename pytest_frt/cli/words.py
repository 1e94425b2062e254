"""Words of a command line that no command would take, refused before anything is opened.

``check_filled`` looks at the words as typed: an empty one stands for a variable of a script that was not set, and taken
as it is, it would mean the working folder, everything, or that the option was never given. ``check_known`` looks at
the parsed arguments, for moments, digests and names that were mistyped.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
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


def check_filled(words: Sequence[str]) -> None:
    """Refuse an empty word, and an option with nothing after its ``=``.

    Raises:
        UsageFault: with the option, or the word before.
    """
    before = ""
    for word in words:
        option, equals, value = word.partition("=")
        bare = bool(equals) and not value and option.startswith("--")
        if bare or not word.strip():
            where = option if bare else before if before.startswith("-") else f"the argument after {before or 'frt'}"
            raise UsageFault(f"{where} is empty", hint="give it a value, or leave it out")
        before = word


def check_known(args: argparse.Namespace) -> None:
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


def add_digests(group: argparse._MutuallyExclusiveGroup) -> None:
    """Add the options that name a thing by its digest."""
    group.add_argument("--payload", metavar="SHA256", help="a certificate by its name")
    group.add_argument("--tree", metavar="SHA256", help="a kernel by its tree digest")


def digest_of(args: argparse.Namespace) -> tuple[str, str]:
    """Return kind and digest of the thing that one of ``add_digests`` names."""
    return ("payload", args.payload) if args.payload is not None else ("tree", args.tree)
