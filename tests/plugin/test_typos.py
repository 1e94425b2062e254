"""A filter that matches nothing is a usage fault that names what was meant, whichever filter it is."""

from __future__ import annotations

import pytest

from pytest_frt.devices.probe import machine_facts
from pytest_frt.errors import UsageFault
from pytest_frt.expand import expand
from pytest_frt.registry import Registry
from pytest_frt.selection import wanted
from pytest_frt.settings import Settings

HOST = "--frt-host=qwen3"
TYPOS = {
    "host": ("qwen4", "'qwen3'"),
    "structure": ("decoder_fnn", "'decoder_ffn'"),
    "impl": ("torch_pakced", "'torch_packed'"),
    "scheme": ("w16a23", "'w16a32'"),
    "device": ("cpuu", "'cpu'"),
    "phase": ("decod", "'decode'"),
}
OTHERS = {
    "gate": ("partiy", "'parity'"),
    "form": ("eagre", "'eager'"),
    "size": ("tinny", "'tiny'"),
}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.load()


def refused(pytester: pytest.Pytester, registry: Registry, *args: str) -> str:
    """Return the fault of a command line up to its cells."""

    def cells() -> object:
        asked = wanted(Settings(pytester.parseconfig(*args)), registry, machine_facts(), is_worker=False)
        return expand(asked.settings.selection, asked.registry, machine_facts())

    with pytest.raises(UsageFault) as caught:
        cells()
    return caught.value.diagnostics()


@pytest.mark.parametrize("side", ["", "exclude-"], ids=["keep", "drop"])
@pytest.mark.parametrize("name", TYPOS)
def test_typo_in_a_filter_is_named(pytester: pytest.Pytester, registry: Registry, name: str, side: str) -> None:
    typo, meant = TYPOS[name]
    said = refused(pytester, registry, *([HOST] if side or name != "host" else []), f"--frt-{side}{name}={typo}")
    assert typo in said
    assert f"did you mean {meant}" in said


@pytest.mark.parametrize("name", OTHERS)
def test_typo_in_a_choice_is_named(pytester: pytest.Pytester, registry: Registry, name: str) -> None:
    typo, meant = OTHERS[name]
    said = refused(pytester, registry, HOST, f"--frt-{name}={typo}")
    assert typo in said
    assert f"did you mean {meant}" in said
