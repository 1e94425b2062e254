"""The facts of the present machine, and whether they are those of a device profile."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_frt.contracts.device import DeviceFacts, DeviceSpec
from pytest_frt.errors import UsageFault

CPUINFO = Path("/proc/cpuinfo")
NVIDIA_GPUS = Path("/proc/driver/nvidia/gpus")
DISPATCHED_ISA = re.compile(
    r"avx2|fma|f16c|avx_vnni\w*|avx512(f|bw|dq|vl|_?vnni|_?bf16|_?fp16)|amx_\w+"  # x86: vector, dot product, tiles
    r"|asimd|asimdhp|asimddp|i8mm|bf16|sve2?|sme2?"  # ARM: NEON, half, dot product, matrix, scalable
)
"""Flags that torch's, oneDNN's and FBGEMM's kernels choose their code by; the others do not change a result."""
MATH_LIBRARIES = {
    "mkl": r"Math Kernel Library",
    "openblas": r"BLAS_INFO=open",
    "accelerate": r"BLAS_INFO=accelerate",
    "onednn": r"MKL-DNN v|oneDNN v",
    "acl": r"USE_MKLDNN_ACL=(ON|1)",
}
"""Name in :class:`DeviceFacts` to the words of ``torch.__config__.show()`` that show it."""


def _cpuinfo() -> dict[str, str]:
    """Return the first processor's block of /proc/cpuinfo; empty where there is none."""
    if not CPUINFO.is_file():
        return {}
    out: dict[str, str] = {}
    for line in CPUINFO.read_text(encoding="utf-8", errors="replace").split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        out[key.strip()] = value.strip()
    return out


def _isa(info: dict[str, str]) -> tuple[str, ...]:
    flags = info.get("flags", info.get("Features", "")).split()
    return tuple(sorted(flag for flag in flags if DISPATCHED_ISA.fullmatch(flag)))


def _cpu_name(info: dict[str, str]) -> str:
    parts = (info.get(key, "") for key in ("CPU implementer", "CPU part"))  # ARM gives numbers instead of a name
    return info.get("model name") or " ".join(part for part in parts if part) or platform.processor() or "unknown"


def math_libraries(config: str) -> str:
    """Return the math libraries that ``torch.__config__.show()`` names, joined by commas, e.g. ``mkl,onednn``."""
    return ",".join(name for name, words in MATH_LIBRARIES.items() if re.search(words, config))


def _cuda_facts() -> DeviceFacts:
    import torch

    if not torch.cuda.is_available():
        raise UsageFault("torch sees no CUDA device", hint="use a machine with one, or --frt-device=cpu")
    major, minor = torch.cuda.get_device_capability()
    return DeviceFacts(kind="cuda", arch=f"sm_{major}{minor}", name=torch.cuda.get_device_name())


def present_facts(kind: str = "cpu") -> DeviceFacts:
    """Return the facts a certificate states of this machine. Imports torch.

    Args:
        kind: ``cpu``, or ``cuda`` for torch's current GPU.

    Raises:
        UsageFault: ``cuda`` where torch sees no GPU.
    """
    if kind == "cuda":
        return _cuda_facts()
    import torch

    info = _cpuinfo()
    return DeviceFacts(
        kind="cpu",
        arch=platform.machine(),
        name=_cpu_name(info),
        isa=_isa(info),
        threads=torch.get_num_threads(),
        math=math_libraries(torch.__config__.show()),
    )


def _gpu_names() -> Iterator[str]:
    for file in sorted(NVIDIA_GPUS.glob("*/information")):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "Model":
                yield value.strip()


def machine_facts() -> tuple[DeviceFacts, ...]:
    """Return what can be told without torch: the CPU, then each kind of NVIDIA GPU by the driver's name for it.

    It is enough to choose device profiles by; thread count is the core count, math library and GPU arch are empty.
    """
    info = _cpuinfo()
    cpu = DeviceFacts("cpu", platform.machine(), _cpu_name(info), _isa(info), os.cpu_count() or 1)
    return (cpu, *(DeviceFacts("cuda", "", name) for name in dict.fromkeys(_gpu_names())))


def matches(spec: DeviceSpec, facts: DeviceFacts) -> str | None:
    """Return None when ``facts`` are those of the profile, else what differs.

    Args:
        spec: A device profile.
        facts: A present device.
    """
    if spec.kind != facts.kind:
        return f"device {spec.name} is a {spec.kind} device, this is {facts.kind} {facts.name}"
    for fact, glob in spec.match.items():
        value = getattr(facts, fact)
        values = value if isinstance(value, tuple) else (str(value),)
        if not any(fnmatchcase(one, glob) for one in values):
            shown = ", ".join(values) or "nothing"
            return f"device {spec.name} needs {fact} {glob}, this machine shows {shown}"
    return None
