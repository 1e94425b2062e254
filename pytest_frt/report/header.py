"""The header of a run: device, software, seed, key, output, and providers that could not be read."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import Final

from pytest_frt.certs import keys
from pytest_frt.contracts.job import UnitRef
from pytest_frt.devices.probe import machine_facts
from pytest_frt.errors import FrtError
from pytest_frt.registry import Registry
from pytest_frt.run.config import RunConfig
from pytest_frt.run.emulation import label
from pytest_frt.run.plan import RunPlan

SHOWN: Final = ("pytest-frt", "torch", "kernels", "transformers")

OWN_VERSION: Final = importlib.metadata.version(SHOWN[0])


def versions() -> dict[str, str]:
    """Return the versions of what every run computes with; ``absent`` for what is not installed."""
    found = {"python": platform.python_version()}
    for name in SHOWN:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def key_line(settings: RunConfig) -> str:
    """Return who will sign, by the public half beside the key: the key itself is opened when the last worker ended."""
    if settings.sign_key is None:
        return "none, statements stay unsigned"
    public = Path(settings.sign_key).with_suffix(".pub")
    if not public.is_file():
        return f"{settings.sign_key}, opened at the end"
    try:
        return keys.parse_public(public.read_text(encoding="utf-8", errors="replace")).keyid
    except FrtError as fault:
        return f"{settings.sign_key}, opened at the end ({public.name}: {fault.message})"


def _kernel(unit: UnitRef) -> str:
    """Return which build of a kernel is judged: its commit or, for a local one, its folder; and its tree digest."""
    where = f"commit {unit.kernel_revision}" if unit.kernel_revision else unit.kernel_path
    return f"{unit.kernel_repo} {Path(unit.kernel_path).name}, {where}, tree {unit.kernel_digest}"


def header(settings: RunConfig, registry: Registry, plan: RunPlan, *, verbose: bool) -> list[str]:
    """Return the lines that pytest shows above the items; ``verbose`` adds where settings came from."""
    cpu, *gpus = machine_facts()
    form = "quick (provisional, certifies nothing)" if settings.quick else "full"
    form = form if settings.timing else "without timing (certifies nothing)"
    out = [
        f"frt: {cpu.name}, {cpu.arch}, {settings.threads} threads",
        f"frt: {' '.join(cpu.isa)}",
        *(f"frt: {gpu.name}" for gpu in gpus),
        f"frt: {', '.join(f'{name} {version}' for name, version in versions().items())}",
        f"frt: seed {settings.seed}, {form}, key {key_line(settings)}",
        f"frt: out {settings.out}",
        f"frt: {len(plan.records)} records, {len(plan.unions)} unions, {len(plan.not_supported)} cells not supported",
    ]
    for device in dict.fromkeys(plan.emulated.values()):
        count = sum(one == device for one in plan.emulated.values())
        out.append(f"frt: {count} of the records are {label(device)}")
    if settings.kernel:
        out += dict.fromkeys(f"frt: kernel {_kernel(record.unit)}" for record in plan.records)
    if settings.fraction:
        index, count = settings.fraction
        out.append(f"frt: fraction {index} of {count}; {len(plan.aside)} records are left to the others")
    if verbose:
        given = {key: origin for key, origin in settings.origins.items() if origin != "default"}
        out += [f"frt: {key} from {origin}" for key, origin in given.items()]
    return out + [f"frt: broken {fault.group} provider {fault.name}: {fault.reason}" for fault in registry.broken]
