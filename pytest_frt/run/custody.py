"""Files that judgements rest on: what they held before any code under test ran, and whether they still do."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_frt.lab.store import writing
from pytest_frt.seat.kernel_build import is_own
from pytest_frt.spec.digest import file_digest
from pytest_frt.spec.subjects import host_subjects, impl_subjects, scheme_subjects, structure_subjects
from pytest_frt.spec.tree import TreeInvalid, tree_digest, tree_files

Stamp = tuple[int, int, int, int]

if TYPE_CHECKING:
    from pytest_frt.contracts.job import UnitRef
    from pytest_frt.registry import Registry
    from pytest_frt.run.plan import RecordPlan


def _holds(file: Path, digest: str) -> bool:
    return file.is_file() and file_digest(file) == digest


@dataclass(frozen=True, slots=True)
class Custody:
    """Sources, by digest: they are a person's, so a change is told and never undone.

    Attributes:
        digests: Path to sha256.
    """

    digests: Mapping[Path, str]

    @classmethod
    def of(cls, files: Iterable[Path]) -> Custody:
        """Take the files as they are now."""
        return cls({file: file_digest(file) for file in files})

    def changed(self) -> tuple[str, ...]:
        """Return the files that hold other bytes now, or are gone."""
        return tuple(str(file) for file, digest in self.digests.items() if not _holds(file, digest))


def _stamps(folder: Path) -> dict[Path, Stamp]:
    """Return inode, size and both times of the files of a checkpoint: it is too long to read again and again.

    A program of the same user can set the time of modification of a file, and cannot set that of its last change.
    """
    found = {file: file.stat() for file in sorted(folder.iterdir()) if file.is_file()} if folder.is_dir() else {}
    return {file: (one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for file, one in found.items()}


class Sources:
    """Everything that is executed or read for the records of a run, as it was before any worker ran.

    Sources are known by digest, checkpoints by the stamps of their files.

    Args:
        registry: What is installed.
        records: The run's records.
    """

    def __init__(self, registry: Registry, records: Sequence[RecordPlan]) -> None:
        self._custody: dict[str, Custody] = {}
        digests: dict[Path, str] = {}
        for record in records:
            files = {file: digests.get(file) or file_digest(file) for file in _sources(registry, record)}
            digests |= files
            self._custody[record.id] = Custody(files)
        self._all = Custody(digests)
        self._checkpoints = {record.id: Path(record.host.request.checkpoint or "") for record in records}
        self._stamps = {folder: _stamps(folder) for folder in self._checkpoints.values() if folder.name}
        self._kernels = {record.unit.kernel_path: record.unit for record in records}

    def changed(self, record: RecordPlan) -> tuple[str, ...]:
        """Return the files of a record that hold other bytes now: what was judged is not what would be certified."""
        weights = self._restamped(self._checkpoints[record.id])
        return (*self._custody[record.id].changed(), *weights, *_kernel_changed(record.unit))

    def anywhere(self) -> frozenset[str]:
        """Return the files of the whole run that hold other bytes now: those of other records are nobody's to write."""
        kernels = (file for unit in self._kernels.values() for file in _kernel_changed(unit))
        weights = (file for folder in self._stamps for file in self._restamped(folder))
        return frozenset((*self._all.changed(), *weights, *kernels))

    def _restamped(self, folder: Path) -> tuple[str, ...]:
        before, now = self._stamps.get(folder, {}), _stamps(folder) if folder.name else {}
        return tuple(str(file) for file in sorted({*before, *now}) if before.get(file) != now.get(file))


def _sources(registry: Registry, record: RecordPlan) -> Iterator[Path]:
    cell = record.key.cell
    yield from impl_subjects(registry.impl(cell.structure, cell.impl)).values()
    yield from structure_subjects(registry.structure(cell.structure)).values()
    yield from scheme_subjects(registry.scheme(cell.scheme)).values()
    yield from host_subjects(registry.host(cell.host)).values()


def _kernel_changed(unit: UnitRef) -> tuple[str, ...]:
    folder = Path(unit.kernel_path)
    try:
        now = tree_digest(tree_files(folder, leave_bytecode=is_own(folder)))
    except (OSError, TreeInvalid):
        now = ""
    return () if now == unit.kernel_digest else (unit.kernel_path,)


@dataclass(frozen=True, slots=True)
class Originals:
    """Files of the run itself, with their bytes: what a worker did to them is undone before the next one starts.

    Attributes:
        custody: Their digests.
        contents: Path to bytes.
    """

    custody: Custody
    contents: Mapping[Path, bytes]

    @classmethod
    def of(cls, files: Iterable[Path]) -> Originals:
        """Take the files as they are now."""
        contents = {file: file.read_bytes() for file in files}
        return cls(Custody.of(contents), contents)

    def restore(self) -> tuple[str, ...]:
        """Put back what changed, and name it.

        Raises:
            StorageFault: a file cannot be written.
        """
        links = (str(file) for file in self.contents if file.is_symlink())
        changed = tuple(dict.fromkeys((*self.custody.changed(), *links)))
        for name in changed:
            file = Path(name)
            with writing(file):
                if file.is_dir() and not file.is_symlink():
                    shutil.rmtree(file)
                file.unlink(missing_ok=True)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(self.contents[file])
        return changed
