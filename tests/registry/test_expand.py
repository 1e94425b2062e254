"""Selections become cells: what runs, what cannot run here and why, and what nobody has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.errors import MissingExtra, ProviderBroken, UsageFault
from pytest_frt.expand import NotSupported, Planned, expand
from pytest_frt.registry import Registry

CPU = DeviceFacts("cpu", "x86_64", "Toy CPU", ("avx2",), 2, "mkl")
GPU = DeviceFacts("cuda", "sm_90", "NVIDIA H200 NVL")
Install = Callable[[str, Mapping[str, str]], Path]
Files = Callable[..., dict[str, str]]


@dataclass(frozen=True)
class Asked:
    include: dict[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: dict[str, tuple[str, ...]] = field(default_factory=dict)


def ask(**globs: str | tuple[str, ...]) -> Asked:
    """Make a selection: ``host="a"`` keeps, ``not_host="a"`` drops."""
    tuples = {name: (glob,) if isinstance(glob, str) else glob for name, glob in globs.items()}
    keep = {name: value for name, value in tuples.items() if not name.startswith("not_")}
    return Asked(keep, {name[4:]: value for name, value in tuples.items() if name.startswith("not_")})


IMPL = """
from pytest_frt.sdk import Impl

IMPL = Impl(
    name="{name}", structure="{structure}", version=1, schemes={schemes}, kernel="a/b",
    rows={{scheme: (1, 8) for scheme in ()}}, devices={devices}, emulate={emulate},
)
"""


def impl(
    name: str, structure: str, schemes: tuple[str, ...], devices: tuple[str, ...], emulate: tuple[str, ...] = ()
) -> dict[str, str]:
    rows = dict.fromkeys(schemes, (1, 8))
    text = IMPL.format(name=name, structure=structure, schemes=schemes, devices=devices, emulate=emulate)
    return {f"impls/{structure}/{name}.py": text.replace("{scheme: (1, 8) for scheme in ()}", repr(rows))}


@pytest.fixture
def registry(install: Install, toy: Files, structure_files: Files, host_files: Files, scheme_file: Files) -> Registry:
    files = {
        **toy(),
        **structure_files("yarn"),
        **host_files("crate", "structures: [yarn]"),
        **scheme_file("loose"),
        **impl("knit", "yarn", ("exact", "loose"), ("cpu",)),
        **impl("warp", "yarn", ("exact",), ("cuda",)),
        **impl("knit", "toy", ("absent",), ("cpu",)),
        **impl("both", "toy", ("exact", "loose"), ("cpu", "cuda"), ("loose",)),
    }
    install("acme", files)
    found = Registry.load()
    assert found.broken == ()
    mine = {"hosts": ("box", "crate"), "structures": ("toy", "yarn"), "schemes": ("exact", "loose")}
    tables = {table: {name: getattr(found, table)[name] for name in names} for table, names in mine.items()}
    impls = {name: entry for name, entry in found.impls.items() if entry.impl.structure in ("toy", "yarn")}
    devices = {name: entry for name, entry in found.devices.items() if name != "abacus"}
    return Registry(**tables, impls=impls, devices=devices)


def shown(rows: tuple[Planned | NotSupported, ...]) -> dict[str, str]:
    return {row.cell.id: row.reason if isinstance(row, NotSupported) else "" for row in rows}


def test_all_is_every_cell_that_declarations_allow(registry: Registry) -> None:
    assert shown(expand(ask(host="all"), registry, CPU)) == {
        "toy-both-box-exact-cpu": "",
        "toy-both-box-loose-cpu": "",
        "toy-fast-box-exact-cpu": "",
        "toy-knit-box-absent-cpu": "scheme absent is not installed",
        "yarn-knit-box-exact-cpu": "",
        "yarn-knit-box-loose-cpu": "",
        "yarn-warp-box-exact-cpu": "impl warp runs on cuda, device cpu is cpu",
        "yarn-knit-crate-exact-cpu": "",
        "yarn-knit-crate-loose-cpu": "",
        "yarn-warp-crate-exact-cpu": "impl warp runs on cuda, device cpu is cpu",
    }


def test_filters_keep_then_drop(registry: Registry) -> None:
    asked = ask(host="b*", structure=("yarn", "t*"), not_impl=("wa*", "both"), not_scheme=("exact", "absent"))
    assert shown(expand(asked, registry, CPU)) == {"yarn-knit-box-loose-cpu": ""}


def test_absent_device_is_a_row_and_never_a_cell(registry: Registry) -> None:
    (row,) = expand(ask(host="box", impl="warp", device="thor"), registry, CPU)
    said = "device thor is a cuda device, this is cpu Toy CPU; impl warp declares no emulation of exact"
    assert row == NotSupported(row.cell, said, absent=True)


def test_impl_that_does_not_run_on_the_kind_of_an_absent_device_says_so(registry: Registry) -> None:
    (row,) = expand(ask(host="box", impl="knit", structure="yarn", scheme="loose", device="thor"), registry, CPU)
    assert row == NotSupported(row.cell, "impl knit runs on cpu, device thor is cuda")


def test_reason_speaks_of_the_device_of_its_kind(registry: Registry) -> None:
    (row,) = expand(ask(host="box", impl="warp", device="thor"), registry, (CPU, GPU))
    assert shown((row,)) == {
        "yarn-warp-box-exact-thor": "device thor needs name *Thor*, this machine shows NVIDIA H200 NVL; "
        "impl warp declares no emulation of exact"
    }


def test_present_devices_are_the_default(registry: Registry) -> None:
    rows = expand(ask(host="box", impl="warp"), registry, (CPU, GPU))
    planned = {row.cell.device for row in rows if isinstance(row, Planned)}
    assert planned == {"h200"}


@pytest.fixture
def slate(registry: Registry, install: Install) -> Registry:
    """Return the registry with an absent device that admits the emulation of ``loose``."""
    install("stone", {"devices/slate.yaml": "name: slate\nkind: cuda\nmatch: {name: '*Slate*'}\nemulate: [loose]\n"})
    return replace(registry, devices={**registry.devices, "slate": Registry.load().devices["slate"]})


def test_absent_device_is_emulated_where_impl_and_device_say_so(slate: Registry) -> None:
    rows = expand(ask(host="box", structure="toy", impl="both", device="slate"), slate, CPU)
    assert {row.cell.scheme: isinstance(row, Planned) and row.emulated for row in rows} == {
        "exact": False,
        "loose": True,
    }


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("thor", "device thor admits no emulation of loose"),
        ("sla*", "--frt-device=slate emulates its numerics"),
    ],
    ids=["device_does_not_admit_it", "device_by_a_glob"],
)
def test_absent_device_is_not_emulated(slate: Registry, device: str, said: str) -> None:
    asked = ask(host="box", structure="toy", impl="both", scheme="loose", device=device)
    (row,) = expand(asked, slate, CPU)
    assert isinstance(row, NotSupported)
    assert row.reason.endswith(f"; {said}")
    assert row.absent


def test_present_device_is_never_emulated(slate: Registry) -> None:
    there = replace(GPU, name="Slate")
    rows = expand(ask(host="box", structure="toy", impl="both", device="slate"), slate, (CPU, there))
    assert {type(row) for row in rows} == {Planned}
    assert not any(isinstance(row, Planned) and row.emulated for row in rows)


@pytest.mark.parametrize(
    ("globs", "reason"),
    [
        ({"host": "box", "structure": "toy", "impl": "fast", "scheme": "loose"}, "impl fast runs exact, not loose"),
        ({"host": "crate", "structure": "toy", "impl": "fast"}, "host crate declares yarn, not toy"),
    ],
    ids=["scheme_of_another_impl", "structure_of_another_host"],
)
def test_impossible_combination_shows_only_when_spelled_out(
    registry: Registry, globs: dict[str, str], reason: str
) -> None:
    assert list(shown(expand(ask(**globs), registry, CPU)).values()) == [reason]
    with pytest.raises(UsageFault, match="select no cell"):
        expand(ask(**{name: f"{glob}*" for name, glob in globs.items()}), registry, CPU)


@pytest.mark.parametrize(
    ("globs", "message", "hint"),
    [
        ({"host": "boxx"}, "--frt-host=boxx matches no host", "did you mean 'box'? known: box, crate"),
        ({"structure": "foo"}, "--frt-structure=foo matches no structure", "known: toy, yarn"),
        ({"host": "box", "impl": "wrap"}, "--frt-impl=wrap matches no impl", "did you mean 'warp'?"),
        ({"host": ("box", "cr8")}, "--frt-host=cr8 matches no host", "crate"),
        ({"not_scheme": "exac"}, "--frt-exclude-scheme=exac matches no scheme", "did you mean 'exact'?"),
        ({"device": "tor"}, "--frt-device=tor matches no device", "did you mean 'thor'?"),
        ({"not_host": "*"}, "--frt-exclude-host leaves no host", ""),
    ],
    ids=["host", "structure", "impl", "one_of_two", "exclude", "device", "all_dropped"],
)
def test_filter_that_matches_nothing_is_a_usage_error(
    registry: Registry, globs: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(UsageFault) as caught:
        expand(ask(**globs), registry, CPU)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_filter_that_names_a_broken_entry_says_why(install: Install, toy: Files) -> None:
    (install("acme", toy()) / "hosts/box/host.py").unlink()
    with pytest.raises(ProviderBroken, match=r"host\.py is missing"):
        expand(ask(host="box"), Registry.load(), CPU)


def test_missing_extra_fails_by_name_and_is_a_row_by_glob(install: Install, toy: Files) -> None:
    install("acme", toy("requires: {no_such_library.inner: hosts}"))
    registry = Registry.load()
    with pytest.raises(MissingExtra, match="needs no_such_library") as caught:
        expand(ask(host="box", structure="toy"), registry, CPU)
    assert "pytest-frt[hosts]" in caught.value.hint
    (row,) = expand(ask(host="bo*", structure="toy", device="cpu"), registry, CPU)
    assert isinstance(row, NotSupported)
    assert "pytest-frt[hosts]" in row.reason
