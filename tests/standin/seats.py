"""Seats of the impls over published packages: bfloat16, the lowest sizes they admit, a stand-in for the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Final, cast

import torch
from torch import Tensor

from pytest_frt.contracts.impl import Scales
from pytest_frt.contracts.scheme import Scheme
from pytest_frt.fixtures.judging import moved
from pytest_frt.lab.near import entered
from pytest_frt.measure.metrics import seam_metrics
from pytest_frt.registry import load_impl, load_module
from pytest_frt.rules import seam
from tests.impls import conftest
from tests.impls.conftest import REGISTRY, Unit, calibrated, outputs, seat_of

Rows = Callable[[Tensor], tuple[Tensor, ...]]

DIMS: Final = {
    "decoder_ffn": {"D": 512, "F": 1024},
    "vision_ffn": {"D": 512, "F": 1024},
    "linear_proj": {"K": 512, "N": 128},
    "qkv_pack": {"K": 512, "Nq": 128, "Nk": 32, "Nv": 48},
    "norm_fused": {"D": 64},
    "patch_projection": {"K": 588, "N": 48},
}
"""The second to last has the patches of 14 by 14 pixels, whose rows are no whole vectors."""
VARIANTS: Final = {**conftest.VARIANTS, "vision_ffn": {"activation": "gelu_tanh", "norm": "none", "residual": "none"}}
HUB: Final = {name: entry for name, entry in sorted(REGISTRY.impls.items()) if entry.impl.kernel.startswith("flashrt/")}


class HubUnit(Unit):
    """A unit whose boundary is bfloat16, and whose scheme may round what matmuls leave."""

    def oracles(self) -> tuple[Rows, Rows]:
        """Return the reference and the fake-quantised reference in float64."""
        exact, fake = super().oracles()
        return exact, entered(self.scheme.leaves, fake)  # type: ignore[arg-type, return-value]

    def faults(self, part: Callable[[Tensor], object], inputs: Mapping[str, Tensor]) -> dict[str, str]:
        """Return case to the judge's word, for the cases that do not hold; oracles see all their rows together."""
        names, heights = list(inputs), [x.shape[:-1].numel() for x in inputs.values()]
        joined = torch.cat([x.reshape(-1, x.shape[-1]) for x in inputs.values()])
        wanted = [[output.split(heights) for output in oracle(joined)] for oracle in self.oracles()]
        found, limits = {}, self.scheme.limits
        for at, name in enumerate(names):
            for index, got in enumerate(outputs(part(inputs[name]))):
                exact, fake = (pieces[index][at].view_as(got) for pieces in wanted)
                metrics = seam_metrics(got, exact, fake, seat="seat", case=name, output=index, limits=limits)
                if word := seam.fault(metrics, limits):
                    found[f"{name}#{index}"] = f"{word} {seam.numbers(metrics, limits)}"
        return found

    def rows(self, count: int = 64) -> Tensor:
        """Return normal rows, as many as a judge draws and no more than the band has."""
        return super().rows(min(count, self.seat.rows[1])).bfloat16()

    def cases(self) -> dict[str, Tensor]:
        """Return the structure's own cases in the band; a guard lets no others through."""
        found = {name: moved(x, "cpu", torch.bfloat16) for name, x in super().cases().items()}
        return {name: x for name, x in found.items() if x.shape[:-1].numel() <= self.seat.rows[1]}


def hub_unit(name: str, kernel: ModuleType, variant: Mapping[str, str] | None = None) -> HubUnit:
    """Return an impl in its scheme on a drawn seat, calibrated if the scheme needs it."""
    entry = HUB[name]
    (scheme_name,) = entry.impl.schemes
    scheme = cast("Scheme", load_module(REGISTRY.schemes[scheme_name].file).SCHEME)
    structure, rows = entry.impl.structure, entry.impl.rows[scheme_name]
    seat = seat_of(structure, scheme_name, rows, variant or VARIANTS[structure], DIMS[structure])
    weights = {slot: tensor.bfloat16() for slot, tensor in seat.weights.items()}
    seat = replace(seat, weights=weights, dtype="bfloat16")
    made = HubUnit(entry, load_impl(entry), scheme, seat, Scales(), kernel)
    return replace(made, scales=calibrated(made)) if scheme.statistic != "none" else made
