"""Stage pipelines: what is read is what stands there, and a conformance name is a function, and the other way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_frt.contracts.pipeline import Broken, Holds, NotShown, Pipeline
from pytest_frt.errors import SpecError
from pytest_frt.spec import pipelines
from pytest_frt.spec.load import load_host
from pytest_frt.spec.pipelines import check_embedded, check_told, load_pipeline, read_finding

WriteTree = Callable[[Mapping[str, str]], Path]
PIPELINE = """
name: toy
version: 1
summary: A toy.
stages:
  - {name: read, cadence: request, summary: Reads.}
  - {name: loop, cadence: tick, fixed_steps: true, capture: true, summary: Loops.}
  - {name: tell, cadence: tick, optional: true, summary: Tells.}
windows:
  - {name: seen, role: input, cadence: request, summary: Seen.}
  - {name: noise, role: noise, cadence: tick, summary: Noise.}
  - {name: kept, role: state, cadence: request, summary: Kept.}
  - {name: said, role: output, cadence: tick, summary: Said.}
embeds: [acme]
parity: {window: said, metrics: [cosine], same: [seen, noise]}
conformance:
  - {name: first, summary: Holds first.}
  - name: second
    needs: [first]
    summary: Holds second.
    limits: [{metric: error, op: "<=", value: 2, because: toy}]
"""
CONFORMANCE = """
raise SystemExit('executed while it was read')
class Host: ...
def first(host): ...
def second(host, *, error): ...
def _helper(): ...
"""


@pytest.fixture
def folder(write_tree: WriteTree) -> Path:
    return write_tree({"toy/pipeline.yaml": PIPELINE, "toy/conformance.py": CONFORMANCE}) / "toy"


@pytest.fixture
def toy(folder: Path) -> Pipeline:
    return load_pipeline(folder)


def test_everything_is_read_and_nothing_runs(toy: Pipeline) -> None:
    assert [(stage.optional, stage.fixed_steps, stage.capture) for stage in toy.stages] == [
        (False, False, False),
        (False, True, True),
        (True, False, False),
    ]
    assert toy.parity.same == ("seen", "noise")
    second = toy.checks[1]
    assert (second.needs, second.limits[0].value, second.limits[0].because) == (("first",), 2.0, "toy")


def test_digests_follow_every_byte(toy: Pipeline, folder: Path) -> None:
    (folder / "conformance.py").write_text(f"{CONFORMANCE}# a comment\n")
    after = load_pipeline(folder)
    assert (after.digest, after.conformance_digest == toy.conformance_digest) == (toy.digest, False)


def test_pipelines_of_the_repository_load_and_their_hosts_name_them(repository: Path) -> None:
    names = {load_pipeline(path.parent).name for path in repository.glob("catalog/*/pipeline.yaml")}
    assert names == {"autoregressive_decode_pipeline", "video_generation_pipeline", "vla_tick_pipeline"}
    assert {load_host(path.parent).pipeline for path in repository.glob("hosts/*/host.yaml")} <= {"", *names}


def spoil(*path: str | int, to: object) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        *parents, last = path
        for key in parents:
            content = content[key]
        content[last] = to

    return change


YAML_FAULTS = {
    "name_of_another_folder": (spoil("name", to="other"), "name: 'other' differs from 'toy'"),
    "cadence_unknown": (spoil("stages", 0, "cadence", to="weekly"), "stages.0.cadence: 'weekly'"),
    "role_unknown": (spoil("windows", 0, "role", to="door"), "windows.0.role: 'door'"),
    "key_unknown": (spoil("stages", 0, "speed", to=1), "'speed' was unexpected"),
    "stage_twice": (spoil("stages", 1, "name", to="read"), "stages: read stands twice"),
    "window_twice": (spoil("windows", 1, "name", to="seen"), "windows: seen stands twice"),
    "check_twice": (spoil("conformance", 1, "name", to="first"), "conformance: first stands twice"),
    "structure_twice": (spoil("embeds", to=["acme", "acme"]), "non-unique"),
    "metric_nobody_computes": (spoil("parity", "metrics", to=["beauty"]), "nothing computes ['beauty']"),
    "parity_at_no_output": (spoil("parity", "window", to="kept"), "parity.window: 'kept' is no output"),
    "parity_same_state": (spoil("parity", "same", to=["kept"]), "parity.same: ['kept']"),
    "needs_a_later_one": (spoil("conformance", 0, "needs", to=["second"]), "first.needs: ['second']"),
    "name_without_a_function": (spoil("conformance", 1, "name", to="third"), "has no function of that name"),
    "function_without_a_name": (lambda content: content["conformance"].pop(), "names no second"),
    "limit_without_a_keyword": (
        spoil("conformance", 1, "limits", 0, "metric", to="gap"),
        "it needs 1 and its limits ['gap']",
    ),
    "limit_that_is_a_least": (
        spoil("conformance", 1, "limits", 0, "op", to=">="),
        "second.limits: error: op is no '<='",
    ),
    "limit_without_a_reason": (lambda content: content["conformance"][1]["limits"][0].pop("because"), "because"),
    "no_stage": (spoil("stages", to=[]), "stages: [] should be non-empty"),
    "stage_as_a_word": (spoil("stages", 0, to="read"), "stages.0: 'read' is not of type 'object'"),
    "stage_without_a_cadence": (
        lambda content: content["stages"][0].pop("cadence"),
        "'cadence' is a required property",
    ),
    "flag_as_text": (spoil("stages", 0, "optional", to="yes"), "stages.0.optional: 'yes' is not of type 'boolean'"),
    "no_window": (spoil("windows", to=[]), "windows: [] should be non-empty"),
    "embeds_nothing": (spoil("embeds", to=[]), "embeds: [] should be non-empty"),
    "parity_by_nothing": (spoil("parity", "metrics", to=[]), "parity.metrics: [] should be non-empty"),
    "no_check": (spoil("conformance", to=[]), "conformance: [] should be non-empty"),
    "blank_summary": (spoil("stages", 1, "summary", to=" "), "stages.1.summary: ' ' does not match"),
    "name_with_a_dash": (spoil("stages", 0, "name", to="re-ad"), "stages.0.name: 're-ad' does not match"),
}


@pytest.mark.parametrize(("change", "words"), YAML_FAULTS.values(), ids=YAML_FAULTS)
def test_fault_of_the_yaml_is_named(folder: Path, change: Callable[[Any], None], words: str) -> None:
    content = yaml.safe_load(PIPELINE)
    change(content)
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(SpecError) as caught:
        load_pipeline(folder)
    assert words in caught.value.message


SOURCE_FAULTS = {
    "no_python": ("def first(", "not readable as Python"),
    "null_byte": ("\0", "not readable as Python"),
    "no_protocol": (CONFORMANCE.replace("class Host", "class Other"), "has no class Host"),
    "assigned_not_defined": (
        CONFORMANCE.replace("def first(host): ...", "first = len"),
        "first: conformance.py has",
    ),
    "defined_within": (CONFORMANCE.replace("def first", "if 1:\n  def first"), "first: conformance.py has no function"),
    "defined_twice": (f"{CONFORMANCE}def first(host): ...\n", "functions: first stands twice"),
    "takes_no_host": (CONFORMANCE.replace("first(host)", "first()"), "takes 0 hosts"),
    "takes_anything": (CONFORMANCE.replace("first(host)", "first(host, **more)"), "it needs 1"),
    "threshold_of_its_own": (CONFORMANCE.replace("first(host)", "first(host, *, most)"), "the keywords ['most']"),
}


@pytest.mark.parametrize(("text", "words"), SOURCE_FAULTS.values(), ids=SOURCE_FAULTS)
def test_fault_of_the_functions_is_named(folder: Path, text: str, words: str) -> None:
    (folder / "conformance.py").write_text(text)
    with pytest.raises(SpecError) as caught:
        load_pipeline(folder)
    assert words in caught.value.message


@pytest.mark.parametrize("file", ["pipeline.yaml", "conformance.py"])
def test_missing_file_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(SpecError, match=file):
        load_pipeline(folder)


def test_embedded_structure_must_be_in_the_catalog(toy: Pipeline) -> None:
    check_embedded(toy, {"acme", "other"})
    for name in ("acme", "toy"):  # of pipelines, the catalog that is asked holds none
        with pytest.raises(SpecError, match=f"embeds: {name}: not in the catalog"):
            check_embedded(replace(toy, embeds=(name,)), {"other"})


MODULES = {"read": ("a",), "loop": ("b",)}
WINDOWS = {"seen": ("x", "y"), "noise": ("z",)}
TOLD = {
    "stage_unknown": ({**MODULES, "sing": ()}, WINDOWS, "no ['sing']"),
    "stage_missing": ({"read": ("a",)}, WINDOWS, "needs ['loop']"),
    "window_missing": (MODULES, {"seen": ("x", "y", "z")}, "needs ['noise']"),
    "window_that_arises": (MODULES, {**WINDOWS, "kept": ()}, "no ['kept']"),
    "tensor_in_no_window": (MODULES, {"seen": ("x",), "noise": ("z",)}, "['y'] of a sample are in no window"),
    "tensor_in_two": (MODULES, {"seen": ("x", "y", "z"), "noise": ("z",)}, "z stands twice"),
    "tensor_in_no_sample": (MODULES, {**WINDOWS, "noise": ("z", "w")}, "['w'] of windows in no sample"),
}


def test_what_covers_the_pipeline_is_taken(toy: Pipeline) -> None:
    check_told(toy, MODULES, WINDOWS, {"x", "y", "z"}, "host")
    check_told(toy, {**MODULES, "tell": ()}, WINDOWS, {"x", "y", "z"}, "host")


@pytest.mark.parametrize(("modules", "windows", "words"), TOLD.values(), ids=TOLD)
def test_what_does_not_cover_the_pipeline_is_named(toy: Pipeline, modules: Any, windows: Any, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        check_told(toy, modules, windows, {"x", "y", "z"}, "host")
    assert words in caught.value.message


def other(kind: str, **fields: Any) -> object:
    """Return a finding of a class of another module."""
    made = dataclass(type(kind, (), {"__annotations__": dict.fromkeys(fields, Any)}))
    return made(**fields)


def test_findings_are_read_by_name_and_field() -> None:
    assert read_finding(other("Holds", detail="a", measured={"n": 1}), "x") == Holds("a", {"n": 1.0})
    assert read_finding(other("Broken", reason="r", detail="a", measured={}), "x") == Broken("r", "a")
    assert read_finding(NotShown("why"), "x") == NotShown("why")


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        Holds,
        "Holds",
        other("Fine", detail="a"),
        other("Holds", detail="a", measured={}, more=1),
        other("Holds", detail="a", measured={"n": "many"}),
        other("NotShown", why=3),
    ],
    ids=["none", "bool", "class", "text", "other_name", "more_fields", "number_as_text", "text_as_number"],
)
def test_what_is_no_finding_is_refused(value: object) -> None:
    with pytest.raises(SpecError, match=r"^here: "):
        read_finding(value, "here")


def test_metrics_that_parity_may_name_are_those_a_host_is_compared_by() -> None:
    assert {"cosine", "max_abs", "top1"} <= pipelines.METRICS
    assert not {"sample", "finite"} & pipelines.METRICS


def test_pipelines_are_equal_by_value(toy: Pipeline, folder: Path) -> None:
    assert toy == load_pipeline(folder) != replace(toy, version=2)
