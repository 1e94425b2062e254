"""One frozen value for everything the command line, the configuration files and the device profile said."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_frt.run.kernel_words import KernelWord


@dataclass(frozen=True, slots=True)
class Selection:
    """Globs that keep and globs that drop, per dimension of a cell. Empty ``include`` keeps all.

    Attributes:
        include: Dimension (``structure``, ``impl``, ``host``, ``scheme``, ``device``, ``phase``) to globs.
        exclude: The same, dropped after.
    """

    include: dict[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunConfig:
    """A run's settings; built once from options and never changed.

    Attributes:
        selection: Which cells and phases.
        forms: Deployment forms, e.g. ``("eager",)``.
        size: ``tiny``, ``real``, ``full`` or None for the host's default.
        checkpoint: Local safetensors checkpoint directory, or None.
        out: Absolute output directory (certificates, statements, evidence, attempts).
        cache: Absolute directory for one-time host conversions.
        seed: Seed of everything drawn.
        sign_key: Key file the controller opens after the last worker was reaped, or None.
        issuer: Issuer name written into statements.
        quick: Provisional net-win form; certifies nothing.
        timing: False stops after the contract gate.
        kernel: Kernel builds that take the place of the ones their impls name; empty takes those.
        json: Path of the JSON report, or None.
        threads: Intra-op threads of workers.
        comparison: Show the compiled host beside certified plans.
        origins: Setting name to where its value came from.
        html: Path of the HTML report, or None.
        waivers: File of waivers, or None.
        resume: Keep records whose certificate in ``out`` still holds here.
        fraction: Which fraction of how many to judge, from 1, or None for all.
        cache_states: ``hot`` and ``cold``, each a record of its own.
        family_alpha: Chance of any false win among all records and unions at the margin, or None for the rule's each.
        compare: JSON report of an earlier run to compare with, or None.
        compare_fail: Regressions that fail the run, e.g. ``("ratio:2%",)``.
        kernel_cache: Absolute directory of the kernel client's cache; empty when no release is asked for.
        local_kernels: Repo ids that ``LOCAL_KERNELS`` overrides.
    """

    selection: Selection
    forms: tuple[str, ...]
    size: str | None
    checkpoint: str | None
    out: str
    cache: str
    seed: int
    sign_key: str | None
    issuer: str
    quick: bool
    timing: bool
    kernel: tuple[KernelWord, ...]
    json: str | None
    threads: int
    comparison: bool
    origins: dict[str, str] = field(default_factory=dict)
    html: str | None = None
    waivers: str | None = None
    resume: bool = False
    fraction: tuple[int, int] | None = None
    cache_states: tuple[str, ...] = ("hot",)
    family_alpha: float | None = None
    compare: str | None = None
    compare_fail: tuple[str, ...] = ()
    kernel_cache: str = ""
    local_kernels: tuple[str, ...] = ()
