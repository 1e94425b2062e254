"""The header of a run: device, software, settings."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import TYPE_CHECKING

from pytest_frt.devices.probe import machine_facts

if TYPE_CHECKING:
    from pytest_frt.registry import Registry
    from pytest_frt.run.config import RunConfig
    from pytest_frt.run.plan import RunPlan

SHOWN = ("torch", "kernels", "transformers")


def _version(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{name} -"


def key_line(settings: RunConfig) -> str:
    """Return who signs, by key id; the private half is forgotten at once."""
    if settings.sign_key is None:
        return "unsigned (give --frt-sign-key, or run `frt sign` later)"
    from pathlib import Path

    from pytest_frt.certs import keys

    return keys.load_private(Path(settings.sign_key)).public.keyid


def header(settings: RunConfig, registry: Registry, plan: RunPlan) -> list[str]:
    """Return the lines pytest shows above the items."""
    cpu, *gpus = machine_facts()
    isa = " ".join(cpu.isa)
    form = "quick (provisional, certifies nothing)" if settings.quick else "full"
    out = [
        f"frt: {cpu.name}, {cpu.arch}, {settings.threads} threads, {isa}",
        *(f"frt: {gpu.name}" for gpu in gpus),
        f"frt: {', '.join(map(_version, SHOWN))}, python {platform.python_version()}",
        f"frt: seed {settings.seed}, {form}, out {settings.out}",
        f"frt: key {key_line(settings)}",
        f"frt: {len(plan.records)} records, {len(plan.not_supported)} cells not supported here",
    ]
    return out + [f"frt: broken {fault.group} provider {fault.name}: {fault.reason}" for fault in registry.broken]
