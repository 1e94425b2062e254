"""Entry files: what is read is what stands there, and every fault names file, key and value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from pytest_frt.errors import SpecError
from pytest_frt.spec.load import load_device, load_host, load_structure

WriteTree = Callable[[Mapping[str, str]], Path]

STRUCTURE = """
name: toy
version: 1
summary: A toy.
inputs: [{name: x, shape: [M, D]}]
outputs: [{name: y, shape: [M, F]}]
slots:
  w: {shape: [D, F], role: matmul, out_axis: 1}
  b: {shape: [F], role: bias, optional: true}
variants: {activation: [silu], bias: [none, add]}
points: [x]
seams:
  - name: layer
    each: [{p: first, q: one}, {p: second, q: two}]
    kind: module
    places: ["{p}"]
    slots: {w: "{p}.weight"}
    transpose: [w]
    absent: ["{p}.bias"]
    activation: "{q}"
    variant: {bias: none}
    points: {x: "{p}"}
discovery:
  - {metric: seam.error_in_eps, op: "<=", value: 32, because: toy}
  - {metric: activation.error, op: "<=", value: 1.0e-9, because: toy}
"""
HOST = """
name: toy
summary: A toy.
output: values
sizes: [tiny]
weights: {tiny: random}
forms: [eager]
phases: [{name: decode, rows: [1, 8], timed_rows: 1, score_positions: 4}]
calibration_samples: 2
heldout_samples: 3
"""


@pytest.fixture
def structure_folder(write_tree: WriteTree) -> Path:
    files = {"structure.yaml": STRUCTURE, "reference.py": "reference = 1\n", "cases.py": ""}
    return write_tree({f"toy/{name}": text for name, text in files.items()}) / "toy"


@pytest.fixture
def host_folder(write_tree: WriteTree) -> Path:
    return write_tree({"toy/host.yaml": HOST, "toy/host.py": ""}) / "toy"


def test_repository_entries_load(repository: Path) -> None:
    folders = [path.parent for path in repository.glob("catalog/*/structure.yaml")]
    assert {load_structure(folder).name for folder in folders} == {folder.name for folder in folders}
    assert all(load_host(path.parent).name for path in repository.glob("hosts/*/host.yaml"))
    assert all(load_device(path).name for path in repository.glob("pytest_frt/devices/*.yaml"))


def test_each_gives_one_rule_per_item(structure_folder: Path) -> None:
    first, second = load_structure(structure_folder).seams
    assert (first.name, first.places, first.slots, first.activation) == (
        "layer.first+one",
        ("first",),
        {"w": "first.weight"},
        "one",
    )
    assert (second.absent, second.points) == (("second.bias",), {"x": "second"})


def test_layers_apart_are_filled_in_as_every_text_is(structure_folder: Path) -> None:
    (structure_folder / "structure.yaml").write_text(spoiled(STRUCTURE, "seams.0.apart", ["{q}.weight"]))
    assert [rule.apart for rule in load_structure(structure_folder).seams] == [("one.weight",), ("two.weight",)]


@pytest.mark.parametrize("layer", ["patches", "norm"])
def test_layers_apart_are_refused_where_no_width_tells_them(structure_folder: Path, layer: str) -> None:
    text = spoiled(STRUCTURE, "seams.0.apart", ["one.weight"])
    role = spoiled(text, "slots.w", {"shape": ["D"], "role": "norm"}) if layer == "norm" else text
    (structure_folder / "structure.yaml").write_text(spoiled(role, "seams.0.layer", layer))
    with pytest.raises(SpecError, match=rf"apart: \['one.weight'\] are told from layers of kind linear, .* {layer}"):
        load_structure(structure_folder)


def test_module_may_not_be_shared_with_another_structure(structure_folder: Path) -> None:
    yes = True
    text = spoiled(spoiled(STRUCTURE, "seams.0.kind", "module"), "seams.0.shares", yes)
    (structure_folder / "structure.yaml").write_text(text)
    with pytest.raises(SpecError, match="shares: only a pair"):
        load_structure(structure_folder)


def test_digests_follow_every_byte(structure_folder: Path) -> None:
    before = load_structure(structure_folder)
    (structure_folder / "structure.yaml").write_text(f"{STRUCTURE}# a comment\n")
    (structure_folder / "reference.py").write_text("reference = 2\n")
    after = load_structure(structure_folder)
    assert before.digest != after.digest
    assert before.reference_digest != after.reference_digest


FAULTS = {
    "unknown_key": (("extra", 1), ["'extra' was unexpected"]),
    "version_as_text": (("version", "1"), ["version", "not of type 'integer'", "value: '1'"]),
    "name_of_another_folder": (("name", "other"), ["name: 'other' differs from 'toy'"]),
    "matmul_without_out_axis": (("slots.w", {"shape": ["D", "F"], "role": "matmul"}), ["slots.w", "out_axis"]),
    "out_axis_outside": (("slots.w.out_axis", 2), ["slots.w.out_axis: 2"]),
    "size_no_expression": (("slots.b.shape", ["F F"]), ["slots.b", "'F F'"]),
    "slot_unknown": (("seams.0.slots", {"w": "a.weight", "v": "b"}), ["seams.layer.first+one.slots", "['v'] unknown"]),
    "slot_missing": (("seams.0.slots", {"b": "a.bias"}), ["transpose", "['w'] unknown"]),
    "axis_left_open": (("seams.0.variant", {}), ["axes ['activation', 'bias'] are left open"]),
    "axis_value_unknown": (("seams.0.variant", {"bias": "maybe"}), ["variant.bias", "'maybe'"]),
    "point_unread": (("seams.0.points", {}), ["['x'] missing"]),
    "pair_without_join": (("seams.0.kind", "pair"), ["seams.0"]),
    "apart_no_list": (("seams.0.apart", "a.weight"), ["seams.0.apart", "not of type 'array'"]),
    "limit_without_reason": (("discovery", [{"metric": "a", "op": "<=", "value": 1}]), ["discovery.0", "because"]),
    "limit_missing": (("discovery", []), ["needs one ceiling", "seam.error_in_eps"]),
    "limit_as_floor": (("discovery.0.op", ">="), ["needs one ceiling"]),
    "limit_on_what_nothing_measures": (("discovery.0.metric", "seam.beauty"), ["needs one ceiling", "seam.beauty"]),
    "limit_with_a_blank_reason": (("discovery.0.because", " "), ["discovery.0.because", "value: ' '"]),
    "blank_summary": (("summary", "\t"), ["summary", "'\\t' does not match"]),
    "name_with_a_dash": (("name", "to-y"), ["name: 'to-y' does not match '^[a-z][a-z0-9_]*$'"]),
    "stages_of_a_pipeline": (("stages", []), ["'stages' was unexpected"]),
    "role_unknown": (("slots.b.role", "gain"), ["slots.b.role", "'gain' is not one of"]),
}


def spoiled(text: str, where: str, value: object) -> str:
    content = yaml.safe_load(text)
    at = content
    *parents, last = where.split(".")
    for key in parents:
        at = at[int(key) if key.isdigit() else key]
    at[int(last) if last.isdigit() else last] = value
    return yaml.safe_dump(content)


@pytest.mark.parametrize(("change", "words"), FAULTS.values(), ids=FAULTS)
def test_structure_fault_is_named(structure_folder: Path, change: tuple[str, object], words: list[str]) -> None:
    path = structure_folder / "structure.yaml"
    path.write_text(spoiled(STRUCTURE, *change))
    with pytest.raises(SpecError) as caught:
        load_structure(structure_folder)
    assert all(word in caught.value.message for word in [str(path), *words]), caught.value.message


HOST_FAULTS = {
    "decode_too_long": (("phases.0.rows", [1, 9]), ["phases.0.rows.1", "9 is greater than the maximum of 8"]),
    "prefill_too_short": (
        ("phases.0", {"name": "prefill", "rows": [16, 300], "timed_rows": 300, "score_positions": 4}),
        ["phases.0.rows.0", "16 is less than the minimum of 256"],
    ),
    "timed_outside": (("phases.0.timed_rows", 9), ["timed_rows 9 lies outside rows [1, 8]"]),
    "too_many_scored": (("phases.0.score_positions", 33), ["phases.0.score_positions"]),
    "size_without_weights": (("sizes", ["tiny", "real"]), ["weights: has ['tiny']"]),
    "unknown_form": (("forms", ["jit"]), ["forms.0", "'jit'"]),
    "unknown_output": (("output", "poses"), ["output: 'poses' is not one of ['distribution', 'values']"]),
    "unknown_size": (("sizes", ["huge"]), ["sizes.0: 'huge'"]),
    "unknown_phase": (("phases.0.name", "train"), ["phases.0.name: 'train'"]),
    "no_phase": (("phases", []), ["phases", "should be non-empty"]),
    "phase_twice": (("phases", [yaml.safe_load(HOST)["phases"][0]] * 2), ["['decode', 'decode'] names one twice"]),
    "name_of_another_folder": (("name", "other"), ["name: 'other' differs from 'toy'"]),
    "name_in_capitals": (("name", "Toy"), ["name: 'Toy' does not match '^[a-z][a-z0-9_]*$'"]),
    "stages_of_a_pipeline": (("stages", []), ["'stages' was unexpected"]),
    "pipeline_that_is_no_name": (("pipeline", "vla-tick"), ["pipeline: 'vla-tick' does not match"]),
    "structure_twice": (("structures", ["acme", "acme"]), ["structures", "non-unique"]),
    "left_out_without_a_reason": (("exclude", {"head": " "}), ["exclude.head", "value: ' '"]),
    "no_calibration_sample": (("calibration_samples", 0), ["calibration_samples: 0 is less than the minimum of 1"]),
}


@pytest.mark.parametrize(("change", "words"), HOST_FAULTS.values(), ids=HOST_FAULTS)
def test_host_fault_is_named(host_folder: Path, change: tuple[str, object], words: list[str]) -> None:
    path = host_folder / "host.yaml"
    path.write_text(spoiled(HOST, *change))
    with pytest.raises(SpecError) as caught:
        load_host(host_folder)
    assert all(word in caught.value.message for word in [str(path), *words]), caught.value.message


NOT_YAML = {
    "key_twice": (f"{HOST}name: again\n", ["'name' stands twice", "line 11"]),
    "nested_key_twice": (f"{HOST}exclude: {{a: b, a: c}}\n", ["'a' stands twice"]),
    "python_object": ("!!python/object/apply:os.getcwd []", ["not readable as YAML"]),
    "not_utf8": ("\udcff", ["not UTF-8"]),
    "empty": ("", ["top level", "None is not of type 'object'"]),
}


@pytest.mark.parametrize(("text", "words"), NOT_YAML.values(), ids=NOT_YAML)
def test_yaml_means_one_thing(host_folder: Path, text: str, words: list[str]) -> None:
    (host_folder / "host.yaml").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(SpecError) as caught:
        load_host(host_folder)
    assert all(word in caught.value.message for word in words), caught.value.message


@pytest.mark.parametrize("file", ["structure.yaml", "reference.py", "cases.py"])
def test_missing_file_is_named(structure_folder: Path, file: str) -> None:
    (structure_folder / file).unlink()
    with pytest.raises(SpecError, match=file):
        load_structure(structure_folder)


DEVICE = {"name": "box", "kind": "cpu", "match": {"name": "*"}}
DEVICE_FAULTS = {
    "name_of_another_file": ({"name": "crate"}, "name: 'crate' differs from 'box'"),
    "name_with_a_dash": ({"name": "b-x"}, "name: 'b-x' does not match"),
    "kind_unknown": ({"kind": "abacus"}, "kind: 'abacus' is not one of ['cpu', 'cuda']"),
    "scheme_twice": ({"emulate": ["none", "none"]}, "emulate: ['none', 'none'] has non-unique elements"),
}


@pytest.mark.parametrize(("change", "words"), DEVICE_FAULTS.values(), ids=DEVICE_FAULTS)
def test_device_fault_is_named(tmp_path: Path, change: dict[str, object], words: str) -> None:
    file = tmp_path / "box.yaml"
    file.write_text(yaml.safe_dump(DEVICE))
    assert load_device(file).kind == "cpu"
    file.write_text(yaml.safe_dump({**DEVICE, **change}))
    with pytest.raises(SpecError) as caught:
        load_device(file)
    assert words in caught.value.message


def test_device_fact_must_exist(tmp_path: Path) -> None:
    (tmp_path / "box.yaml").write_text("name: box\nkind: cpu\nmatch: {colour: red}\n")
    with pytest.raises(SpecError, match="colour"):
        load_device(tmp_path / "box.yaml")
