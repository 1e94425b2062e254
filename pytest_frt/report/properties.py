"""What an item says of itself as properties: ``--junitxml`` writes them, other plugins can read them."""

from __future__ import annotations

from typing import Final

from pytest_frt.report.margins import measured
from pytest_frt.report.told import Told, word
from pytest_frt.run.emulation import label

HOLDS: Final = "PASSED"


def of(told: Told, device: str = "") -> dict[str, str]:
    """Return an item's properties by name.

    ``frt_subject`` (record key id or union name), ``frt_gate`` and ``frt_outcome`` are always there; so is
    ``frt_reason`` where the gate does not hold, ``frt_emulated`` where a CPU was judged in the place of an absent
    device, ``frt_seats`` for a gate of a record, and one property per number that the gate compared, as
    ``value op limit``.

    Args:
        told: What the item has to tell.
        device: The absent device in whose place a CPU was judged; empty when the device itself was.
    """
    verdict = told.verdict
    said = word(verdict) if verdict else told.fault.code if told.fault else ""
    out = {"frt_subject": told.subject, "frt_gate": told.gate, "frt_outcome": said or HOLDS}
    fault = told.fault.message if told.fault else ""
    why = [getattr(verdict, name, "") for name in ("reason", "guard", "kind", "because", "detail")]
    if text := ": ".join(part for part in (*why, fault) if part):
        out["frt_reason"] = text
    if device:
        out["frt_emulated"] = label(device)
    if told.result:
        out["frt_seats"] = f"{len(told.result.survivors)} stand, {len(told.result.refused)} refused"
        out["frt_seconds"] = f"{told.result.seconds:.3f}"
    for one in measured(verdict):
        name = f"frt.{one.metric}" + (f".{one.at.replace(' ', '_')}" if one.metric == "process_median" else "")
        out[name] = f"{one.value:.6g} {one.op} {one.required:g}"
    return out
