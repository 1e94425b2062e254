"""The present machine is described by what its kernels dispatch on, and profiles match by facts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pytest_frt.contracts.device import DeviceFacts, DeviceSpec
from pytest_frt.devices import probe

CPU = DeviceFacts("cpu", "x86_64", "AMD EPYC 7763", ("avx2", "fma"), 2, "mkl,onednn")
X86 = "processor : 0\nmodel name : AMD EPYC 7763\nflags : fpu avx2 fma avx512_vnni amx_int8 rdrand\n\nflags : avx512f\n"
ARM = "processor : 0\nFeatures : fp asimd sve2 i8mm crc32\nCPU implementer : 0x41\nCPU part : 0xd4f\n\n"


@pytest.mark.parametrize(
    ("text", "name", "isa"),
    [
        (X86, "AMD EPYC 7763", ("amx_int8", "avx2", "avx512_vnni", "fma")),
        (ARM, "0x41 0xd4f", ("asimd", "i8mm", "sve2")),
    ],
    ids=["x86", "arm"],
)
def test_cpu_facts_are_read(
    text: str, name: str, isa: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(probe, "CPUINFO", tmp_path / "cpuinfo")
    facts = probe.present_facts()
    assert (facts.name, facts.isa, facts.threads) == (name, isa, torch.get_num_threads())


def test_gpus_are_found_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for slot in ("0000:01:00.0", "0000:02:00.0"):
        folder = tmp_path / slot
        folder.mkdir()
        (folder / "information").write_text("Model: \t\t NVIDIA H200\nIRQ: 3\n")
    monkeypatch.setattr(probe, "NVIDIA_GPUS", tmp_path)
    cpu, gpu = probe.machine_facts()
    assert (cpu.kind, cpu.math, gpu) == ("cpu", "", DeviceFacts("cuda", "", "NVIDIA H200"))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("Intel(R) oneAPI Math Kernel Library Version 2024\n - Intel(R) MKL-DNN v3.12.0", "mkl,onednn"),
        ("BLAS_INFO=open, USE_MKLDNN_ACL=ON, oneDNN v3.5", "openblas,onednn,acl"),
        ("nothing", ""),
    ],
    ids=["mkl", "arm", "none"],
)
def test_math_libraries_are_named(config: str, expected: str) -> None:
    assert probe.math_libraries(config) == expected


@pytest.mark.parametrize(
    ("kind", "match", "word"),
    [
        ("cpu", {}, None),
        ("cpu", {"name": "*EPYC*", "isa": "avx*", "threads": "2"}, None),
        ("cuda", {}, "is a cuda device, this is cpu AMD EPYC 7763"),
        ("cpu", {"isa": "avx512*"}, "needs isa avx512*, this machine shows avx2, fma"),
        ("cpu", {"arch": "aarch64"}, "needs arch aarch64, this machine shows x86_64"),
        ("cpu", {"threads": "20"}, "needs threads 20"),
    ],
    ids=["any_cpu", "by_three_facts", "other_kind", "flag_missing", "other_arch", "other_threads"],
)
def test_profile_matches_by_facts(kind: str, match: dict[str, str], word: str | None) -> None:
    found = probe.matches(DeviceSpec("box", kind, match), CPU)
    assert found is None if word is None else word in str(found)
