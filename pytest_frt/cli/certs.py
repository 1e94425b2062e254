"""``frt keygen | sign | verify``: keys, signatures and audits. No torch, no network."""

from __future__ import annotations

import argparse
import getpass
import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_frt.certs import dsse, keyless, keys, lookup, policy, state_file, statement, store
from pytest_frt.certs import verify as verification
from pytest_frt.certs.codes import next_step
from pytest_frt.certs.files import check_new, read_some, write_new
from pytest_frt.certs.keys import PublicKey
from pytest_frt.certs.reading import parse_time, time_text
from pytest_frt.certs.strict_json import one_line
from pytest_frt.errors import CertificateRefused, UsageFault
from pytest_frt.spec.hub_cache import client_cache

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)

PUBLIC_SUFFIX: Final = ".pub"
DEFAULT_TRUST: Final = "frt-trust.toml"
DEFAULT_OUT: Final = "frt-certs"
"""Where a run leaves its certificates unless told otherwise."""
AUTO: Final = "auto"
_SMALL_FILE: Final = 4096
_TOKEN_BYTES: Final = 65_536


def add_commands(subparsers: Subparsers) -> None:
    """Register the three commands; each sets ``func``, which takes the parsed arguments and returns the exit status."""
    make = subparsers.add_parser("keygen", help="create a signing key and its public half")
    make.add_argument("out", metavar="OUT", type=Path, help="private key file, e.g. frt-key.pem; OUT.pub goes beside")
    add_passphrase(make)
    make.set_defaults(func=keygen)

    seal = subparsers.add_parser("sign", help="sign statements that a run left unsigned")
    by = seal.add_mutually_exclusive_group(required=True)
    by.add_argument("--key", metavar="FILE", type=Path, help="private key file")
    by.add_argument(
        "--sigstore", action="store_true", help="keyless: the identity of this CI job, or of a browser login"
    )
    seal.add_argument("--identity-token", metavar="FILE", type=Path, help="identity token for --sigstore")
    seal.add_argument("statements", metavar="STATEMENT", nargs="+", type=Path, help="*.statement.json files")
    add_passphrase(seal)
    seal.set_defaults(func=sign)

    audit = subparsers.add_parser("verify", help="verify certificates against a trust policy, offline")
    audit.add_argument(
        "places",
        metavar="PLACE",
        nargs="*",
        help="certificate file, directory, project or kernel repo, owner/name@revision of a cached release, or "
        "dist:NAME of an installed distribution (default: ./frt-certs, else ./certificates)",
    )
    audit.add_argument("--trust", metavar="FILE", default=DEFAULT_TRUST, help="trust policy (default: %(default)s)")
    audit.add_argument("--at", metavar="TIME", help="judge at this moment (YYYY-MM-DDTHH:MM:SSZ), not now")
    audit.add_argument(
        "--state",
        metavar="FILE",
        help=f"refuse what is older than this memory of accepted certificates, and add to it ({AUTO}: that of attach)",
    )
    audit.add_argument("--json", action="store_true", help="print one JSON array")
    audit.set_defaults(func=verify)


def keygen(args: argparse.Namespace) -> int:
    """Create a key pair. Neither file is ever overwritten.

    Raises:
        UsageFault: a file exists, its folder does not, or OUT ends in ``.pub`` or is no name of a file.
        StorageFault: one of the two cannot be written; neither is left.
    """
    out: Path = args.out
    if not out.name or out.is_dir():
        raise UsageFault(f"{out} is a folder", hint="name the private key file, e.g. frt-key.pem")
    if not out.parent.is_dir():
        raise UsageFault(f"{out.parent} is no folder", hint="make it first, or name a file elsewhere")
    public = out.with_suffix(PUBLIC_SUFFIX)
    if public == out:
        raise UsageFault(f"{out} is the name of a public key", hint="name the private key file, e.g. frt-key.pem")
    for path in (out, public):
        check_new(path)
    key = keys.generate()
    keys.write_private(out, key, passphrase(args, confirm=True))
    with ExitStack() as undo:
        undo.callback(out.unlink, missing_ok=True)
        write_new(public, f"{key.public.text}\n".encode(), mode=0o644)
        undo.pop_all()
    print(f"private key {out} (mode 0600; keep it off the machines that run kernels)")
    print(f"public key  {public}")
    print(f"key id      {key.public.keyid}")
    return 0


def sign(args: argparse.Namespace) -> int:
    """Sign statements after judging each the way a verifier would; the key is opened only when all of them hold.

    Raises:
        CertificateRefused: a statement or the key; nothing was signed.
        MissingExtra: ``--sigstore`` without the extra.
    """
    payloads = [(path, store.read_statement(path)) for path in args.statements]
    for path, payload in payloads:
        try:
            statement.check(payload)
        except CertificateRefused as refusal:
            raise CertificateRefused(refusal.refusal_code, f"{path}: {refusal.message}", hint=refusal.hint) from refusal
    signer, name = _signer(args)
    for path, payload in payloads:
        certificate = statement.check(payload)
        out = store.beside(path, certificate)
        store.add_line(out, signer(payload))
        print(f"signed {certificate.title}\n    by {name} in {out}")
    return 0


def _signer(args: argparse.Namespace) -> tuple[Callable[[bytes], str], str]:
    """Return what makes a line of a payload, and its name for people."""
    if args.sigstore:
        token = read_some(args.identity_token, _TOKEN_BYTES).decode("ascii", "replace") if args.identity_token else ""
        return (lambda payload: keyless.sign(payload, token.strip())), "a keyless identity"
    key = keys.load_private(args.key, passphrase(args))
    return (lambda payload: dsse.sign(payload, key)), key.public.keyid


def verify(args: argparse.Namespace) -> int:
    """Print one line per certificate; 0 only when there is one and all are accepted.

    Raises:
        CertificateRefused: the policy or the state file itself is refused.
        UsageFault: a path is missing, there is no certificate at all, or ``--state`` goes with ``--at``.
        StorageFault: the state file cannot be written.
    """
    trusted, memory = policy.load(args.trust), _memory(args)
    now = moment(args)
    found = lookup.locate(args.places, lambda: client_cache(os.environ))
    paths, audit = lookup.paths_of(found), args.at is not None
    verdict = verification.verdict_on(
        paths, trusted, now, audit=audit, state=state_file.read(memory) if memory else None
    )
    outcomes = list(verdict.outcomes)
    if memory and verdict.in_force:
        accepted = [one for one in outcomes if isinstance(one, verification.Accepted)]
        # Held against what was just remembered, so that a second call says of older ones what the first one says.
        seen = state_file.commit(memory, trusted, now, accepted, verdict.standing)
        outcomes = verification.verify_paths(paths, trusted, now, state=seen)
    if not outcomes:
        raise UsageFault(
            f"no certificate (*{store.CERTIFICATE_SUFFIX}) in {', '.join(place.label for place in found)}",
            hint=f"sign statements first: frt sign --key FILE *{store.STATEMENT_SUFFIX}",
        )
    if args.json:
        print(json.dumps([as_json(outcome) | {"place": _label(outcome, found)} for outcome in outcomes], indent=1))
    else:
        for place in found:
            print_outcomes(place.label, [outcome for outcome in outcomes if _label(outcome, found) == place.label])
        print_count(outcomes, at=args.at)
    return 0 if all(isinstance(outcome, verification.Accepted) for outcome in outcomes) else 1


def _memory(args: argparse.Namespace) -> Path | None:
    if args.state is not None and args.at is not None:
        raise UsageFault(
            "--state remembers what is accepted now, --at asks about another moment", hint="leave one of them out"
        )
    if args.state == AUTO:
        return state_file.default_place(args.trust)
    return Path(args.state) if args.state is not None else None


def _label(outcome: verification.Outcome, found: Sequence[lookup.Found]) -> str:
    return next((place.label for place in found if place.holds(outcome.source)), "")


def print_outcomes(label: str, outcomes: Sequence[verification.Outcome]) -> None:
    """Print what was found in one place, a line per certificate."""
    # Names of files are anybody's words: a line feed or an escape in one must not make a line of its own.
    print(one_line(f"in {label}: {len(outcomes)} certificates"))
    for outcome in outcomes:
        if isinstance(outcome, verification.Refused):
            print(one_line(f"refused   {outcome.source} {outcome.title} [{outcome.code}] {outcome.message}"))
            print(f"          next: {next_step(outcome.code)}")
        else:
            use = "" if outcome.activates else ", in no accepted plan: not activated"
            until = time_text(outcome.certificate.expires_at)
            print(
                f"accepted  {outcome.certificate.title} {outcome.name[: store.SHORT]} "
                f"signed by {', '.join(outcome.owners)}, until {until}{use}"
            )


def moment(args: argparse.Namespace) -> datetime:
    """Return the moment to judge at: that of ``--at``, or now.

    Raises:
        CertificateRefused: ``TIME_FORMAT``.
    """
    return datetime.now(UTC) if args.at is None else parse_time(args.at, "--at")


def print_count(outcomes: Sequence[verification.Outcome], *, at: str | None) -> None:
    """Print how many were accepted and refused, and at which moment when one was asked about."""
    count = Counter(isinstance(outcome, verification.Accepted) for outcome in outcomes)
    print(f"{count[True]} accepted, {count[False]} refused{'' if at is None else f', judged at {at}'}")


def as_json(outcome: verification.Outcome) -> dict[str, object]:
    """Return one outcome as ``--json`` prints it."""
    if isinstance(outcome, verification.Refused):
        return {
            "accepted": False,
            "source": outcome.source,
            "name": outcome.name,
            "title": outcome.title,
            "code": outcome.code,
            "message": outcome.message,
        }
    return {
        "accepted": True,
        "source": outcome.source,
        "name": outcome.name,
        "title": outcome.certificate.title,
        "owners": list(outcome.owners),
        "activates": outcome.activates,
        "expiresAt": time_text(outcome.certificate.expires_at),
        "gates": {gate.name: f"{gate.value:f}" for gate in outcome.gates},
    }


def add_passphrase(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where the passphrase of a private key comes from."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--passphrase", action="store_true", help="ask for the passphrase of the key")
    how.add_argument("--passphrase-file", metavar="FILE", type=Path, help="read it from the first line of a file")


def passphrase(args: argparse.Namespace, *, confirm: bool = False) -> bytes | None:
    """Return the passphrase the options name, or None.

    Raises:
        UsageFault: it is empty, was typed in two ways, there is nobody to ask, or its file cannot be read.
    """
    if args.passphrase_file:
        phrase = read_some(args.passphrase_file, _SMALL_FILE).split(b"\n")[0]
    elif args.passphrase:
        phrase = _asked("passphrase: ")
        if confirm and _asked("again: ") != phrase:
            raise UsageFault("the two passphrases differ", hint="try again")
    else:
        return None
    if not phrase:
        raise UsageFault("the passphrase is empty", hint="give one, or leave the option out")
    return phrase


def public_key(given: str) -> PublicKey:
    """Return the public key that a word of the command line is, or that lies in the file it names.

    Raises:
        UsageFault: the file cannot be read.
        CertificateRefused: the text is malformed, or the key is weak.
    """
    text = given if given.startswith(keys.PREFIX) else read_some(Path(given), _SMALL_FILE).decode("utf-8", "replace")
    return keys.parse_public(text)


def _asked(prompt: str) -> bytes:
    try:
        return getpass.getpass(prompt).encode()
    except EOFError as error:
        raise UsageFault(
            "there is no terminal to ask for the passphrase", hint="give --passphrase-file FILE"
        ) from error
