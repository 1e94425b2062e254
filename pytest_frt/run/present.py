"""The present machine, sources and settings against a certified record: what differs, without loading a model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_frt.certs.reading import EMPTY_SHA256
from pytest_frt.errors import UsageFault
from pytest_frt.run.proof import checker, device_facts
from pytest_frt.runtime.match import LiveFacts, LiveSeat, Reject, Wish, match
from pytest_frt.spec.digest import file_digest

if TYPE_CHECKING:
    from pytest_frt.contracts.record import FileDigest, Record
    from pytest_frt.registry import Registry
    from pytest_frt.run.config import RunConfig
    from pytest_frt.run.plan import RecordPlan

READ_ROLES: Final = ("impl", "structure", "reference", "scheme", "host")
"""Roles of subjects that are files of entries; kernels go by their tree, distributions by their RECORD."""
STORED: Final = "sha256:"
WEIGHTS: Final = "*.safetensors"
SHORT: Final = 12


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "nothing"


def _record_digest(distribution: str) -> str:
    """Return the digest of an installed ``<name>-<version>``'s RECORD; empty when it is not installed."""
    name, _, version = distribution.rpartition("-")
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return ""
    text = found.read_text("RECORD")
    return "" if text is None or found.version != version else hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Present:
    """What holds here and now; what is dear is read once, when it is first asked for.

    Attributes:
        config: The run's settings.
        registry: What is installed.
    """

    config: RunConfig
    registry: Registry
    _files: dict[str, str] = field(default_factory=dict)

    @cached_property
    def checker(self) -> FileDigest:
        """Our own distribution."""
        return checker()

    def differences(self, record: Record, plan: RecordPlan) -> Iterator[str]:
        """Yield what differs, both values named, cheap facts first; nothing when the record still holds here."""
        if record.key != plan.key:
            yield f"it states {record.key.id}"
            return
        for what, certified, here in (
            ("judge", record.checker.sha256[:SHORT], self.checker.sha256[:SHORT]),
            ("seed", record.seed, self.config.seed),
            ("row band", record.rows, plan.unit.rows),
            ("kernel tree", record.kernel.tree_digest[:SHORT], plan.unit.kernel_digest[:SHORT]),
            ("weights", record.host.weights, plan.spec.weights.get(plan.key.size, "random")),
        ):
            if certified != here:
                yield f"{what} is certified as {certified}, here it is {here}"
        yield from self._process(record, plan)
        yield from self._sources(record, plan)
        yield from self._checkpoint(record)

    def _process(self, record: Record, plan: RecordPlan) -> Iterator[str]:
        """Hold device, software and libraries against the record, by the comparison that a deployer's attach makes.

        What takes a loaded model to tell (classes and weights of seats) is bound by other means: by the sources, the
        libraries and the checkpoint that a model is made of.
        """
        kind = plan.host.request.device
        try:
            device = device_facts(kind, self.config.threads)
        except UsageFault as absent:
            yield absent.message
            return
        names = [*record.software, *record.host.library]
        dists = [one.name.partition("/")[2] for one in record.subjects if one.name.startswith("dist/")]
        live = LiveFacts(
            device=device,
            software={name: _version(name) for name in names},
            distributions={name: _record_digest(name) for name in dists},
            host_class=record.host.host_class,
            library={name: _version(name) for name in record.host.library},
            sources=record.host.module_source,
            seats={seat.facts.id: LiveSeat((), record.device.kind) for seat in record.seats},
            weights={seat.facts.id: seat.weights_digest for seat in record.seats},
        )
        found = match(record, live, Wish(plan.key.form, plan.key.phase))
        if isinstance(found, Reject):
            yield found.message

    def _sources(self, record: Record, plan: RecordPlan) -> Iterator[str]:
        """Hold every file that is executed or judged against to its certified bytes."""
        certified = {one.name: one.sha256 for one in record.subjects if one.name.partition("/")[0] in READ_ROLES}
        digests = {name: self._digest(file) for name, file in self.registry.files(plan.key.cell).items()}
        here = {
            name: digest for name, digest in digests.items() if digest != EMPTY_SHA256
        }  # what certificates leave out
        for name in sorted(certified.keys() | here.keys()):
            was, has = (found.get(name, "nothing")[:SHORT] for found in (certified, here))
            if was != has:
                yield f"{name} is certified with sha256 {was}, here it has {has}"

    def _checkpoint(self, record: Record) -> Iterator[str]:
        """Find the certified checkpoint by content: in the folder that was given, else in the cache of conversions."""
        label, given = record.host.checkpoint, self.config.checkpoint
        if not label.startswith(STORED):
            if given is not None:
                yield f"checkpoint is certified as {label}, given is {given}"
            return
        folder = Path(given or self.config.cache)
        there = {self._digest(file) for file in sorted(folder.rglob(WEIGHTS)) if file.is_file()}
        for digest in label.removeprefix(STORED).split(","):
            if digest not in there:
                yield f"no checkpoint file below {folder} has the certified sha256 {digest[:SHORT]}"

    def _digest(self, file: Path) -> str:
        """Return a file's digest, read once in a run."""
        name = str(file)
        if name not in self._files:
            self._files[name] = file_digest(file)
        return self._files[name]
