"""``frt export``: a certificate as a sigstore bundle, or a ``test-result`` derived from it, for other tools."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_frt.certs import dsse, export, keys, statement, store
from pytest_frt.certs.dsse import Envelope
from pytest_frt.certs.files import check_new, read_some, storage, write_new
from pytest_frt.cli.certs import add_passphrase, passphrase
from pytest_frt.errors import UsageFault

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)


def add_commands(subparsers: Subparsers) -> None:
    """Register ``frt export``."""
    command = subparsers.add_parser("export", help="write a certificate in a form that other tools read")
    command.add_argument("certificate", metavar="CERT", type=Path, help=f"*{store.CERTIFICATE_SUFFIX} file")
    form = command.add_mutually_exclusive_group(required=True)
    form.add_argument("--sigstore-bundle", action="store_true", help="bundle v0.3 around one of its signatures")
    form.add_argument("--test-result", action="store_true", help="in-toto test-result about its kernel files")
    command.add_argument(
        "--name", metavar="HEX", default="", help="start of the certificate's name, in a set of several"
    )
    command.add_argument("--keyid", metavar="ID", default="", help="start of the key id, where several keys signed")
    command.add_argument("--key", metavar="FILE", type=Path, help="sign the test-result with this private key")
    command.add_argument("-o", "--out", metavar="FILE", type=Path, help="new file (default: standard output)")
    add_passphrase(command)
    command.set_defaults(func=write)


def write(args: argparse.Namespace) -> int:
    """Write one form of one certificate. Nothing of it is verified: that is for the reader, with a policy.

    Raises:
        UsageFault: no such certificate or signature, a key is given for a bundle, or the file exists.
        CertificateRefused: the file is no certificate set, or the key cannot be used.
        StorageFault: the file cannot be written.
    """
    if args.sigstore_bundle and args.key:
        raise UsageFault("--key signs a --test-result; a bundle carries a signature that is there", hint="leave it out")
    if args.out is not None:
        check_new(args.out)
    envelopes = _envelopes(args.certificate, args.name)
    if args.sigstore_bundle:
        data = export.sigstore_bundle(*export.choose_signature(envelopes, args.keyid))
    else:
        data = export.test_result(statement.check(envelopes[0].payload))
        if args.key:
            data = dsse.sign(data, keys.load_private(args.key, passphrase(args))).encode()
    if args.out is None:
        sys.stdout.write(f"{data.decode()}\n")
    else:
        with storage(args.out):
            args.out.parent.mkdir(parents=True, exist_ok=True)
        write_new(args.out, data + b"\n", mode=0o644)
        print(f"written {args.out}")
    return 0


def _envelopes(path: Path, name: str) -> list[Envelope]:
    """Return the envelopes around the one payload whose sha256 starts so."""
    lines = dsse.split_set(read_some(path, dsse.MAX_SET_BYTES + 1))
    found: dict[str, list[Envelope]] = {}
    for line in lines:
        envelope = dsse.parse_envelope(line)
        if envelope.name.startswith(name):
            found.setdefault(envelope.name, []).append(envelope)
    if len(found) != 1:
        known = ", ".join(one[: store.SHORT] for one in found) or "none"
        raise UsageFault(f"{path} holds {len(found)} certificates that fit: {known}", hint="choose one: --name=HEX")
    return next(iter(found.values()))
