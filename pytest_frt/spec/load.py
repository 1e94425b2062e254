"""Entry folders to frozen types: structure.yaml, host.yaml and device files. Nothing is executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_frt.contracts.device import DeviceSpec
from pytest_frt.contracts.host import HostSpec, PhaseSpec
from pytest_frt.contracts.structure import PER_CALL, Limit, SlotSpec, Structure, TensorSpec
from pytest_frt.errors import SpecError
from pytest_frt.spec import dims, seams
from pytest_frt.spec.digest import bytes_digest
from pytest_frt.spec.plain import read_plain
from pytest_frt.spec.validate import read_validated


def _check_name(content: dict[str, Any], expected: str, path: Path) -> None:
    if content["name"] != expected:
        raise SpecError(
            f"{path}: name: {content['name']!r} differs from {expected!r}, what the entry is stored under",
            hint="give both the same name",
        )


def _beside(folder: Path, file: str) -> str:
    path = folder / file
    if not path.is_file():
        raise SpecError(f"{folder}: {file} is missing", hint=f"write {path}")
    return bytes_digest(read_plain(path))


def _tensors(items: list[dict[str, Any]]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(item["name"], tuple(item["shape"]), item.get("where"), item.get("relayed", False)) for item in items
    )


def _limits(items: list[dict[str, Any]]) -> tuple[Limit, ...]:
    return tuple(Limit(item["metric"], item["op"], float(item["value"]), item["because"]) for item in items)


def _slots(items: dict[str, dict[str, Any]], path: Path) -> tuple[SlotSpec, ...]:
    out = []
    for name, item in items.items():
        shape = tuple(item["shape"])
        axis = item.get("out_axis", -1)
        if axis >= len(shape):
            raise SpecError(f"{path}: slots.{name}.out_axis: {axis} is outside the shape {list(shape)}")
        out.append(SlotSpec(name, shape, item["role"], axis, item.get("optional", False)))
    return tuple(out)


def _check_symbols(structure: Structure, path: Path) -> None:
    every = [(f"inputs.{t.name}", t.shape) for t in structure.inputs]
    every += [(f"outputs.{t.name}", t.shape) for t in structure.outputs]
    every += [(f"slots.{s.name}", s.shape) for s in structure.slots]
    for where, shape in every:
        for text in shape:
            try:
                dims.symbols(text)
            except SpecError as fault:
                raise SpecError(f"{path}: {where}: {fault.message}", hint=fault.hint) from fault


def _check_boundary(structure: Structure, path: Path) -> None:
    """Check that rows are counted on the first input, and that what exists sometimes says when."""
    first, *others = structure.inputs
    if first.per_call or not all(tensor.per_call for tensor in others):
        raise SpecError(
            f"{path}: inputs: rows are counted on {first.name}, every other input has the first axis {PER_CALL!r}",
            hint=f"write shape: [M, ...] for the first and [{PER_CALL}, ...] for the others",
        )
    if structure.outputs[0].where or structure.outputs[0].per_call:
        raise SpecError(f"{path}: outputs.{structure.outputs[0].name}: the first output has rows in every variant")
    if relayed := [tensor.name for tensor in (*structure.inputs, *structure.outputs[1:]) if tensor.relayed]:
        raise SpecError(f"{path}: {', '.join(relayed)}.relayed: only the first output, the producer's own, is relayed")
    for tensor in (*structure.inputs, *structure.outputs):
        for axis, value in (tensor.where or {}).items():
            if tensor in structure.inputs or value not in structure.variants.get(axis, ()):
                raise SpecError(f"{path}: {tensor.name}.where: {axis}={value} is no variant of an output")


def load_structure(folder: str | Path) -> Structure:
    """Read ``<folder>/structure.yaml`` and the digest of its ``reference.py``.

    Raises:
        SpecError: a file is missing, breaks the schema, or contradicts itself; names file, key and value.
    """
    folder = Path(folder).resolve()
    path = folder / "structure.yaml"
    content, data = read_validated(path, "structure")
    _check_name(content, folder.name, path)
    slots = _slots(content["slots"], path)
    variants = {axis: tuple(values) for axis, values in content["variants"].items()}
    points = tuple(content["points"])
    rules = tuple(rule for raw in content["seams"] for rule in seams.expand(raw))
    for rule in rules:
        seams.check(rule, slots, variants, points, str(path))
    discovery = _limits(content["discovery"])
    seams.check_limits(rules, discovery, str(path))
    _beside(folder, "cases.py")
    structure = Structure(
        name=content["name"],
        version=content["version"],
        summary=content["summary"],
        inputs=_tensors(content["inputs"]),
        outputs=_tensors(content["outputs"]),
        slots=slots,
        variants=variants,
        points=points,
        seams=rules,
        limits=_limits(content.get("limits", [])),
        digest=bytes_digest(data),
        reference_digest=_beside(folder, "reference.py"),
        folder=str(folder),
        discovery=discovery,
        rowwise=content.get("rowwise", False),
    )
    _check_symbols(structure, path)
    _check_boundary(structure, path)
    seams.check_joins(structure, str(path))
    return structure


def _phase(item: dict[str, Any], path: Path) -> PhaseSpec:
    low, high = item["rows"]
    if not low <= item["timed_rows"] <= high:
        raise SpecError(
            f"{path}: phases.{item['name']}: timed_rows {item['timed_rows']} lies outside rows [{low}, {high}]",
            hint="time a row count that the phase really has",
        )
    return PhaseSpec(item["name"], (low, high), item["timed_rows"], item["score_positions"])


def load_host(folder: str | Path) -> HostSpec:
    """Read ``<folder>/host.yaml`` and the digest of its ``host.py``, which is not executed.

    Raises:
        SpecError: a file is missing, breaks the schema, or contradicts itself; names file, key and value.
    """
    folder = Path(folder).resolve()
    path = folder / "host.yaml"
    content, data = read_validated(path, "host")
    _check_name(content, folder.name, path)
    if set(content["weights"]) != set(content["sizes"]):
        raise SpecError(f"{path}: weights: has {sorted(content['weights'])}, needs one per size of {content['sizes']}")
    phases = tuple(_phase(item, path) for item in content["phases"])
    names = [phase.name for phase in phases]
    if len(set(names)) != len(names):
        raise SpecError(f"{path}: phases: {names} names one twice")
    return HostSpec(
        name=content["name"],
        summary=content["summary"],
        output=content["output"],
        sizes=tuple(content["sizes"]),
        weights=dict(content["weights"]),
        forms=tuple(content["forms"]),
        phases=phases,
        structures=tuple(content.get("structures", ())),
        exclude=dict(content.get("exclude", {})),
        calibration_samples=content["calibration_samples"],
        heldout_samples=content["heldout_samples"],
        requires=dict(content.get("requires", {})),
        multimodal=content.get("multimodal", False),
        digest=bytes_digest(data),
        source_digest=_beside(folder, "host.py"),
        folder=str(folder),
        pipeline=content.get("pipeline", ""),
    )


def load_device(file: str | Path) -> DeviceSpec:
    """Read a device profile ``<name>.yaml``.

    Raises:
        SpecError: the file is missing or breaks the schema; names file, key and value.
    """
    path = Path(file).resolve()
    content, _ = read_validated(path, "device")
    _check_name(content, path.stem, path)
    return DeviceSpec(
        name=content["name"],
        kind=content["kind"],
        match=dict(content["match"]),
        emulate=tuple(content.get("emulate", ())),
        defaults=dict(content.get("defaults", {})),
    )
