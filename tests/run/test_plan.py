"""A plan holds what can be proven here, and a row with its reason for what cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.cell import RecordKey
from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.errors import UsageFault
from pytest_frt.registry import Registry
from pytest_frt.run.config import RunConfig, Selection
from pytest_frt.run.plan import RunPlan, plan_run
from pytest_frt.run.regimes import default_size

CPU = DeviceFacts("cpu", "x86_64", "Toy CPU", ("avx2",), 2, "mkl")
ONE = {"host": "qwen3", "structure": "decoder_ffn", "impl": "torch_packed", "scheme": "w16a32"}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.load()


def plan(
    registry: Registry,
    *,
    forms: tuple[str, ...] = ("eager",),
    size: str | None = "tiny",
    cache_states: tuple[str, ...] = ("hot",),
    **globs: str,
) -> RunPlan:
    include = {name: (glob,) for name, glob in (ONE | globs).items() if glob}
    plain: dict[str, Any] = dict.fromkeys(("checkpoint", "sign_key", "json")) | {"kernel": ()}
    flags: dict[str, Any] = {"quick": False, "timing": True, "comparison": False, "seed": 3, "threads": 2}
    config = RunConfig(Selection(include), forms, size, out="/out", cache="/cache", issuer="", **plain, **flags)
    return plan_run(replace(config, cache_states=cache_states), registry, [CPU])


def test_every_phase_of_a_cell_is_a_record_with_its_own_union(registry: Registry) -> None:
    found = plan(registry)
    assert [record.id for record in found.records] == [
        "decoder_ffn-torch_packed-qwen3-w16a32-cpu@eager.decode.tiny.hot",
        "decoder_ffn-torch_packed-qwen3-w16a32-cpu@eager.prefill.tiny.hot",
    ]
    assert [(union.id, len(union.records)) for union in found.unions] == [
        ("qwen3-cpu@eager.decode.tiny.hot", 1),
        ("qwen3-cpu@eager.prefill.tiny.hot", 1),
    ]
    assert found.not_supported == ()


def test_cold_and_hot_are_records_and_unions_of_their_own(registry: Registry) -> None:
    found = plan(registry, cache_states=("hot", "cold"), phase="decode")
    states = ["cold", "hot"]
    assert [record.id.rpartition(".")[2] for record in found.records] == states
    assert [union.id.rpartition(".")[2] for union in found.unions] == states
    assert RecordKey.parse(found.records[0].id).cache == "cold"


def test_record_says_what_a_worker_needs(registry: Registry) -> None:
    record = plan(registry, phase="decode").records[0]
    assert (record.host.request.size, record.host.request.seed, record.host.threads) == ("tiny", 3, 2)
    assert record.unit.rows == (1, 8)
    assert len(record.unit.kernel_digest) == 64
    files = (record.unit.impl_file, record.unit.scheme_file)
    folders = (record.unit.structure_folder, record.unit.kernel_path, record.host.folder)
    assert all(Path(file).is_file() for file in files)
    assert all(Path(folder).is_dir() for folder in folders)


def test_records_of_one_host_and_phase_share_a_union(registry: Registry) -> None:
    found = plan(registry, structure="", impl="", scheme="", phase="decode")
    (union,) = found.unions
    assert union.records == found.records
    assert len({record.key.cell.structure for record in union.records}) > 1


def test_form_that_a_host_lacks_is_a_row(registry: Registry) -> None:
    found = plan(registry, forms=("eager", "captured"), phase="decode")
    assert len(found.records) == 1
    assert [row.reason for row in found.not_supported] == ["host qwen3 has no captured form"]


def test_impl_that_admits_no_selected_phase_is_a_row_beyond_tiny_size(registry: Registry) -> None:
    name = "gemma3_270m"
    found = plan(registry, host=name, size="real", phase="prefill")
    assert found.records == ()
    assert [row.reason for row in found.not_supported] == [
        "impl admits 1-8 rows, no selected phase of the host lies there"
    ]


def test_size_that_a_host_lacks_is_a_usage_fault(registry: Registry) -> None:
    with pytest.raises(UsageFault, match=r"host qwen3 has no size 'real'; it has tiny, full"):
        plan(registry, size="real")


def test_absent_device_is_rows_only(registry: Registry) -> None:
    found = plan(registry, device="thor")
    assert (found.records, found.unions) == ((), ())
    assert found.not_supported


def test_kernel_that_is_not_here_is_a_row(registry: Registry) -> None:
    entry = registry.impl("decoder_ffn", "torch_packed")
    moved = replace(entry, impl=replace(entry.impl, kernel="acme/nowhere"))
    found = plan(replace(registry, impls={"decoder_ffn/torch_packed": moved}))
    assert found.records == ()
    assert all("acme/nowhere" in row.reason for row in found.not_supported)


@pytest.mark.parametrize(
    ("host", "kind", "size"), [("gemma3_270m", "cpu", "real"), ("qwen3", "cpu", "tiny"), ("qwen3", "cuda", "full")]
)
def test_default_size(registry: Registry, host: str, kind: str, size: str) -> None:
    assert default_size(registry.host(host).spec, kind) == size


def test_default_size_on_an_accelerator_is_full_where_there_is_one(registry: Registry) -> None:
    spec = replace(registry.host("qwen3").spec, sizes=("tiny", "full"))
    assert [default_size(spec, kind) for kind in ("cpu", "cuda")] == ["tiny", "full"]


def test_family_level_is_shared_by_records_and_unions_of_several(registry: Registry) -> None:
    one, several = plan(registry, phase="decode"), plan(registry, structure="", impl="", scheme="", phase="decode")
    judged = len(several.records) + 1
    assert several.level(0.01) == 0.01 / judged
    assert replace(several, aside=("elsewhere",)).level(0.01) == 0.01 / (judged + 1)
    assert one.level(0.01) == 0.005  # never looser than what a certificate is held to
    assert (several.level(None), RunPlan((), (), ()).level(0.01)) == (None, None)
