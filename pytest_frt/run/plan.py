"""What a run will judge: records to prove, unions to try, and rows that this machine cannot serve."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_frt.cell import Cell, RecordKey
from pytest_frt.contracts.host import BuildRequest
from pytest_frt.contracts.job import HostRef, UnitRef
from pytest_frt.errors import KernelUnavailable, UsageFault
from pytest_frt.expand import NotSupported, Planned, absence, expand
from pytest_frt.rules.fold import PLAN_GATES, RECORD_GATES
from pytest_frt.rules.net_win import family_level
from pytest_frt.run.emulation import KIND, NEEDS_DEVICE, elsewhere
from pytest_frt.run.kernels import kernels_of
from pytest_frt.run.nearest import record_hint
from pytest_frt.run.regimes import keys_of, matches, phases_of, selected, size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_frt.contracts.device import DeviceFacts
    from pytest_frt.contracts.host import HostSpec, PhaseSpec
    from pytest_frt.registry import Registry
    from pytest_frt.run.config import RunConfig
    from pytest_frt.run.emulation import Elsewhere
    from pytest_frt.run.kernels import Kernels
    from pytest_frt.run.resume import Kept, Resumed
    from pytest_frt.seat.kernel_build import KernelBuild


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """One record to prove.

    Attributes:
        key: Record key.
        host: The host to build.
        spec: What host.yaml says.
        unit: Impl, scheme and kernel; the seats are every seat found.
        emulated: Its device is absent and a CPU shows its numerics: it is never timed, stated or kept.
    """

    key: RecordKey
    host: HostRef
    spec: HostSpec
    unit: UnitRef
    emulated: bool = False

    @property
    def id(self) -> str:
        """The record key's id."""
        return self.key.id


@dataclass(frozen=True, slots=True)
class UnionPlan:
    """Records of one host, device, form, phase and size, to be attached together when each has passed alone."""

    name: str
    records: tuple[RecordPlan, ...]

    @property
    def id(self) -> str:
        """The union's name."""
        return self.name


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Everything a run will do.

    Attributes:
        records: Records in a stable order.
        unions: One per group of records.
        not_supported: Cells that cannot run here, each with its reason.
        aside: Ids of records that were selected and are left to another fraction, or kept from an earlier run; none of
            them is emulated.
        resumed: What an earlier run left to this one; None in a run that starts anew.
        elsewhere: What runs on the absent devices that were asked for would judge.
        away: Those devices.
        gates: Gates that are judged, in order.
    """

    records: tuple[RecordPlan, ...]
    unions: tuple[UnionPlan, ...]
    not_supported: tuple[NotSupported, ...]
    aside: tuple[str, ...] = ()
    resumed: Resumed | None = None
    elsewhere: tuple[Elsewhere, ...] = ()
    away: tuple[str, ...] = ()
    gates: tuple[str, ...] = (*RECORD_GATES, *PLAN_GATES)

    @property
    def emulated(self) -> dict[str, str]:
        """Record key id to the absent device in whose place a CPU judges it."""
        return {record.id: record.key.cell.device for record in self.records if record.emulated}

    @property
    def kept(self) -> tuple[Kept, ...]:
        """Records that are not judged again."""
        return self.resumed.kept if self.resumed else ()

    def level(self, family_alpha: float | None) -> float | None:
        """Return the level of each net-win judgement, None for the rule's own.

        Every record that was selected is one, here or in another fraction, and so is every union of several. What is
        emulated is not timed.

        Args:
            family_alpha: Level that all of them share, or None.
        """
        timed = len(self.records) - len(self.emulated) + len(self.aside)
        judged = timed + sum(len(union.records) > 1 for union in self.unions)
        return family_level(family_alpha, judged) if family_alpha is not None and judged else None


def _host_ref(config: RunConfig, spec: HostSpec, kind: str) -> HostRef:
    size = size_of(config, spec, kind)
    request = BuildRequest(size=size, seed=config.seed, checkpoint=config.checkpoint, device=kind, cache=config.cache)
    return HostRef(spec.name, spec.folder, request, config.threads)


def _within(unit: UnitRef, phase: PhaseSpec, size: str) -> UnitRef:
    """Narrow a unit to the rows that impl and phase both admit: a certificate covers no others."""
    if size == "tiny":
        return unit
    return replace(unit, rows=(max(unit.rows[0], phase.rows[0]), min(unit.rows[1], phase.rows[1])))


def _unit(cell: Cell, registry: Registry, kernel: KernelBuild) -> UnitRef:
    entry = registry.impl(cell.structure, cell.impl)
    return UnitRef(
        structure=cell.structure,
        structure_folder=str(registry.structure(cell.structure).folder),
        impl=cell.impl,
        impl_file=str(entry.file),
        scheme=cell.scheme,
        scheme_file=str(registry.scheme(cell.scheme).file),
        kernel_repo=entry.impl.kernel,
        kernel_path=str(kernel.folder),
        kernel_digest=kernel.facts.tree_digest,
        rows=entry.impl.rows[cell.scheme],
        kernel_revision="" if kernel.facts.is_local else kernel.facts.revision,
    )


@dataclass
class _Draft:
    """What the rows of a selection come to, one after the other."""

    config: RunConfig
    registry: Registry
    kernels: Kernels
    records: list[RecordPlan] = field(default_factory=list)
    absent: list[NotSupported] = field(default_factory=list)
    elsewhere: list[Elsewhere] = field(default_factory=list)

    def add(self, row: Planned | NotSupported) -> None:
        """Plan one cell, and tell what its device would run where that is absent."""
        before = len(self.records)
        if isinstance(row, Planned):
            self._plan(row.cell, emulated=row.emulated)
        else:
            self.absent.append(row)
        if row.absent if isinstance(row, NotSupported) else row.emulated:
            here = [record.key for record in self.records[before:]]
            self.elsewhere += elsewhere(self.config, self.registry, row.cell, here)

    def _plan(self, cell: Cell, *, emulated: bool) -> None:
        spec, impl = self.registry.host(cell.host).spec, self.registry.impl(cell.structure, cell.impl).impl
        kind = KIND if emulated else self.registry.device(cell.device).spec.kind
        kernel = self.kernels.of(impl.kernel, kind, needed=not emulated)
        if isinstance(kernel, KernelUnavailable):
            self._refuse(cell, kernel.message, emulated=emulated)
            return
        host, unit = _host_ref(self.config, spec, kind), _unit(cell, self.registry, kernel)
        size = host.request.size
        if not phases_of(self.config, spec, unit.rows, size):
            low, high = unit.rows
            reason = f"impl admits {low}-{high} rows, no selected phase of the host lies there"
            self._refuse(cell, reason, emulated=emulated)
        for form in self.config.forms:
            if form not in spec.forms:
                self._refuse(cell, f"host {spec.name} has no {form} form", emulated=emulated)
            elif emulated and form in NEEDS_DEVICE:
                self._refuse(cell, f"the {form} form takes the device itself", emulated=emulated)
        self.records += [
            RecordPlan(key, host, spec, _within(unit, phase, size), emulated)
            for key, phase in keys_of(self.config, spec, cell, unit.rows, size)
            if not (emulated and key.form in NEEDS_DEVICE)
        ]

    def _refuse(self, cell: Cell, reason: str, *, emulated: bool) -> None:
        said = f"device {cell.device} is absent and cannot be emulated: {reason}" if emulated else reason
        self.absent.append(NotSupported(cell, said, absent=emulated))


def plan_run(config: RunConfig, registry: Registry, facts: Sequence[DeviceFacts]) -> RunPlan:
    """Cross the registry with the selection.

    Args:
        config: The run's settings.
        registry: What is installed.
        facts: The present devices.

    Raises:
        UsageFault: a filter matches nothing, a host lacks the wanted size, or a kernel that was given serves nothing.
    """
    kernels, rows = kernels_of(config, registry), expand(config.selection, registry, facts)
    draft = _Draft(config, registry, kernels)
    for row in rows:
        if kernels.selects(registry.impl(row.cell.structure, row.cell.impl).impl.kernel):
            draft.add(row)
    kernels.check_served()
    kept, absent = _by_id(config, draft.records, draft.absent)
    # One regime of a host after the other: witnesses of the timing lab stay loaded while it lasts.
    kept.sort(key=lambda record: (record.host.name, record.key.form, record.key.cache, record.key.phase))
    devices = dict.fromkeys(row.cell.device for row in rows)
    away = tuple(name for name in devices if absence(registry.device(name), facts))
    return RunPlan(tuple(kept), _unions(kept), tuple(absent), elsewhere=tuple(draft.elsewhere), away=away)


def _by_id(
    config: RunConfig, records: list[RecordPlan], absent: list[NotSupported]
) -> tuple[list[RecordPlan], list[NotSupported]]:
    """Keep the records whose ids match the selection's record globs, and the unsupported cells of those globs.

    Raises:
        UsageFault: a glob matches neither a record id nor, before its ``@``, an unsupported cell.
    """
    keep, drop = (side.get("record", ()) for side in (config.selection.include, config.selection.exclude))
    for glob in (*keep, *drop):
        if not any(matches(record.id, (glob,)) for record in records) and not any(
            matches(row.cell.id, (_cell_part(glob),)) for row in absent
        ):
            hint = record_hint(glob, (record.id for record in records))
            raise UsageFault(f"record glob {glob!r} matches no record", hint=hint)
    kept = [one for one in records if selected(config, "record", one.id)]
    cells = tuple(map(_cell_part, keep))
    return kept, [row for row in absent if not keep or matches(row.cell.id, cells)]


def _cell_part(glob: str) -> str:
    return glob.partition("@")[0]


def _unions(records: list[RecordPlan]) -> tuple[UnionPlan, ...]:
    """Group the records that may be attached together; an emulated one is never certified alone, so it is in none."""
    groups: dict[str, list[RecordPlan]] = {}
    for record in records:
        if record.emulated:
            continue
        key = record.key
        name = f"{key.cell.host}-{key.cell.device}@{key.form}.{key.phase}.{key.size}.{key.cache}"
        groups.setdefault(name, []).append(record)
    return tuple(UnionPlan(name, tuple(members)) for name, members in groups.items())
