"""Null control: the host that is about to judge equals its checkpoint and equals itself."""

from __future__ import annotations

from typing import Final

from pytest_frt.contracts.evidence import NullControl
from pytest_frt.contracts.verdict import Measured, Pass, Refusal, Verdict

GATE: Final = "null_control"


def judge(null: NullControl, *, phase: str, weights: str) -> Verdict:
    """Judge the untouched host in one phase.

    Args:
        null: What the witness saw.
        phase: Row regime of the record.
        weights: ``trained`` (a checkpoint must have been compared) or ``random``.

    Returns:
        Refusal with reason ``checkpoint_unread``, ``checkpoint_missing``, ``checkpoint_differs``, ``rng`` or
        ``not_repeatable``; else Pass.
    """
    refusal = _checkpoint(null, weights) or _repeat(null, phase)
    if refusal:
        return refusal
    return Pass(GATE, (Measured("tensors_differing", 0, "<=", 0, null.tensors),))


def _checkpoint(null: NullControl, weights: str) -> Refusal | None:
    if weights == "trained" and null.tensors == 0:
        return Refusal(
            GATE, "checkpoint_unread", "the host is said to be trained and no tensor was compared with a file"
        )
    for reason, names, sentence in (
        ("checkpoint_missing", null.missing, "tensors of the host are in no checkpoint file"),
        ("checkpoint_differs", null.differing, "tensors of the loaded host differ from the checkpoint"),
    ):
        if names:
            measured = Measured("tensors_differing", len(names), "<=", 0, null.tensors)
            detail = f"{len(names)} {sentence}: {', '.join(names)}"
            return Refusal(GATE, reason, detail, at=names[0], measured=(measured,))
    return None


def _repeat(null: NullControl, phase: str) -> Refusal | None:
    if phase in null.rng_used:
        detail = f"the host draws random numbers while it runs in {phase}: declare that input as a window of the host"
        return Refusal(GATE, "rng", detail, at=phase)
    if phase in null.repeat_differing:
        detail = f"two runs of the untouched host on the same windows differ in {phase}"
        return Refusal(GATE, "not_repeatable", detail, at=phase)
    return None
