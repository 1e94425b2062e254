"""What a run will judge: records to prove, unions to try, and rows that this machine cannot serve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pytest_frt.cell import Cell, RecordKey
from pytest_frt.contracts.host import BuildRequest
from pytest_frt.contracts.job import HostRef, UnitRef
from pytest_frt.errors import KernelUnavailable, UsageFault
from pytest_frt.expand import NotSupported, expand
from pytest_frt.rules.net_win import family_level
from pytest_frt.run.kernels import kernels_of
from pytest_frt.run.nearest import record_hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_frt.contracts.device import DeviceFacts
    from pytest_frt.contracts.host import HostSpec, PhaseSpec
    from pytest_frt.registry import Registry
    from pytest_frt.run.config import RunConfig
    from pytest_frt.run.kernels import Kernels
    from pytest_frt.run.resume import Kept, Resumed


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """One record to prove.

    Attributes:
        key: Record key.
        host: The host to build.
        spec: What host.yaml says.
        unit: Impl, scheme and kernel; the seats are every seat found.
    """

    key: RecordKey
    host: HostRef
    spec: HostSpec
    unit: UnitRef

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
        aside: Ids of records that were selected and are left to another fraction, or kept from an earlier run.
        resumed: What an earlier run left to this one; None in a run that starts anew.
    """

    records: tuple[RecordPlan, ...]
    unions: tuple[UnionPlan, ...]
    not_supported: tuple[NotSupported, ...]
    aside: tuple[str, ...] = ()
    resumed: Resumed | None = None

    @property
    def kept(self) -> tuple[Kept, ...]:
        """Records that are not judged again."""
        return self.resumed.kept if self.resumed else ()

    def level(self, family_alpha: float | None) -> float | None:
        """Return the level of each net-win judgement, None for the rule's own.

        Every record that was selected is one, here or in another fraction; every union of several is one more.

        Args:
            family_alpha: Level that all of them share, or None.
        """
        judged = len(self.records) + len(self.aside) + sum(len(union.records) > 1 for union in self.unions)
        return family_level(family_alpha, judged) if family_alpha is not None and judged else None


def default_size(spec: HostSpec, device: str) -> str:
    """Return ``real`` where trained weights are at hand, else ``full`` on an accelerator, else ``tiny``."""
    if spec.weights.get("real") == "trained":
        return "real"
    return "full" if device != "cpu" and "full" in spec.sizes else "tiny"


def _host_ref(config: RunConfig, spec: HostSpec, kind: str) -> HostRef:
    size = config.size or default_size(spec, kind)
    if size not in spec.sizes:
        raise UsageFault(
            f"host {spec.name} has no size {size!r}; it has {', '.join(spec.sizes)}", hint=f"--frt-size={spec.sizes[0]}"
        )
    request = BuildRequest(size=size, seed=config.seed, checkpoint=config.checkpoint, device=kind, cache=config.cache)
    return HostRef(spec.name, spec.folder, request, config.threads)


def _meets(phase: PhaseSpec, rows: tuple[int, int], size: str) -> bool:
    """Report whether an impl's row band admits a phase; tiny hosts run their regimes at fewer rows."""
    if size == "tiny":
        return True
    return rows[0] <= phase.timed_rows <= rows[1]


def _within(unit: UnitRef, phase: PhaseSpec, size: str) -> UnitRef:
    """Narrow a unit to the rows that impl and phase both admit: a certificate covers no others."""
    if size == "tiny":
        return unit
    return replace(unit, rows=(max(unit.rows[0], phase.rows[0]), min(unit.rows[1], phase.rows[1])))


def _phases(config: RunConfig, spec: HostSpec) -> list[PhaseSpec]:
    keep = config.selection.include.get("phase", ())
    drop = config.selection.exclude.get("phase", ())
    kept = [p for p in spec.phases if (not keep or any(fnmatchcase(p.name, g) for g in keep))]
    return [p for p in kept if not any(fnmatchcase(p.name, g) for g in drop)]


def _unit(cell: Cell, registry: Registry, kernels: Kernels) -> UnitRef | NotSupported:
    entry = registry.impl(cell.structure, cell.impl)
    kernel = kernels.of(entry.impl.kernel, registry.device(cell.device).spec.kind)
    if isinstance(kernel, KernelUnavailable):
        return NotSupported(cell, kernel.message)
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


def plan_run(config: RunConfig, registry: Registry, facts: Sequence[DeviceFacts]) -> RunPlan:
    """Cross the registry with the selection.

    Args:
        config: The run's settings.
        registry: What is installed.
        facts: The present devices.

    Raises:
        UsageFault: a filter matches nothing, a host lacks the wanted size, or a kernel that was given serves nothing.
    """
    records: list[RecordPlan] = []
    absent: list[NotSupported] = []
    kernels = kernels_of(config, registry)
    for planned in expand(config.selection, registry, facts):
        if not kernels.selects(registry.impl(planned.cell.structure, planned.cell.impl).impl.kernel):
            continue
        if isinstance(planned, NotSupported):
            absent.append(planned)
            continue
        if planned.emulated:
            absent.append(
                NotSupported(
                    planned.cell,
                    f"device {planned.cell.device} is not present; nothing is timed or certified in emulation",
                )
            )
            continue
        cell, spec = planned.cell, registry.host(planned.cell.host).spec
        unit = _unit(cell, registry, kernels)
        if isinstance(unit, NotSupported):
            absent.append(unit)
            continue
        host = _host_ref(config, spec, registry.device(cell.device).spec.kind)
        size = host.request.size
        phases = [phase for phase in _phases(config, spec) if _meets(phase, unit.rows, size)]
        if not phases:
            absent.append(
                NotSupported(
                    cell, f"impl admits {unit.rows[0]}-{unit.rows[1]} rows, no selected phase of the host lies there"
                )
            )
        for form in config.forms:
            if form not in spec.forms:
                absent.append(NotSupported(cell, f"host {spec.name} has no {form} form"))
                continue
            records += [
                RecordPlan(RecordKey(cell, form, phase.name, size, cache), host, spec, _within(unit, phase, size))
                for phase in phases
                for cache in config.cache_states
            ]
    kernels.check_served()
    kept, absent = _by_id(config, records, absent)
    # One regime of a host after the other: witnesses of the timing lab stay loaded while it lasts.
    kept.sort(key=lambda record: (record.host.name, record.key.form, record.key.cache, record.key.phase))
    return RunPlan(tuple(kept), _unions(kept), tuple(absent))


def _by_id(
    config: RunConfig, records: list[RecordPlan], absent: list[NotSupported]
) -> tuple[list[RecordPlan], list[NotSupported]]:
    """Keep the records whose ids match the selection's record globs, and the unsupported cells of those globs.

    Raises:
        UsageFault: a glob matches neither a record id nor, before its ``@``, an unsupported cell.
    """
    keep, drop = (side.get("record", ()) for side in (config.selection.include, config.selection.exclude))
    for glob in (*keep, *drop):
        if not any(_matches(record.id, (glob,)) for record in records) and not any(
            _matches(row.cell.id, (_cell_part(glob),)) for row in absent
        ):
            hint = record_hint(glob, (record.id for record in records))
            raise UsageFault(f"record glob {glob!r} matches no record", hint=hint)
    kept = [one for one in records if (not keep or _matches(one.id, keep)) and not _matches(one.id, drop)]
    cells = tuple(map(_cell_part, keep))
    return kept, [row for row in absent if not keep or _matches(row.cell.id, cells)]


def _matches(name: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _cell_part(glob: str) -> str:
    return glob.partition("@")[0]


def _unions(records: list[RecordPlan]) -> tuple[UnionPlan, ...]:
    groups: dict[str, list[RecordPlan]] = {}
    for record in records:
        key = record.key
        name = f"{key.cell.host}-{key.cell.device}@{key.form}.{key.phase}.{key.size}.{key.cache}"
        groups.setdefault(name, []).append(record)
    return tuple(UnionPlan(name, tuple(members)) for name, members in groups.items())
