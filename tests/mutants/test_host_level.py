"""On random weights the host's own output says little: wrong seats pass there, and the seams refuse them."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor

from pytest_frt.contracts.evidence import HostMetrics
from pytest_frt.contracts.verdict import Pass
from pytest_frt.lab import hosting
from pytest_frt.measure.metrics import host_metrics
from pytest_frt.rules import bands
from pytest_frt.seat.swap import attach
from tests.mutants.entries import REFUSED
from tests.mutants.entry import Mutant
from tests.mutants.judge import bench, seam_refusal
from tests.mutants.places import host, host_ref
from tests.mutants.seats import SEATS

UNSEEN = (
    "decoder_ffn-none-one_percent_gain",
    "decoder_ffn-none-gelu_erf_instead",
    "decoder_ffn-none-w_up_times_1.01",
    "qkv_pack-none-w_k_times_2",
    "linear_proj-w16a32-one_channel_of_w_times_1.01",
    "vision_ffn-w16a32-w_fc2_times_1.01",
    "vision_ffn-w16a32-sums_in_bfloat16",
    "vision_ffn-w16a32-rows_leak_into_each_other",
)
"""Mutants that host-level parity passes on seeded random weights, were it judged there as on trained ones."""


@cache
def untouched(name: str) -> tuple[list[hosting.Sample], list[Tensor]]:
    samples = hosting.split(host(name), host_ref(name)).heldout
    return samples, host(name).program.score(host(name).model, samples, phase_of(name))


def phase_of(name: str) -> str:
    return host(name).spec.phases[0].name


def composed(mutant: Mutant) -> tuple[list[HostMetrics], int]:
    """Return the metrics of a host with one wrong seat, and how often the seat was served."""
    name = SEATS[mutant.seat].host
    built, (samples, expected) = host(name), untouched(name)
    with (
        torch.no_grad(),
        attach(built.model, [bench(mutant.seat, mutant.scheme, "tiny").bound(mutant.fault)]) as seated,
    ):
        scores = built.program.score(built.model, samples, phase_of(name))
        served = sum(entry.served for entry in seated.ledger.entries())
    pairs = enumerate(zip(scores, expected, strict=True))
    return [host_metrics(got, want, built.spec.output, index) for index, (got, want) in pairs], served


@pytest.mark.parametrize("mutant", [one for one in REFUSED if one.id in UNSEEN], ids=lambda one: one.id)
def test_host_passes_what_its_seam_refuses(mutant: Mutant) -> None:
    metrics, served = composed(mutant)
    verdict = bands.judge_samples(host(SEATS[mutant.seat].host).spec.output, metrics)
    assert served >= len(metrics)
    assert isinstance(verdict, Pass), verdict
    assert verdict.band == "pass"
    assert seam_refusal(mutant.seat, mutant.scheme, "tiny", mutant.fault) is not None


def test_every_unseen_one_is_an_entry() -> None:
    assert set(UNSEEN) <= {one.id for one in REFUSED}
