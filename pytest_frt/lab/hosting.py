"""Build a host in a worker and split its samples: shared by witness, candidate, oracle and timing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch

from pytest_frt.errors import EvidenceError
from pytest_frt.registry import load_module
from pytest_frt.spec.load import load_host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn

    from pytest_frt.contracts.host import HostProgram, HostSpec, PhaseSpec, Sample
    from pytest_frt.contracts.job import HostRef


@dataclass(frozen=True, slots=True)
class Split:
    """Samples by use, pairwise disjoint by digest.

    Attributes:
        calibration: Seen by the candidate before it is judged.
        heldout: Judged.
        timing: Timed; never calibrated on.
    """

    calibration: list[Sample]
    heldout: list[Sample]
    timing: list[Sample]


@dataclass(frozen=True, slots=True)
class Hosting:
    """A built host with its entry."""

    spec: HostSpec
    program: HostProgram
    model: nn.Module


def sample_digest(sample: Sample) -> str:
    """Return the sha256 of one sample: names, dtypes, shapes and bytes in name order."""
    sha = hashlib.sha256()
    for name in sorted(sample):
        tensor = sample[name].detach().cpu().contiguous()
        sha.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        sha.update(tensor.view(torch.uint8).numpy().tobytes() if tensor.numel() else b"")
    return sha.hexdigest()


def samples_digest(samples: Iterable[Sample]) -> str:
    """Return the sha256 over the sorted digests of several samples."""
    return hashlib.sha256("".join(sorted(map(sample_digest, samples))).encode()).hexdigest()


def load_program(ref: HostRef) -> tuple[HostSpec, HostProgram]:
    """Read host.yaml and execute host.py of an entry folder."""
    folder = Path(ref.folder)
    return load_host(folder), cast("HostProgram", load_module(folder / "host.py"))


def build(ref: HostRef) -> Hosting:
    """Build the host of a job in evaluation mode on ``ref.threads`` threads."""
    torch.set_num_threads(ref.threads)
    spec, program = load_program(ref)
    torch.manual_seed(ref.request.seed)
    model = program.build(ref.request).eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)  # noqa: FBT003 (torch's signature)
    return Hosting(spec, program, model)


def split(hosting: Hosting, ref: HostRef, *, timing: int = 4) -> Split:
    """Draw calibration, held-out and timing samples that share no content.

    Args:
        hosting: The host.
        ref: Its job reference; the seed fixes the order.
        timing: Timing inputs wanted.

    Raises:
        EvidenceError: the host yields too few distinct samples.
    """
    spec = hosting.spec
    wanted = spec.calibration_samples + spec.heldout_samples + timing
    unique: dict[str, Sample] = {}
    for sample in islice(hosting.program.samples(ref.request), 4 * wanted):
        unique.setdefault(sample_digest(sample), sample)
        if len(unique) == wanted:
            break
    if len(unique) < wanted:
        raise EvidenceError(
            f"host {spec.name} yields {len(unique)} distinct samples, needs {wanted} "
            f"({spec.calibration_samples} calibration + {spec.heldout_samples} held-out + {timing} timing)",
            hint="lengthen the sample source of the host",
        )
    drawn = list(unique.values())
    first, second = spec.calibration_samples, spec.calibration_samples + spec.heldout_samples
    return Split(drawn[:first], drawn[first:second], drawn[second:])


def phase_of(spec: HostSpec, name: str) -> PhaseSpec:
    """Return a declared phase.

    Raises:
        EvidenceError: the host does not declare it.
    """
    for phase in spec.phases:
        if phase.name == name:
            return phase
    known = ", ".join(phase.name for phase in spec.phases)
    raise EvidenceError(f"host {spec.name} has no phase {name!r}; it declares {known}")
