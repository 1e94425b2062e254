"""Stage pipelines are found beside structures, and one that embeds what is not there is broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pytest_frt.errors import ProviderBroken, SpecError, UsageFault
from pytest_frt.registry import Registry

Install = Callable[[str, Mapping[str, str]], Path]
Files = Callable[..., dict[str, str]]
PIPELINE = """
name: relay
version: 1
summary: A toy.
stages: [{name: run, cadence: tick, summary: Runs.}]
windows: [{name: x, role: input, cadence: tick, summary: In.}, {name: y, role: output, cadence: tick, summary: Out.}]
embeds: [toy]
parity: {window: y, metrics: [cosine], same: [x]}
conformance: [{name: runs, summary: Runs.}]
"""
SOURCE = "class Host: ...\ndef runs(host): ...\n"


@pytest.fixture
def files(toy: Files) -> dict[str, str]:
    return {**toy(), "catalog/relay/pipeline.yaml": PIPELINE, "catalog/relay/conformance.py": SOURCE}


def test_pipeline_is_found_beside_structures(install: Install, files: dict[str, str]) -> None:
    folder = install("acme", files)
    found = Registry.load()
    assert found.broken == ()
    assert found.pipeline("relay").conformance_file == folder / "catalog/relay/conformance.py"
    assert ("relay" in found.structures, "toy" in found.pipelines) == (False, False)


def test_pipeline_may_embed_what_another_package_brings(install: Install, files: dict[str, str]) -> None:
    install("acme", {name: text for name, text in files.items() if "relay" not in name})
    install("box", {name: text for name, text in files.items() if "relay" in name})
    assert Registry.load().pipeline("relay").spec.embeds == ("toy",)


def test_pipeline_that_embeds_what_is_not_there_is_broken_and_nothing_else(
    install: Install, files: dict[str, str]
) -> None:
    install("acme", {name: text.replace("embeds: [toy]", "embeds: [gone]") for name, text in files.items()})
    found = Registry.load()
    (fault,) = found.broken
    assert (fault.group, fault.name, "embeds: gone: not in the catalog" in fault.reason) == ("catalog", "relay", True)
    assert "toy" in found.structures
    with pytest.raises(ProviderBroken, match="relay"):
        found.pipeline("relay")


def test_pipeline_of_another_name_is_a_usage_fault() -> None:
    with pytest.raises(UsageFault, match="no catalog entry is called 'vla'"):
        Registry.load().pipeline("vla")


def test_one_name_for_structure_and_pipeline_is_refused(install: Install, files: dict[str, str]) -> None:
    both = {
        "catalog/toy/pipeline.yaml": PIPELINE.replace("name: relay", "name: toy"),
        "catalog/toy/conformance.py": SOURCE,
    }
    install("acme", files | both)
    with pytest.raises(SpecError, match="'toy' is given twice"):
        Registry.load()
