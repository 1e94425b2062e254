"""Devices: what devices/<name>.yaml demands and what the present machine shows."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A device profile: facts a machine must show to be called by this name.

    Attributes:
        name: Device name.
        kind: ``cpu`` or ``cuda``.
        match: Fact name to glob the present machine's fact must match.
        emulate: Schemes whose formats it rounds as a CPU does: where it is absent, an impl that declares the same may
            show their numerics on a CPU. Nothing of that is ever timed or certified.
        defaults: Option defaults of this profile.
    """

    name: str
    kind: str
    match: dict[str, str]
    emulate: tuple[str, ...] = ()
    defaults: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The present machine. On CPU: model, ISA flags that kernels dispatch on, thread count, math library.

    Attributes:
        kind: ``cpu`` or ``cuda``.
        arch: e.g. ``x86_64`` or ``sm_90``.
        name: CPU or GPU model name.
        isa: ISA flags that torch's kernels dispatch on, sorted (CPU).
        threads: Intra-op threads (CPU).
        math: Math library of torch, e.g. ``mkl,onednn``.
    """

    kind: str
    arch: str
    name: str
    isa: tuple[str, ...] = ()
    threads: int = 0
    math: str = ""
