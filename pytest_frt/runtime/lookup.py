"""Certificates and the builds beside them, for a process that attaches."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pytest_frt.certs.files import storage
from pytest_frt.certs.lookup import Found, locate, paths_of
from pytest_frt.certs.outcomes import Accepted, Outcome
from pytest_frt.certs.statement import CellCertificate
from pytest_frt.errors import KernelUnavailable
from pytest_frt.seat.kernel_build import variant_folder
from pytest_frt.spec.hub_cache import client_cache, copy_out


@dataclass(frozen=True, slots=True)
class Sought:
    """Where certificates were looked for.

    Attributes:
        found: The places.
    """

    found: tuple[Found, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """Their files and directories."""
        return paths_of(self.found)

    @property
    def labels(self) -> tuple[str, ...]:
        """What the places are that are more than a path somebody gave."""
        return tuple(one.label for one in self.found if one.published)

    def builds(self, outcomes: Iterable[Outcome], given: Mapping[str, Path]) -> dict[str, Path]:
        """Return repo id to build: those given, and for other kernels the builds beside the accepted certificates.

        Bytes decide later whether such a build is the certified one.

        Raises:
            KernelMismatch: a link of a cached release leads out of it.
            TreeInvalid: a build of a cached release has a file with a name that is not plain.
            StorageFault: such a build cannot be read, or its copy not be written.
        """
        builds = dict(given)
        for one in outcomes:
            if not isinstance(one, Accepted) or not isinstance(one.certificate, CellCertificate):
                continue
            record = one.certificate.record
            places = (place for place in self.found if place.holds(one.source))
            beside = next(((place, place.kernel) for place in places if place.kernel is not None), None)
            if beside is not None and record.kernel.repo not in builds:
                builds[record.kernel.repo] = _readable(*beside, record.device.kind)
        return builds


def seek(certificates: str | Path | Iterable[str | Path], environ: Mapping[str, str]) -> Sought:
    """Return where ``attach`` looks; see ``certs.lookup``.

    Raises:
        UsageFault: a place does not exist or holds no certificate.
    """
    words = [certificates] if isinstance(certificates, str | Path) else list(certificates)
    return Sought(locate(words, lambda: client_cache(environ)))


def _readable(place: Found, kernel: Path, kind: str) -> Path:
    """Return the builds of a place as plain files; where none serves this machine, resolving them will say why."""
    if place.release is None:
        return kernel
    try:
        variant = variant_folder(kernel, kind)
    except KernelUnavailable:
        return kernel
    with storage(variant):
        return copy_out(place.release, variant, Path(_copies().name), fetched=False)


@lru_cache(maxsize=1)
def _copies() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="frt-release-")
