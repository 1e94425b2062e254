"""``frt bundle``: one checkable package of a run, and ``frt bundle --check``, its audit."""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_frt.certs import bundle, dsse, policy, statement, store
from pytest_frt.certs import verify as verification
from pytest_frt.certs.files import PRIVATE, check_new, read_some
from pytest_frt.certs.index import Index, check_statement
from pytest_frt.certs.statement import Certificate
from pytest_frt.cli.certs import DEFAULT_OUT, DEFAULT_TRUST, as_json, moment, print_count, print_outcomes
from pytest_frt.errors import CertificateRefused, UsageFault
from pytest_frt.spec import codec

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)

RUN: Final = "run"
LEFT_OUT: Final = (".lock", ".part")
GIT_SECONDS: Final = 30
WHEN_PACKING: Final[Mapping[str, str]] = {"--from": "source", "--log": "log", "--waivers": "waivers"}
WHEN_CHECKING: Final[Mapping[str, str]] = {"--trust": "trust", "--at": "at", "--json": "json", "--extract": "extract"}


def add_commands(subparsers: Subparsers) -> None:
    """Register ``frt bundle``."""
    command = subparsers.add_parser("bundle", help="pack a run into one checkable file or folder, or check one")
    command.add_argument(
        "path", metavar="OUT", type=Path, help="*.frt.zip file, or a new folder; with --check: a bundle"
    )
    command.add_argument(
        "--from", dest="source", metavar="DIR", type=Path,
        help=f"output directory of the run (default: {DEFAULT_OUT})",
    )  # fmt: skip
    command.add_argument("--log", metavar="FILE", type=Path, action="append", default=[], help="a log (repeatable)")
    command.add_argument("--waivers", metavar="FILE", type=Path, action="append", default=[], help="waivers of the run")
    command.add_argument("--check", action="store_true", help="verify the manifest and the certificates of a bundle")
    command.add_argument("--trust", metavar="FILE", help=f"policy for --check (default: {DEFAULT_TRUST})")
    command.add_argument("--at", metavar="TIME", help="with --check: judge at this moment (YYYY-MM-DDTHH:MM:SSZ)")
    command.add_argument("--json", action="store_true", help="with --check: print one JSON array")
    command.add_argument("--extract", metavar="DIR", type=Path, help="with --check: write the files of a sound bundle")
    command.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Pack or check.

    Raises:
        UsageFault: a path is missing or taken, there is nothing to pack, or an option belongs to the other action.
        CertificateRefused: a bundle, or a certificate that would go into one, is refused.
        StorageFault: the bundle cannot be written.
    """
    wrong = WHEN_PACKING if args.check else WHEN_CHECKING
    if given := [option for option, dest in wrong.items() if getattr(args, dest) not in (None, [], False)]:
        which, hint = ("without", "leave it out") if args.check else ("with", "add --check, or leave it out")
        raise UsageFault(f"{', '.join(given)} goes {which} --check", hint=hint)
    return check(args) if args.check else make(args)


def make(args: argparse.Namespace) -> int:
    """Pack what lies in the output directory of a run, with logs, waivers, git state and environment.

    The same files on the same machine give the same bytes.
    """
    source = args.source or Path(DEFAULT_OUT)
    check_new(args.path)
    files = {f"{RUN}/{name}": data for name, data in _tree(source)}
    for folder, given in (("logs", args.log), ("waivers", args.waivers)):
        for path in given:
            if f"{folder}/{path.name}" in files:
                raise UsageFault(f"two files of {folder} are called {path.name}", hint="rename one")
            files[f"{folder}/{path.name}"] = _data(path)
    found = _certificates(files)
    _check_complete((certificate for _, certificate in found.values()), files, str(source))
    signed = {name: {"title": one.title, "keyids": keyids} for name, (keyids, one) in found.items()}
    extra = {"signatures.json": signed, "git.json": _git(source), "environment.json": _environment(found)}
    files |= {name: _json(document) for name, document in extra.items()}
    whole = bundle.with_manifest(files)
    bundle.write(args.path, whole)
    print(f"written {args.path}: {len(whole)} files, {len(found)} certificates")
    return 0


def check(args: argparse.Namespace) -> int:
    """Verify a bundle; 0 only when it is sound and complete and every certificate in it is accepted."""
    files = bundle.read(args.path)
    trusted = policy.load(DEFAULT_TRUST if args.trust is None else args.trust)
    lines, audit = bundle.lines(files, str(args.path)), args.at is not None
    outcomes = verification.verify_lines(lines, trusted, moment(args), audit=audit)
    if not outcomes:
        raise UsageFault(f"{args.path} holds no certificate", hint="pack a run whose statements were signed")
    accepted = [one.certificate for one in outcomes if isinstance(one, verification.Accepted)]
    _check_complete(accepted, files, str(args.path))
    sound = len(accepted) == len(outcomes)
    if args.json:
        print(json.dumps([as_json(one) | {"place": f"bundle {args.path}"} for one in outcomes], indent=1))
    else:
        print(f"{len(files)} files as the manifest says")
        print_outcomes(f"bundle {args.path}", outcomes)
        print_count(outcomes, at=args.at)
    if args.extract and sound:
        bundle.write_folder(args.extract, files)
    return 0 if sound else 1


def _check_complete(certificates: Iterable[Certificate], files: bundle.Files, place: str) -> None:
    have = bundle.digests(files)
    for certificate in certificates:
        if lacking := bundle.missing(certificate, have):
            raise CertificateRefused(
                "BUNDLE_INCOMPLETE", f"{certificate.title} names {', '.join(lacking)}, not in {place}"
            )


def _tree(source: Path) -> Iterator[tuple[str, bytes]]:
    if not source.is_dir():
        raise UsageFault(f"{source} is no directory", hint="name the --frt-out of a run: --from=DIR")
    for name, (path, _) in bundle.walk(source, LEFT_OUT):
        yield name, _data(path)


def _data(path: Path) -> bytes:
    """Return what of a file goes into a bundle, which travels: no key does.

    Raises:
        UsageFault: it cannot be read.
        CertificateRefused: ``BUNDLE_SECRET``.
    """
    data = read_some(path, bundle.MAX_FILE_BYTES + 1)
    if PRIVATE in data:
        raise CertificateRefused("BUNDLE_SECRET", f"{path} holds a private key")
    return data


def _certificates(files: bundle.Files) -> dict[str, tuple[list[str], Certificate]]:
    """Return payload sha256 to key ids and certificate, of every certificate and unsigned statement.

    Raises:
        UsageFault: there is none.
        CertificateRefused: one would be refused by anybody.
    """
    found: dict[str, tuple[list[str], Certificate]] = {}
    for line in bundle.lines(files, "."):
        envelope = dsse.parse_envelope(line.data)
        one = check_statement(envelope.payload)
        if isinstance(one, Index):
            continue
        keyids, _ = found.setdefault(envelope.name, ([], one))
        keyids += [each.keyid for each in envelope.signatures if each.keyid not in keyids]
    for name, data in files.items():
        if name.endswith(store.STATEMENT_SUFFIX):
            certificate = statement.check(data)
            found.setdefault(certificate.payload_sha256, ([], certificate))
    if not found:
        raise UsageFault(
            "there is no certificate and no statement to pack", hint="certify first: pytest --frt-host=NAME"
        )
    return dict(sorted(found.items()))


def _git(folder: Path) -> dict[str, object]:
    """Return the commit of the working tree a folder lies in, and whether tracked files differ from it."""
    program = shutil.which("git")
    commit = _asked(program, folder, "rev-parse", "HEAD")
    changed = _asked(program, folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit or "", "dirty": None if changed is None or not commit else bool(changed)}


def _asked(program: str | None, folder: Path, *words: str) -> str | None:
    if program is None:
        return None
    command = [program, "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GIT_SECONDS)  # noqa: S603
    except (subprocess.SubprocessError, OSError):  # no working tree, no commit yet, or a broken git
        return None
    return done.stdout.strip()


def _environment(found: dict[str, tuple[list[str], Certificate]]) -> dict[str, object]:
    """Return this interpreter and what is installed, and per certificate the device and software it states."""
    stated = {}
    for name, (_, certificate) in found.items():
        about = certificate.record if isinstance(certificate, statement.CellCertificate) else certificate.plan
        stated[name] = {"device": codec.to_json(about.device), "software": about.software}
    return {
        "python": platform.python_version(),
        "system": {"name": platform.system(), "machine": platform.machine()},
        "installed": {one.name: one.version for one in metadata.distributions()},
        "certified": stated,
    }


def _json(document: object) -> bytes:
    return json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"
