"""What options select: host folders, gates, phases and the defaults of device profiles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.contracts.device import DeviceFacts, DeviceSpec
from pytest_frt.errors import FrtError, SpecError, UsageFault
from pytest_frt.registry import DeviceEntry, Provider, Registry
from pytest_frt.selection import Wanted, wanted
from pytest_frt.settings import Settings

FACTS = (DeviceFacts("cpu", "x86_64", "Some CPU", threads=4),)
HOST = """
name: box
summary: A toy.
output: values
sizes: [tiny]
weights: {tiny: random}
forms: [eager]
phases: [{name: decode, rows: [1, 8], timed_rows: 1, score_positions: 4}]
calibration_samples: 2
heldout_samples: 3
"""
Want = Callable[..., Wanted]


@pytest.fixture
def want(pytester: pytest.Pytester) -> Want:
    """Return a function that resolves a command line against one host and one CPU profile with given defaults."""

    def resolve(*args: str, **defaults: str) -> Wanted:
        folder = pytester.path / "box"
        folder.mkdir(exist_ok=True)
        folder.joinpath("host.yaml").write_text(HOST)
        folder.joinpath("host.py").write_text("")
        device = DeviceSpec("abacus", "cpu", {}, defaults=defaults)
        entry = DeviceEntry(device, Path("abacus.yaml"), Provider("devices", "", "acme", Path()))
        registry = Registry(devices={"abacus": entry}).with_host(folder)
        return wanted(Settings(pytester.parseconfig(*args)), registry, FACTS, is_worker=False)

    return resolve


def test_host_folder_goes_by_its_name_and_is_named_again_in_reruns(want: Want, pytester: pytest.Pytester) -> None:
    found = want("--frt-host=./box,other*")
    assert found.settings.selection.include["host"] == ("box", "other*")
    assert found.folders == {"box": pytester.path / "box"}


def test_profile_of_the_present_device_gives_defaults(want: Want) -> None:
    found = want("--frt-host=box", threads="2", quick="yes")
    assert (found.settings.threads, found.settings.quick) == (2, True)
    assert found.settings.origins["threads"] == "device profile abacus"


def test_profile_of_a_device_that_was_not_asked_for_gives_none(want: Want) -> None:
    assert want("--frt-host=box", "--frt-device=thor", threads="2").settings.threads == 4


def test_gate_globs_keep_gates_in_order(want: Want) -> None:
    assert want("--frt-host=box", "--frt-gate=net_win,par*").gates == ("parity", "net_win")


@pytest.mark.parametrize(
    ("args", "defaults", "kind", "message"),
    [
        (["--frt-gate=partiy"], {}, UsageFault, "did you mean 'parity'"),
        (["--frt-phase=decod"], {}, UsageFault, "did you mean 'decode'"),
        (["--frt-exclude-phase=prefil"], {}, UsageFault, "--frt-exclude-phase=prefil matches no phase"),
        (["--frt-host=./nowhere"], {}, UsageFault, "holds no host.yaml"),
        ([], {"thread": "2"}, SpecError, "did you mean 'threads'"),
        ([], {"host": "box"}, SpecError, "has a default for 'host'"),
    ],
    ids=["gate_typo", "phase_typo", "excluded_phase_typo", "no_host_folder", "profile_typo", "profile_selects"],
)
def test_typo_is_named_with_the_nearest_word(
    want: Want, args: list[str], defaults: dict[str, str], kind: type[FrtError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        want("--frt-host=box", *args, **defaults)
    assert message in caught.value.diagnostics()


@pytest.mark.parametrize(
    ("text", "said"),
    [("2", "is no I,N"), ("a,b", "is no I,N"), ("0,4", "counts from 1 to 4"), ("5,4", "counts from 1 to 4")],
)
def test_fraction_that_is_none_is_named(want: Want, text: str, said: str) -> None:
    with pytest.raises(UsageFault, match=said):
        want("--frt-host=box", f"--frt-fraction={text}")


def test_fraction_is_two_numbers(want: Want) -> None:
    assert want("--frt-host=box", "--frt-fraction=2,4").settings.fraction == (2, 4)
    assert want("--frt-host=box").settings.fraction is None
