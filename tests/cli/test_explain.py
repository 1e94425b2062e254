"""``frt explain`` says what a cell is and whether it runs here, and what files state without believing them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.cell import Cell
from pytest_frt.certs import store
from pytest_frt.registry import Registry

Frt = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def world(repository: Path) -> Any:
    """Return the world of tests/certs: a record, a plan and keys."""
    file = repository / "tests" / "certs" / "conftest.py"
    spec = importlib.util.spec_from_file_location("frt_explain_world", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.World()


@pytest.fixture
def cell() -> str:
    """Return an installed cell that is declared to run on a CPU."""
    registry = Registry.load()
    entry = next(
        one for one in registry.impls.values() if "cpu" in one.impl.devices and one.impl.structure == "decoder_ffn"
    )
    host = next(
        one for one in registry.hosts.values() if not one.spec.structures or entry.impl.structure in one.spec.structures
    )
    return f"{entry.impl.structure}-{entry.impl.name}-{host.spec.name}-{entry.impl.schemes[0]}-cpu"


def test_cell_tells_its_parts_and_that_it_runs_here(frt: Frt, cell: str) -> None:
    status, out, _ = frt("explain", cell)
    assert status == 0
    for word in ("structure ", "impl ", "host ", "runs here", "0 certificates and statements under frt-certs"):
        assert f"  {word}" in out


def test_cell_of_a_device_that_its_impl_does_not_run_on_tells_why(frt: Frt, cell: str) -> None:
    out = frt("explain", cell.removesuffix("cpu") + "thor")[1]
    assert "does not run here: impl " in out
    assert " runs on cpu, device thor is cuda" in out


@pytest.mark.parametrize(
    ("emulate", "said"),
    [
        ((), "does not run here: device thor is a cuda device"),
        (("fp8_static",), "emulated on cpu in the place of thor"),
    ],
    ids=["not_emulated", "emulated"],
)
def test_cell_of_an_absent_device_tells_what_is_shown_here(
    frt: Frt, monkeypatch: pytest.MonkeyPatch, emulate: tuple[str, ...], said: str
) -> None:
    registry = Registry.load()
    entry = registry.impls["decoder_ffn/torch_fp8"]
    both = replace(entry, impl=replace(entry.impl, devices=("cpu", "cuda"), emulate=emulate))
    known = replace(registry, impls={"decoder_ffn/torch_fp8": both})
    monkeypatch.setattr(Registry, "load", lambda: known)
    assert said in frt("explain", "decoder_ffn-torch_fp8-qwen3-fp8_static-thor")[1]


def test_unknown_part_is_named_with_the_nearest(frt: Frt, cell: str) -> None:
    structure = cell.partition("-")[0]
    status, _, err = frt("explain", cell.replace(structure, structure[:-1], 1))
    assert status == 4
    assert f"did you mean '{structure}'" in err


@pytest.mark.parametrize("what", ["certs/none", "/none", "a.json", f"x{store.CERTIFICATE_SUFFIX}", "frt-certs", "a@b"])
def test_a_missing_path_is_called_missing(frt: Frt, what: str) -> None:
    status, out, err = frt("explain", what)
    assert (status, out) == (4, "")
    assert f"{what} is missing" in err or f"no file or directory {what}" in err
    assert "next: give a file or directory of certificates or statements, a cell id" in err


def test_neither_file_nor_cell_is_a_fault(frt: Frt) -> None:
    status, _, err = frt("explain", "nonsense")
    assert status == 4
    assert "needs 5: structure-impl-host-scheme-device" in err


def test_statement_is_told_whole_and_called_unsigned(frt: Frt, world: Any) -> None:
    path = store.write_statement("certs", world.payload())
    status, out, _ = frt("explain", path)
    assert status == 0
    for said in (
        "unsigned: activates nothing",
        "2 seats:",
        "model.layers.2.mlp: parity: relative L2 0.2 > 0.002",
        "latency.net_win 1.31 >= 1.02 (frt_nw_1 of 24)",
        "signatures and files are not checked here",
    ):
        assert said in out


def test_certificate_only_claims_its_signer(frt: Frt, world: Any) -> None:
    store.write_certificate("certs", world.line().decode())
    out = frt("explain", "certs")[1]
    assert f"claims to be signed by {world.alice.public.keyid}" in out


def test_record_finds_its_files_and_the_plans_it_is_in(frt: Frt, world: Any, cell: str) -> None:
    key = replace(world.record.key, cell=Cell.parse(cell))
    record = replace(world.record, key=key, host=replace(world.record.host, name=key.cell.host))
    payload = world.payload(record)
    store.write_statement("frt-certs", payload)
    store.write_statement("frt-certs", world.plan(payload, host=record.host))
    out = frt("explain", key.id)[1]
    assert "2 certificates and statements under frt-certs" in out


def test_damaged_file_is_refused_with_its_code(frt: Frt, tmp_path: Path) -> None:
    tmp_path.joinpath("x.frt.intoto.jsonl").write_text("{}\n")
    status, out, err = frt("explain", "x.frt.intoto.jsonl")
    assert (status, out) == (1, "")
    assert err.startswith("frt: [")


def test_directory_without_certificates_is_a_usage_fault(frt: Frt, tmp_path: Path) -> None:
    status, _, err = frt("explain", tmp_path)
    assert status == 4
    assert "holds no certificate and no statement" in err
