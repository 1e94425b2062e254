"""``frt replay``: judge kept timing again, offline; the verdict must be the stored one, byte for byte."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_frt.certs import dsse, statement, store
from pytest_frt.certs.statement import CellCertificate
from pytest_frt.cli.certs import DEFAULT_OUT
from pytest_frt.errors import CertificateRefused, EvidenceError, UsageFault
from pytest_frt.measure.timing import summarise
from pytest_frt.rules.rows import NET_WIN_ROW, net_win_row, rounded
from pytest_frt.run import evidence
from pytest_frt.spec import codec

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)


@dataclass(frozen=True, slots=True)
class Line:
    """One collection, judged again.

    Attributes:
        source: Where it came from.
        subject: Record key id or union name.
        verdict: What the gate says now, as JSON values; None where there is nothing to judge.
        faults: What differs; empty when nothing does.
    """

    source: str
    subject: str
    verdict: Any
    faults: tuple[str, ...]


def add_commands(subparsers: Subparsers) -> None:
    """Register ``frt replay``."""
    command = subparsers.add_parser("replay", help="judge kept timing again, offline: the verdict must be the same")
    command.add_argument(
        "targets",
        metavar="TARGET",
        nargs="+",
        help="record key, union name, kept file, directory of them, certificate or statement",
    )
    command.add_argument(
        "--out", metavar="DIR", type=Path, default=Path(DEFAULT_OUT), help="where names are looked up (%(default)s)"
    )
    command.add_argument("--json", action="store_true", help="print one JSON array with each verdict")
    command.set_defaults(func=show)


def show(args: argparse.Namespace) -> int:
    """Print a line per collection; 1 when any verdict differs from the stored one.

    Raises:
        UsageFault: a target names nothing.
        EvidenceError: a file holds no timed pairs.
        CertificateRefused: a certificate does not hold by itself.
    """
    lines = [line for target in args.targets for line in _replayed(target, args.out)]
    if args.json:
        print(json.dumps([_as_json(line) for line in lines], indent=1, sort_keys=True))
    else:
        for line in lines:
            print(f"{'DIFFERS' if line.faults else 'same   '} {line.subject} {_said(line.verdict)} {line.source}")
            for fault in line.faults:
                print(f"    {fault}")
    return 1 if any(line.faults for line in lines) else 0


def _replayed(target: str, out: Path) -> Iterator[Line]:
    path = Path(target)
    if path.is_file() and path.name.endswith((store.STATEMENT_SUFFIX, store.CERTIFICATE_SUFFIX)):
        yield from _certificate(path)
    elif path.is_file():
        yield _file(path)
    else:
        top = path if path.is_dir() else evidence.folder(out, target)
        files = sorted(top.rglob(f"{evidence.STEM}.*.json"))
        if not files:
            raise UsageFault(f"{target} names no kept timing: {top} holds none", hint="--out DIR, or name a file")
        yield from map(_file, files)


def _file(path: Path) -> Line:
    found = evidence.replay(evidence.read(path))
    return Line(str(path), found.pairs.subject, codec.to_json(found.verdict), found.faults)


def _certificate(path: Path) -> Iterator[Line]:
    """Replay what a certificate binds: its own samples first, by the verifier's judge, then the raw pairs."""
    if path.name.endswith(store.STATEMENT_SUFFIX):
        payloads = [store.read_statement(path)]
    else:
        (found,) = store.read(path)
        if isinstance(found, store.BadSet):
            raise CertificateRefused(found.code, f"{path}: {found.message}")
        payloads = list(dict.fromkeys(dsse.parse_envelope(line).payload for line in found.lines))
    for payload in payloads:
        certificate = statement.check(payload)
        if not isinstance(certificate, CellCertificate):
            raise UsageFault(f"{path} states a plan, whose pairs go by its name", hint=certificate.title[5:])
        yield _bound(path, certificate)


def _bound(path: Path, certificate: CellCertificate) -> Line:
    record = certificate.record
    digest = next((one.sha256 for one in record.evidence if one.name == evidence.BOUND), None)
    if digest is None:
        raise EvidenceError(f"{path} binds no timed pairs", hint="its own samples hold: frt explain")
    folder = evidence.folder(path.parent.parent.parent, record.key.id)
    for file in sorted(folder.glob(f"{evidence.STEM}.*.json")):
        there = evidence.read(file)
        if there.sha256 == digest:
            found = evidence.replay(there)
            stated = next(row.samples for row in record.gates if row.name == NET_WIN_ROW)
            same = net_win_row(rounded(summarise(there.pairs.timing).worker)).samples == stated
            more = () if same else ("its unit ratios are not those that the certificate states",)
            return Line(str(file), record.key.id, codec.to_json(found.verdict), (*found.faults, *more))
    missing = f"no file below {folder} has the certified sha256 {digest}"
    return Line(str(path), record.key.id, None, (missing,))


def _said(verdict: Any) -> str:  # noqa: ANN401 (a verdict as JSON)
    if verdict is None:
        return "-"
    pooled = next((one["value"] for one in verdict.get("measured", ()) if one["metric"] == "pooled_median"), None)
    return f"{verdict[codec.TAG]}{'' if pooled is None else f' {pooled:.4f}x'}"


def _as_json(line: Line) -> dict[str, Any]:
    return {
        "source": line.source,
        "subject": line.subject,
        "verdict": line.verdict,
        "same": not line.faults,
        "faults": list(line.faults),
    }
