"""Certificates beside the kernel builds they certify: ``certificates/<structure>/<payload16>.frt.intoto.jsonl``.

They lie at the root of a kernel project or a checkout of its repo, never inside ``build/<variant>/``: a file more in
there would be another kernel. Calibration artefacts lie beside the certificates that name them, plans under ``plans``
and the publisher's index at the top. Everything is checked before anything is written, and what is written first needs
nothing that is written later: artefacts, cells, plans, index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pytest_frt.certs import store
from pytest_frt.certs.dsse import MAX_SET_BYTES, join_set, parse_envelope, split_set
from pytest_frt.certs.files import read_some, storage, write_atomic
from pytest_frt.certs.index import Index, check_statement, parse_index, parse_statement
from pytest_frt.certs.statement import CellCertificate, PlanCertificate
from pytest_frt.certs.tree import tree_digest
from pytest_frt.errors import CertificateRefused, UsageFault

FOLDER: Final = "certificates"
PLANS: Final = "plans"
SHORT: Final = 16
METADATA: Final = "metadata.json"


@dataclass(frozen=True, slots=True)
class Shipment:
    """What will lie below ``certificates/``.

    Attributes:
        files: Relative path to bytes, in the order of writing; files of other certificates there are not among them.
        titles: Relative path of each certificate or index to what it is.
        stale: Paths of certificates there whose kernel build lies there no more.
    """

    files: Mapping[str, bytes]
    titles: Mapping[str, str]
    stale: tuple[str, ...]


@dataclass
class _Cargo:
    lines: dict[str, list[bytes]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    artefacts: dict[str, bytes] = field(default_factory=dict)
    cells: set[str] = field(default_factory=set)
    plans: list[PlanCertificate] = field(default_factory=list)

    def add(self, name: str, title: str, line: bytes) -> None:
        self.titles[name] = title
        held = self.lines.setdefault(name, [])
        if line not in held:
            held.append(line)


def variants(project: Path) -> dict[str, str]:
    """Return variant name to frt-tree-v1 digest of the builds of a kernel project.

    Raises:
        UsageFault: there is none.
        CertificateRefused: ``TREE_*`` or ``NAME``: a build holds what no certificate can bind.
    """
    builds = sorted(file.parent for file in (project / "build").glob(f"*/{METADATA}"))
    if not builds:
        raise UsageFault(f"{project} holds no kernel build (build/*/{METADATA})", hint="name a kernel project")
    return {build.name: tree_digest(build) for build in builds}


def plan_shipment(project: Path, sources: Sequence[Path]) -> Shipment:
    """Decide what to lay beside the builds of a project; nothing is written.

    Signatures are for the deployer to verify. Each statement is judged by its own floors, as a signer does.

    Args:
        project: Kernel project, or checkout of a kernel repo.
        sources: Certificate files and directories.

    Raises:
        UsageFault: no build, no certificate, or a path is missing.
        CertificateRefused: a line is no certificate; ``KERNEL_TREE``: its kernel is none of the builds;
            ``PLAN_MEMBER``: a plan names a cell that is not published; ``ARTEFACT``: one is not to be found.
    """
    there, cargo = variants(project), _Cargo()
    root = project / FOLDER
    _check_plain(root)
    for found in store.read(sources):
        if isinstance(found, store.BadSet):
            raise CertificateRefused(found.code, f"{found.path}: {found.message}")
        for number, line in enumerate(found.lines, start=1):
            _load(line, f"{found.path}:{number}", there, cargo, sources)
    if not cargo.lines:
        named = ", ".join(map(str, sources))
        raise UsageFault(f"no certificate in {named}", hint=f"frt sign --key FILE *{store.STATEMENT_SUFFIX}")
    published, stale = _published(root, set(there.values()))
    for plan in cargo.plans:
        for key, member in zip(plan.plan.keys, plan.plan.members, strict=True):
            if member not in cargo.cells | published:
                raise CertificateRefused("PLAN_MEMBER", f"{plan.title} names {member[:SHORT]} ({key}), not published")
    order = sorted(cargo.lines, key=lambda name: (name == store.INDEX_NAME, name.startswith(f"{PLANS}/"), name))
    sets = {name: _merged(root / name, cargo.lines[name]) for name in order}
    return Shipment({**dict(sorted(cargo.artefacts.items())), **sets}, cargo.titles, stale)


def write_shipment(project: Path, shipment: Shipment) -> tuple[str, ...]:
    """Write what is not there yet and return its relative paths; a failure leaves everything as it was.

    Raises:
        StorageFault: a file cannot be written.
    """
    root, written = project / FOLDER, []
    with ExitStack() as undo:
        for name, data in shipment.files.items():
            path = root / name
            before = path.read_bytes() if path.is_file() else None
            if before == data:
                continue
            for folder in reversed([up for up in path.parents if not up.exists()]):
                undo.callback(folder.rmdir)
                with storage(folder):
                    folder.mkdir()
            undo.callback(_put_back, path, before)
            write_atomic(path, data)
            written.append(name)
        undo.pop_all()
    return tuple(written)


def _put_back(path: Path, before: bytes | None) -> None:
    if before is None:
        if path.is_file():  # else it was never made: its folder is a file, or a folder has its name
            path.unlink()
    else:
        write_atomic(path, before)


def _check_plain(root: Path) -> None:
    """Refuse what leads elsewhere or is neither folder nor file: what is published must lie where the builds lie."""
    for path in (root, *sorted(root.rglob("*"))):
        if path.is_symlink():
            raise CertificateRefused("TREE_SYMLINK", f"{path} is a symbolic link", hint="put the file in its place")
        if path.exists() and not path.is_dir() and (path == root or not path.is_file()):
            raise CertificateRefused("TREE_SPECIAL", f"{path} is no {'folder' if path == root else 'regular file'}")


def _load(line: bytes, source: str, there: Mapping[str, str], cargo: _Cargo, sources: Sequence[Path]) -> None:
    certificate = check_statement(parse_envelope(line).payload)
    if isinstance(certificate, Index):
        cargo.add(store.INDEX_NAME, certificate.title, line)
        return
    if isinstance(certificate, PlanCertificate):
        cargo.plans.append(certificate)
        cargo.add(_name(PLANS, certificate.payload_sha256), certificate.title, line)
        return
    record = certificate.record
    if record.kernel.tree_digest not in there.values():
        lie = ", ".join(f"{name} with {digest}" for name, digest in there.items())
        raise CertificateRefused(
            "KERNEL_TREE",
            f"{source} certifies {record.kernel.variant} with tree digest {record.kernel.tree_digest}, here lie {lie}",
            hint="certify the build that is here, or name the certificates of this build with --certificates",
        )
    structure = record.key.cell.structure
    cargo.cells.add(certificate.payload_sha256)
    cargo.add(_name(structure, certificate.payload_sha256), certificate.title, line)
    if record.calibration is not None:
        artefact = record.calibration.artefact
        data = store.read_artefact(sources, artefact)
        cargo.artefacts[f"{structure}/{artefact.sha256}{store.ARTEFACT_SUFFIX}"] = data


def _name(folder: str, payload_sha256: str) -> str:
    return f"{folder}/{payload_sha256[:SHORT]}{store.CERTIFICATE_SUFFIX}"


def _merged(path: Path, lines: Sequence[bytes]) -> bytes:
    """Return a set with the lines that are there, as they lie, and those of ours that are not.

    Raises:
        CertificateRefused: ``SET_SIZE``: together they are more than a reader takes; ``INDEX_ROLLBACK``.
    """
    before = split_set(read_some(path, MAX_SET_BYTES + 1)) if path.is_file() else ()
    merged = [*before, *(line for line in lines if line not in before)]
    if path.name == store.INDEX_NAME:
        merged = _newest(path, merged)
    try:
        return join_set(merged)
    except CertificateRefused as full:
        hint = "remove certificates that nobody needs any more"
        raise CertificateRefused(full.refusal_code, f"{path} would hold {full.message}", hint=hint) from full


def _newest(path: Path, lines: Iterable[bytes]) -> list[bytes]:
    """Return the lines with the newest index of each issuer; later lines are the ones to be published.

    Raises:
        CertificateRefused: ``INDEX_ROLLBACK``: a newer one is there.
    """
    found: dict[str, tuple[int, list[bytes]]] = {}
    for line in lines:
        index = parse_index(parse_envelope(line).payload)
        version, held = found.get(index.issuer, (0, []))
        if index.version < version:
            raise CertificateRefused("INDEX_ROLLBACK", f"{path} holds version {version} of the {index.title}")
        found[index.issuer] = (index.version, [*held, line] if index.version == version else [line])
    return [line for _, held in found.values() for line in held]


def _published(root: Path, trees: set[str]) -> tuple[set[str], tuple[str, ...]]:
    """Return the payloads of the cells that lie there for these builds, and the paths of those for others."""
    current: set[str] = set()
    stale: list[str] = []
    for path, certificate in _cells(root):
        if certificate.record.kernel.tree_digest in trees:
            current.add(certificate.payload_sha256)
        else:
            stale.append(path.relative_to(root).as_posix())
    return current, tuple(sorted(set(stale)))


def _cells(root: Path) -> Iterator[tuple[Path, CellCertificate]]:
    for found in store.read(root) if root.is_dir() else ():
        if isinstance(found, store.BadSet):
            raise CertificateRefused(found.code, f"{found.path}: {found.message}", hint="remove the file")
        for line in found.lines:
            certificate = parse_statement(parse_envelope(line).payload)
            if isinstance(certificate, CellCertificate):
                yield found.path, certificate
