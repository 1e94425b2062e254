"""Load, calibrate and bind units in a worker: shared by the candidate and the timing process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pytest_frt.errors import KernelMismatch
from pytest_frt.registry import load_impl, load_module
from pytest_frt.seat import kernels
from pytest_frt.seat.artefact import load_artefact
from pytest_frt.seat.bind import bind_unit
from pytest_frt.seat.calibrate import survey
from pytest_frt.spec.load import load_structure

NO_STATISTIC = "none"

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from torch import nn

    from pytest_frt.contracts.impl import Scales
    from pytest_frt.contracts.job import UnitRef
    from pytest_frt.contracts.record import KernelFacts
    from pytest_frt.contracts.scheme import Scheme
    from pytest_frt.contracts.seat import SeatFacts
    from pytest_frt.contracts.structure import Structure
    from pytest_frt.contracts.verdict import Refusal
    from pytest_frt.seat.bind import BoundSeat
    from pytest_frt.seat.calibrate import Survey


@dataclass(frozen=True, slots=True)
class LoadedUnit:
    """An impl module with its structure, scheme and kernel, loaded once per process."""

    ref: UnitRef
    structure: Structure
    impl: ModuleType
    scheme: Scheme
    kernel: ModuleType
    facts: KernelFacts


@dataclass(frozen=True, slots=True)
class BoundUnit:
    """A unit bound on a host: what will be attached, what refused, the scales used, and the survey that gave them."""

    loaded: LoadedUnit
    bound: tuple[BoundSeat, ...]
    refused: tuple[Refusal, ...]
    scales: dict[str, Scales]
    survey: Survey | None = None


def load_scheme(file: str) -> Scheme:
    """Execute a scheme file and return its ``SCHEME``."""
    return cast("Scheme", load_module(Path(file)).SCHEME)


def load_unit(ref: UnitRef) -> LoadedUnit:
    """Load the scheme, then the kernel, then the impl of a unit.

    Raises:
        KernelUnavailable: no build serves this machine.
        KernelMismatch: the build's tree digest is not the one the judge resolved.
    """
    scheme = load_scheme(ref.scheme_file)
    module, facts = kernels.load(ref.kernel_repo, Path(ref.kernel_path))
    if facts.tree_digest != ref.kernel_digest:
        raise KernelMismatch(
            f"kernel {ref.kernel_repo} in {ref.kernel_path} has tree digest {facts.tree_digest}, "
            f"the judge resolved {ref.kernel_digest}",
            hint="do not rebuild a kernel while it is being certified",
        )
    facts = replace(facts, revision=ref.kernel_revision or facts.revision)
    return LoadedUnit(ref, load_structure(ref.structure_folder), load_impl(ref.impl_file), scheme, module, facts)


def members(ref: UnitRef, seats: Iterable[SeatFacts]) -> list[SeatFacts]:
    """Return the seats a unit may take, in witness order."""
    return [seat for seat in peers(ref, seats) if not ref.seats or seat.id in ref.seats]


def peers(ref: UnitRef, seats: Iterable[SeatFacts]) -> list[SeatFacts]:
    """Return every seat of a unit's structure: a ceiling is over all of them, whichever are still in the unit."""
    return [seat for seat in seats if seat.structure == ref.structure]


def bind(
    model: nn.Module,
    unit: LoadedUnit,
    seats: Iterable[SeatFacts],
    scales_file: str,
    passes: Callable[[], Iterable[Callable[[], object]]],
) -> BoundUnit:
    """Calibrate (or read the artefact) and bind one unit.

    Args:
        model: The host, unattached.
        unit: The loaded unit.
        seats: Every seat of the host; the unit's own are chosen here.
        scales_file: Calibration artefact, or empty to calibrate when the scheme needs scales.
        passes: Returns one zero-argument host run per calibration sample.
    """
    alike = peers(unit.ref, seats)
    mine = members(unit.ref, alike)
    scales: dict[str, Scales] = {}
    unseen: tuple[Refusal, ...] = ()
    found: Survey | None = None
    if unit.scheme.statistic != NO_STATISTIC:
        scales, unseen, found = _scales(model, unit, alike, scales_file, passes)
    bound, refused = bind_unit(
        model,
        [seat for seat in mine if not any(refusal.at == seat.id for refusal in unseen)],
        structure=unit.structure,
        impl=unit.impl,
        scheme=unit.ref.scheme,
        scales=scales,
        kernel=unit.kernel,
        rows=unit.ref.rows,
    )
    return BoundUnit(unit, bound, (*unseen, *refused), scales, found)


def _scales(
    model: nn.Module,
    unit: LoadedUnit,
    alike: list[SeatFacts],
    scales_file: str,
    passes: Callable[[], Iterable[Callable[[], object]]],
) -> tuple[dict[str, Scales], tuple[Refusal, ...], Survey | None]:
    """Read or calibrate the static scales of a unit; its seats that get none are refused with their reason."""
    if scales_file:
        return load_artefact(scales_file), (), None
    found = survey(model, passes(), alike, unit.scheme)
    mine = {seat.id for seat in members(unit.ref, alike)}
    scales = {at: own for at, own in found.scales.items() if at in mine}
    return scales, tuple(refusal for refusal in found.refusals() if refusal.at in mine), found
