"""``auto`` is the scheme that a device's facts speak for; reports say which, on what fact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_frt import selection
from pytest_frt.contracts.device import DeviceFacts, DeviceSpec
from pytest_frt.errors import UsageFault
from pytest_frt.registry import Broken, DeviceEntry, Provider, Registry
from pytest_frt.report.header import header
from pytest_frt.run.config import RunConfig
from pytest_frt.run.plan import RunPlan
from pytest_frt.schemes._auto import choose
from pytest_frt.selection import wanted
from pytest_frt.settings import Settings

CPU = DeviceFacts("cpu", "x86_64", "Some CPU", threads=4)
ADA, AMPERE = DeviceFacts("cuda", "sm_89", "Ada"), DeviceFacts("cuda", "sm_86", "Ampere")
Run = Callable[..., RunConfig]


@pytest.mark.parametrize(
    ("arch", "scheme"),
    [("sm_80", "none"), ("sm_86", "none"), ("sm_89", "fp8_static"), ("sm_90", "fp8_static"), ("sm_120", "fp8_static")],
)
def test_architecture_decides_and_is_named(arch: str, scheme: str) -> None:
    choice = choose("gpu", DeviceFacts("cuda", arch, "Some GPU"))
    assert (choice.scheme, choice.device) == (scheme, "gpu")
    assert {arch, "sm_89"} <= set(choice.because.replace(",", "").split())


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (CPU, "x86_64 declares no FP8"),
        (DeviceFacts("cuda", "gfx942", "Other"), "gfx942 declares"),
        (None, "not present"),
    ],
    ids=["cpu", "other_words", "absent"],
)
def test_what_does_not_show_fp8_gets_none(facts: DeviceFacts | None, words: str) -> None:
    choice = choose("box", facts)
    assert choice.scheme == "none"
    assert words in choice.because


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.load()


@pytest.fixture
def run(pytester: pytest.Pytester, registry: Registry) -> Run:
    """Return a function that resolves a command line on a machine with the given GPUs beside its CPU."""

    def resolve(*args: str, gpus: tuple[DeviceFacts, ...] = (), **changes: Any) -> RunConfig:
        known = {"cpu": DeviceSpec("cpu", "cpu", {})} | {
            gpu.name.lower(): DeviceSpec(gpu.name.lower(), "cuda", {"name": gpu.name}) for gpu in (ADA, AMPERE)
        }
        provider = Provider("devices", "", "acme", Path())
        devices = {name: DeviceEntry(spec, Path(f"{name}.yaml"), provider) for name, spec in known.items()}
        stocked = replace(Registry(devices=devices, schemes=registry.schemes, impls=registry.impls), **changes)
        settings = Settings(pytester.parseconfig("--frt-host=toy", *args))
        return wanted(settings, stocked, (CPU, *gpus), is_worker=False).settings

    return resolve


def test_auto_gives_way_to_the_scheme_and_its_origin_says_why(run: Run) -> None:
    found = run("--frt-scheme=auto")
    assert found.selection.include["scheme"] == ("none",)
    assert found.origins["scheme"] == "command line; auto is none on cpu: x86_64 declares no FP8 multiplication"


def test_header_says_what_auto_is(run: Run) -> None:
    lines = header(run("--frt-scheme=auto"), Registry(), RunPlan((), (), ()), verbose=True)
    assert "frt: scheme from command line; auto is none on cpu: x86_64 declares no FP8 multiplication" in lines


def test_named_device_decides_among_several(run: Run) -> None:
    found = run("--frt-scheme=auto", "--frt-device=ada", gpus=(ADA,))
    assert found.selection.include["scheme"] == ("fp8_static",)
    assert "sm_89" in found.origins["scheme"]


def test_architecture_that_the_driver_does_not_name_is_asked_of_torch(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "present_facts", {"cuda": ADA}.__getitem__)
    found = run("--frt-scheme=auto", "--frt-device=ada", gpus=(replace(ADA, arch=""),))
    assert found.selection.include["scheme"] == ("fp8_static",)


def test_device_all_means_every_device(run: Run) -> None:
    with pytest.raises(UsageFault, match=r"auto is none on cpu: .*; auto is fp8_static on ada: "):
        run("--frt-scheme=auto", "--frt-device=all", gpus=(ADA,))


def test_dropped_device_has_no_say(run: Run) -> None:
    found = run("--frt-scheme=auto", "--frt-exclude-device=cpu", gpus=(ADA,))
    assert found.selection.include["scheme"] == ("fp8_static",)


def test_devices_that_agree_share_the_scheme(run: Run) -> None:
    assert run("--frt-scheme=auto", gpus=(AMPERE,)).selection.include["scheme"] == ("none",)


def test_devices_that_differ_are_a_fault_that_names_them(run: Run) -> None:
    with pytest.raises(UsageFault, match=r"auto is none on cpu: .*; auto is fp8_static on ada: ") as caught:
        run("--frt-scheme=auto", gpus=(ADA,))
    assert caught.value.hint == "name one device, e.g. --frt-device=ada"


def test_other_schemes_are_kept_beside_it_once(run: Run) -> None:
    found = run("--frt-scheme=auto,w16a32", "--frt-scheme=none")
    assert found.selection.include["scheme"] == ("none", "w16a32")


@pytest.mark.parametrize(
    ("word", "meant"), [("atuo", "'auto'"), ("w4a16_decod", "'w4a16_decode'"), ("fp8_statik", "'fp8_static'")]
)
def test_unknown_scheme_lists_all_and_names_the_nearest(run: Run, registry: Registry, word: str, meant: str) -> None:
    with pytest.raises(UsageFault, match=f"--frt-scheme={word} matches no scheme") as caught:
        run(f"--frt-scheme={word}")
    assert caught.value.hint == f"did you mean {meant}? known: {', '.join(sorted({'auto', *registry.schemes}))}"


@pytest.mark.parametrize("glob", ["all", "*", "fp8_*"])
def test_globs_are_left_to_the_cells(run: Run, glob: str) -> None:
    assert run(f"--frt-scheme={glob}").selection.include["scheme"] == (glob,)


def test_scheme_that_only_an_impl_names_is_left_to_the_cells(run: Run) -> None:
    assert run("--frt-scheme=w16a32", schemes={}).selection.include["scheme"] == ("w16a32",)


def test_scheme_that_could_not_be_read_is_told_of_where_it_is_needed(run: Run) -> None:
    broken = (Broken("schemes", "mine", "acme 1", "no SCHEME"),)
    assert run("--frt-scheme=mine", broken=broken).selection.include["scheme"] == ("mine",)
