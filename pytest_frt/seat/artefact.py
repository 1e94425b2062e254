"""The calibration artefact: static scales as safetensors, identical bytes for identical scales."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from pytest_frt.contracts.impl import Scales
from pytest_frt.errors import CalibrationRefused
from pytest_frt.spec.digest import canonical_json

FORMAT = "frt-scales-v1"
METADATA = "frt"
"""One metadata key holds everything: the order of several would differ from write to write."""
SEPARATOR = "|"


def save_artefact(
    file: str | Path, scales: Mapping[str, Scales], provenance: Mapping[str, str | int] | None = None
) -> None:
    """Write scales: tensor ``<seat>|<point>``, float32, shape ``[1]``.

    Args:
        file: Where to write.
        scales: Seat id to scales.
        provenance: What to keep beside them, e.g. method, count and sha256 of the samples.

    Raises:
        CalibrationRefused: a scale is not a positive finite number.
    """
    tensors = {}
    for seat, own in scales.items():
        for point, scale in own.by_point.items():
            if not (math.isfinite(scale) and scale > 0):
                raise CalibrationRefused(f"scale of {seat} at {point} is {scale}, needs a positive finite number")
            tensors[f"{seat}{SEPARATOR}{point}"] = torch.tensor([scale], dtype=torch.float32)
    header = {"format": FORMAT, "seats": sorted(scales), **(provenance or {})}
    save_file(tensors, file, metadata={METADATA: canonical_json(header).decode()})


def _header(text: str | None, file: str | Path) -> dict[str, object]:
    header = json.loads(text) if text else None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise CalibrationRefused(f"{file} is no calibration artefact of format {FORMAT}")
    return header


def load_artefact(file: str | Path) -> dict[str, Scales]:
    """Read scales back, bit for bit.

    Raises:
        CalibrationRefused: the file cannot be read, is no artefact, or holds something else than positive scales.
    """
    by_seat: dict[str, dict[str, float]] = {}
    try:
        with safe_open(file, framework="pt") as reader:
            header = _header((reader.metadata() or {}).get(METADATA), file)
            for seat in header.get("seats", []):  # type: ignore[attr-defined]
                by_seat[seat] = {}
            for key in sorted(reader.keys()):
                seat, _, point = key.rpartition(SEPARATOR)
                value = reader.get_tensor(key)
                if seat not in by_seat or tuple(value.shape) != (1,) or value.dtype != torch.float32:
                    raise CalibrationRefused(f"{file}: {key} is no float32 scale of a listed seat")
                scale = float(value)
                if not (math.isfinite(scale) and scale > 0):
                    raise CalibrationRefused(f"{file}: {key} is {scale}, needs a positive finite number")
                by_seat[seat][point] = scale
    except (OSError, SafetensorError, ValueError) as fault:
        raise CalibrationRefused(f"{file} cannot be read: {fault}", hint="calibrate again") from fault
    return {seat: Scales(points) for seat, points in by_seat.items()}
