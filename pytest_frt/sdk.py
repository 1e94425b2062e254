"""The one module that impls, hosts and third-party entries import."""

from __future__ import annotations

from pytest_frt.contracts.host import BuildRequest, Checkpoint, HostProgram, PhaseSpec, Sample
from pytest_frt.contracts.impl import BindFn, BindSeat, Impl, Scales
from pytest_frt.contracts.pipeline import Blocker, Buckets, DecodeStages, Loop, TickStages
from pytest_frt.contracts.scheme import Scheme, SeamLimits
from pytest_frt.contracts.verdict import Measured, Refusal
from pytest_frt.errors import CheckpointError, FrtError, KernelUnavailable, MissingExtra

__all__ = [
    "BindFn",
    "BindSeat",
    "Blocker",
    "Buckets",
    "BuildRequest",
    "Checkpoint",
    "CheckpointError",
    "DecodeStages",
    "FrtError",
    "HostProgram",
    "Impl",
    "KernelUnavailable",
    "Loop",
    "Measured",
    "MissingExtra",
    "PhaseSpec",
    "Refusal",
    "Sample",
    "Scales",
    "Scheme",
    "SeamLimits",
    "TickStages",
]
