"""Which records a CPU judges in the place of an absent device, and what a run on that device would judge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.errors import EvidenceError
from pytest_frt.registry import Registry
from pytest_frt.run import proof
from pytest_frt.run.config import RunConfig, Selection
from pytest_frt.run.emulation import label
from pytest_frt.run.fraction import split
from pytest_frt.run.kernel_words import LocalBuild
from pytest_frt.run.plan import RunPlan, plan_run

CPU = DeviceFacts("cpu", "x86_64", "Toy CPU", ("avx2",), 2, "mkl")
THOR = DeviceFacts("cuda", "", "NVIDIA Thor")
NAME: Final = "decoder_ffn/torch_fp8"
DECODE: Final = "decoder_ffn-torch_fp8-qwen3-fp8_static-thor@eager.decode.tiny.hot"


@pytest.fixture(scope="module")
def registry() -> Registry:
    """Return a registry with an impl that also runs on CUDA devices, and that a CPU may stand in for in one scheme."""
    known = Registry.load()
    entry = known.impls[NAME]
    declared = replace(entry.impl, devices=("cpu", "cuda"), emulate=("fp8_static",))
    return replace(known, impls={NAME: replace(entry, impl=declared)})


def plan(registry: Registry, *facts: DeviceFacts, **more: Any) -> RunPlan:
    """Return the plan of a run on ``thor``, on a machine with these devices."""
    globs = {"host": ("qwen3",), "impl": ("torch_fp8",), "device": ("thor",), "phase": ("decode",)}
    plain: dict[str, Any] = dict.fromkeys(("size", "checkpoint", "sign_key", "json")) | {
        "kernel": (),
        "forms": ("eager",),
    }
    flags: dict[str, Any] = {"quick": False, "timing": True, "comparison": False, "seed": 3, "threads": 2}
    config = RunConfig(Selection(globs | more.pop("globs", {})), out="", cache="", issuer="", **plain | flags | more)
    return plan_run(config, registry, facts or (CPU,))


def test_emulated_record_runs_on_the_cpu_in_no_union(registry: Registry) -> None:
    found = plan(registry)
    (one,) = found.records
    assert (one.id, one.emulated, one.host.request.device) == (DECODE, True, "cpu")
    assert Path(one.unit.kernel_path).name == "torch-cpu"
    assert found.unions == ()
    assert found.emulated == {DECODE: "thor"}


def test_scheme_that_is_not_emulated_is_a_row(registry: Registry) -> None:
    (row,) = plan(registry).not_supported
    assert row.cell.scheme == "fp8_static_keep_outliers"
    assert row.reason.endswith("impl torch_fp8 declares no emulation of fp8_static_keep_outliers")


def test_run_on_the_device_is_listed_whether_it_is_emulated_or_not(registry: Registry) -> None:
    found = plan(registry)
    assert found.away == ("thor",)
    assert [(one.key.cell.scheme, one.kernel, one.emulated) for one in found.elsewhere] == [
        ("fp8_static", "pytest-frt/frt-cpu", True),
        ("fp8_static_keep_outliers", "pytest-frt/frt-cpu", False),
    ]


def test_listed_records_have_the_size_that_the_device_would_run(registry: Registry) -> None:
    found = plan(registry)
    assert [record.key.size for record in found.records] == ["tiny"]
    assert {one.key.size for one in found.elsewhere} == {"full"}
    assert plan(registry, size="tiny").elsewhere[0].key == found.records[0].key


def test_device_that_is_here_is_not_away(registry: Registry) -> None:
    found = plan(registry, CPU, THOR)
    assert (found.away, found.elsewhere, found.records) == ((), (), ())
    assert {row.absent for row in found.not_supported} == {False}  # its kernel has no build for CUDA


def test_form_that_takes_the_device_itself_is_not_emulated(registry: Registry) -> None:
    spec = registry.host("qwen3").spec
    forms = replace(registry.hosts["qwen3"], spec=replace(spec, forms=("eager", "captured")))
    found = plan(replace(registry, hosts={"qwen3": forms}), forms=("captured",), globs={"scheme": ("fp8_static",)})
    assert found.records == ()
    assert [row.reason for row in found.not_supported] == [
        "device thor is absent and cannot be emulated: the captured form takes the device itself"
    ]
    assert [one.emulated for one in found.elsewhere] == [False]


def test_kernel_without_a_build_for_the_cpu_is_a_row_and_no_usage_error(registry: Registry, tmp_path: Path) -> None:
    word = LocalBuild(str(tmp_path), "pytest-frt/frt-cpu")
    found = plan(registry, kernel=(word,), globs={"scheme": ("fp8_static",)})
    assert found.records == ()
    (row,) = found.not_supported
    assert row.reason.startswith("device thor is absent and cannot be emulated: no build in ")


def test_record_globs_choose_what_is_listed(registry: Registry) -> None:
    found = plan(registry, globs={"record": ("*-fp8_static-thor@*",)})
    assert [one.key.cell.scheme for one in found.elsewhere] == ["fp8_static"]


def test_emulated_records_share_no_family_level(registry: Registry) -> None:
    both = plan(registry, globs={"device": ("cpu", "thor"), "scheme": ("fp8_static",)})
    assert sorted(record.emulated for record in both.records) == [False, True]
    assert both.level(0.004) == plan(registry, globs={"device": ("cpu",), "scheme": ("fp8_static",)}).level(0.004)
    parts = [split(both, (index, 2)) for index in (1, 2)]
    assert {part.level(0.004) for part in parts} == {both.level(0.004)}


def test_label_says_what_is_not_shown() -> None:
    assert label("thor") == (
        "emulated on cpu in the place of thor; not shown: accumulation order and precision of its tensor cores, "
        "its streams and graphs, its speed"
    )


def test_plan_of_a_device_that_is_not_here_cannot_be_proven(registry: Registry) -> None:
    tried: Any = SimpleNamespace(tried=object())
    nothing: Any = None
    with pytest.raises(EvidenceError, match="nothing can be stated of thor here: device thor is a cuda device"):
        proof.plan_of(proof.Bench(registry, 1, 0), "u", [DECODE], {}, tried, nothing, nothing, device="cpu")
