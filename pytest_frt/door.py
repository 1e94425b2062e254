"""The single-seat door: one module in, one checked module out, or a refusal with the numbers. No certificate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from pytest_frt.contracts.evidence import SeamMetrics
from pytest_frt.contracts.impl import Scales
from pytest_frt.contracts.pooled import PooledMetrics
from pytest_frt.contracts.scheme import Scheme
from pytest_frt.contracts.seat import ModuleSeat, SeatFacts
from pytest_frt.errors import FrtError, GateRefused, SwapRefused, UsageFault
from pytest_frt.lab import seam
from pytest_frt.lab.near import pooled
from pytest_frt.lab.oracle import Answer, SeatOracle, calls_of, compare
from pytest_frt.lab.units import load_scheme
from pytest_frt.registry import ImplEntry, Registry, StructureEntry, load_impl, load_module
from pytest_frt.rules import pooled as together
from pytest_frt.rules import seam as limits
from pytest_frt.seat import kernels, swap
from pytest_frt.seat.bind import BoundSeat, bind_unit
from pytest_frt.seat.calibrate import calibrate
from pytest_frt.seat.discover import discover
from pytest_frt.seat.kernel_build import resolve
from pytest_frt.seat.tree import dtype_name
from pytest_frt.spec.dims import evaluate

SEAT = "seat"
CASE_SEED = 0


def frt_get(structure: str) -> Door:
    """Return the door of a structure.

    Raises:
        UsageFault: no installed structure is called so, the hint names the nearest; or it is a stage pipeline.
        ProviderBroken: it could not be read.
    """
    registry = Registry.load()
    if structure in registry.pipelines:
        raise UsageFault(
            f"{structure} is a stage pipeline, no structure", hint="frt conform HOST carries out its checks"
        )
    return Door(registry, registry.structure(structure))


@dataclass(frozen=True, slots=True)
class Door:
    """Binds impls of one structure to single modules.

    Attributes:
        registry: Installed entries.
        structure: The structure.
    """

    registry: Registry
    structure: StructureEntry

    def bind(
        self,
        module: nn.Module,
        *,
        calibration: Sequence[Tensor],
        impl: str | None = None,
        scheme: str | None = None,
        builds: Mapping[str, str | Path] | None = None,
    ) -> nn.Module:
        """Return a module that answers like ``module``, faster for the rows its impl admits.

        It is held against the structure's reference in float64 and against the scheme's fake-quantised reference, on
        the calibration inputs and on the structure's discriminating cases, at the scheme's limits. Calls outside its
        form run ``module`` exactly. Nothing is timed: whether it pays is for the certifying run to say.

        Args:
            module: The host module, in evaluation mode. It is kept, and not changed.
            calibration: Real inputs ``[..., K]``; every tensor is one sample.
            impl: Impl to bind; None tries every one of the structure and takes the first that passes.
            scheme: Scheme to bind for; None tries every one of the impls, those first that may err least.
            builds: Kernel repo id to a local build, for kernels that are not part of this distribution.

        Raises:
            GateRefused: there is no sample or one that the module cannot be given, the module is no seat of the
                structure, or nothing that was tried passes; each reason carries its number and limit.
            UsageFault: no such impl or scheme.
        """
        if module.training or not calibration:
            missing = "the module is in training mode" if module.training else "there is no calibration input"
            raise GateRefused(f"{self.structure.spec.name}: {missing}", hint="call module.eval(); pass real inputs")
        if (count := len(self.structure.spec.inputs)) > 1:
            raise GateRefused(
                f"{self.structure.spec.name} takes {count} inputs, this door feeds one", hint="certify it on a host"
            )
        root = nn.ModuleDict({SEAT: module}).eval()
        facts = self._facts(root)
        self._check_samples(calibration, facts)
        local = {repo: Path(path) for repo, path in (builds or {}).items()}
        reasons: list[str] = []
        for entry, name in self._candidates(impl, scheme):
            try:
                bound = _Trial(self, root, facts, entry, name, local).bound(calibration)
            except SwapRefused:
                raise  # the impl wrote to the module it was given
            except FrtError as refusal:
                reasons.append(f"{entry.impl.name} in {name}: {refusal.message}")
            else:
                swap.attach(root, [bound])
                return root[SEAT]
        raise GateRefused(
            f"{self.structure.spec.name}: nothing passes. {'; '.join(reasons)}", hint="keep the host module"
        )

    def _facts(self, root: nn.Module) -> SeatFacts:
        seats, others = discover(root, [self.structure.spec])
        for found in seats:
            if found.seat == ModuleSeat(SEAT):
                return found
        why = "; ".join(f"{other.path}: {other.reason}" for other in others) or "it has none of the structure's parts"
        if seats:
            why = f"it holds {', '.join(found.id for found in seats)}, to be served on a host"
        raise GateRefused(f"the module is no single-module seat of {self.structure.spec.name}: {why}")

    def _check_samples(self, calibration: Sequence[object], facts: SeatFacts) -> None:
        """Refuse what the module cannot be given, before it is called."""
        (given,) = self.structure.spec.inputs
        width = evaluate(given.shape[-1], facts.dims)
        for index, x in enumerate(calibration):
            seen = f"{dtype_name(x.dtype)} {list(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            if not isinstance(x, Tensor) or x.shape[-1:] != (width,) or dtype_name(x.dtype) != facts.dtype:
                raise GateRefused(
                    f"{self.structure.spec.name}: calibration input {index} is {seen}, the module takes {facts.dtype} "
                    f"[..., {width}]",
                    hint="pass tensors as the module is called with them, each of them one sample",
                )

    def _candidates(self, impl: str | None, scheme: str | None) -> Iterator[tuple[ImplEntry, str]]:
        name = self.structure.spec.name
        chosen = (
            [self.registry.impl(name, impl)]
            if impl
            else [entry for key, entry in sorted(self.registry.impls.items()) if key.startswith(f"{name}/")]
        )
        if scheme:
            self.registry.scheme(scheme)  # an unknown word is a usage fault, not an empty list
        pairs = [(entry, one) for entry in chosen for one in entry.impl.schemes if scheme in (None, one)]
        yield from sorted(pairs, key=lambda pair: (self._error(pair[1]), pair[0].impl.name))

    def _error(self, scheme: str) -> float:
        """Return the relative error that a sound part of a scheme may have."""
        return load_scheme(str(self.registry.scheme(scheme).file)).limits.rel_l2


@dataclass(frozen=True, slots=True)
class _Trial:
    """One impl in one scheme on one module."""

    door: Door
    root: nn.Module
    facts: SeatFacts
    entry: ImplEntry
    scheme_name: str
    builds: Mapping[str, Path]

    @torch.no_grad()
    def bound(self, calibration: Sequence[Tensor]) -> BoundSeat:
        """Calibrate, bind and check.

        Raises:
            GateRefused: a refusal to bind, or a comparison over its limit.
            FrtError: no kernel, no calibration, a broken entry.
        """
        scheme = load_scheme(str(self.door.registry.scheme(self.scheme_name).file))
        passes = [partial(self.root[SEAT], x) for x in calibration]  # type: ignore[index]
        scales = calibrate(self.root, passes, [self.facts], scheme)
        impl, kind = self.entry.impl, next(self.root.parameters()).device.type
        bound, refused = bind_unit(
            self.root,
            [self.facts],
            structure=self.door.structure.spec,
            impl=load_impl(self.entry),
            scheme=self.scheme_name,
            scales=scales,
            kernel=kernels.load_build(resolve(impl.kernel, local=self.builds, backend=kind)),
            rows=impl.rows[self.scheme_name],
        )
        if refused:
            raise GateRefused(f"{refused[0].reason}: {refused[0].detail}")
        for metrics in self._compare(bound[0], scheme, scales.get(self.facts.id, Scales()), calibration):
            _hold(metrics, scheme)
        return bound[0]

    def _compare(
        self, bound: BoundSeat, scheme: Scheme, scales: Scales, calibration: Sequence[Tensor]
    ) -> Iterator[SeamMetrics]:
        oracle = SeatOracle(self.root, self.facts, self.door.structure.spec, scheme, scales)
        flat = torch.cat([x.reshape(-1, x.shape[-1]) for x in calibration])
        if not seam.covered_rows(flat.shape[0], bound.rows):
            raise GateRefused(
                f"{flat.shape[0]} calibration rows, the impl takes {bound.rows[0]} to {bound.rows[1]} a call"
            )
        cases = load_module(self.door.structure.cases_file)
        real = [flat[start:stop] for start, stop in seam.splits(flat.shape[0], bound.rows)]
        answers = [Answer("real", seam.run_real(bound.module, flat, bound.rows), real)]
        for name, x in seam.case_inputs(cases, self.facts, bound.rows, CASE_SEED):
            answers.append(Answer(name, seam.as_tuple(bound.module(x)), [x]))
        fakes = oracle.fake_quantised(calls_of(answers))
        yield from compare(oracle, scheme, SEAT, answers, fakes)
        for one in pooled(oracle, cases, self.facts, answers, fakes):
            _hold_pooled(one, scheme)


def _hold_pooled(found: PooledMetrics, scheme: Scheme) -> None:
    numbers, top = together.numbers(found), together.ceilings(found, scheme.limits)
    over = together.breaches(found, scheme.limits)
    said = "; ".join(
        f"{name} {numbers[name]:.6g} (needs <= {top[name]:g}) at {together.place(found, name)}" for name in over
    )
    if over:
        raise GateRefused(f"parity: {over[0]} over all rows, output {found.output}: {said}")


def _hold(metrics: SeamMetrics, scheme: Scheme) -> None:
    word = limits.fault(metrics, scheme.limits)
    if not word:
        return
    numbers, top = limits.numbers(metrics, scheme.limits), limits.ceilings(scheme.limits)
    over = limits.breaches(metrics, scheme.limits)
    said = "; ".join(f"{name} {numbers[name]:.6g} (needs <= {top[name]:g})" for name in over) or metrics.mismatch
    raise GateRefused(f"parity: {word} on {metrics.case}, output {metrics.output}: {said}")
