"""Runs a part at a seat through the lab's own seam run and oracles, and judges it by the gate, all in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Final, cast
from unittest.mock import patch

import torch
from torch import Tensor, nn

from pytest_frt.contracts.evidence import Check, ParityEvidence
from pytest_frt.contracts.impl import Scales
from pytest_frt.contracts.scheme import Scheme
from pytest_frt.contracts.seat import SeatFacts, SlotRef
from pytest_frt.contracts.structure import Structure
from pytest_frt.contracts.verdict import Refusal, Verdict
from pytest_frt.gates import contract as contract_gate
from pytest_frt.gates import parity
from pytest_frt.lab import calls, hosting, seam
from pytest_frt.lab.calls import Given
from pytest_frt.lab.census import CHECK, Census
from pytest_frt.lab.near import NearMiss, pooled
from pytest_frt.lab.oracle import Answer, SeatOracle, calls_of, compare
from pytest_frt.lab.seam_run import REAL, SeamRun
from pytest_frt.registry import Registry, load_module
from pytest_frt.seat import lifecycle
from pytest_frt.seat.bind import BoundSeat
from pytest_frt.seat.checks import second_thread_agrees
from pytest_frt.seat.swap import attach
from pytest_frt.seat.weights import host_tensor, slot_tensors, weights_digest
from pytest_frt.spec.dims import evaluate
from tests.mutants.entry import Fault
from tests.mutants.places import ROWS, Ground, facts_of, ground, host, host_ref
from tests.mutants.plan import ACTIVATIONS, Part, Plan, out_in_bfloat16
from tests.mutants.seats import SEATS

REGISTRY: Final = Registry.load()
SHORT: Final = ("none", "w16a32", "w8a16_decode")
"""Schemes whose impls take a decode step; the others take a whole prompt."""
CASE_SEED: Final = 3
Row = tuple[Tensor, ...]
Product = Callable[[Tensor, Tensor], Tensor]


class Remembered:
    """The two oracles of a seat, each input computed once: every mutant of a seat is asked the same."""

    def __init__(self, oracle: SeatOracle) -> None:
        self._oracle = oracle
        self._known: dict[tuple[str, bytes], Row] = {}

    def reference(self, given: Sequence[Given]) -> list[Row]:
        """Return the plain reference of each call."""
        return self._get("exact", given, self._oracle.reference)

    def fake_quantised(self, given: Sequence[Given]) -> list[Row]:
        """Return the fake-quantised reference of each call."""
        return self._get("fake", given, self._oracle.fake_quantised)

    @property
    def per_call(self) -> bool:
        """Say what the oracle says."""
        return self._oracle.per_call

    @property
    def per_call_outputs(self) -> tuple[bool, ...]:
        """Say what the oracle says."""
        return self._oracle.per_call_outputs

    @property
    def products(self) -> tuple[Product, ...]:
        """Say what the oracle says."""
        return self._oracle.products

    def variant(
        self, given: Sequence[Given], *, near: NearMiss | None, tapped: bool, product: Product | None = None
    ) -> list[Row]:
        """Return the reference or a near miss on each call."""
        name = f"{near.name if near else 'reference'} {tapped} {getattr(product, '__name__', '')}"
        return self._get(name, given, partial(self._oracle.variant, near=near, tapped=tapped, product=product))

    def _get(self, which: str, given: Sequence[Given], ask: Callable[[Sequence[Given]], list[Row]]) -> list[Row]:
        inputs = [calls.of(one).x for one in given]
        keys = [(which, repr(tuple(x.shape)).encode() + x.contiguous().numpy().tobytes()) for x in inputs]
        missing = {key: one for key, one in zip(keys, given, strict=True) if key not in self._known}
        answers = ask(list(missing.values()))
        self._known |= dict(zip(missing, answers, strict=True))
        return [self._known[key] for key in keys]


@dataclass(frozen=True, slots=True)
class Bench:
    """One seat in one scheme on one place.

    Attributes:
        facts: The seat.
        model: Holds its tensors.
        plan: Of a sound part.
        oracle: Both oracles.
        real: Rows judged.
        cases: Discriminating inputs.
        module: ``cases.py`` of the structure.
        band: Rows of a call.
        widths: Of the outputs.
        digest: Of the host's tensors before any part was bound.
    """

    facts: SeatFacts
    model: nn.Module
    plan: Plan
    oracle: Remembered
    real: Tensor
    cases: tuple[tuple[str, Tensor], ...]
    module: ModuleType
    band: tuple[int, int]
    widths: tuple[int, ...]
    digest: str

    def bound(self, fault: Fault) -> BoundSeat:
        """Bind a part with one fault."""
        part = Part(fault.change(self.plan)).eval()
        return BoundSeat(self.facts, part, self.real.shape[-1], self.widths, self.band, "mutant", self.plan.scheme.name)

    def judge(self, fault: Fault) -> parity.ParityVerdict:
        """Judge a part with one fault at the shipped limits."""
        scheme, seat, run = self.plan.scheme, self.facts.id, SeamRun()
        with torch.no_grad(), _first_elements_kept(self.plan.host) as kept:
            run.part(self.bound(fault), [self.real], self.cases, self.band)
            oracle, answers = cast("SeatOracle", self.oracle), self._answers(run)
            metrics = tuple(compare(oracle, scheme, seat, answers))
            together = tuple(pooled(oracle, self.module, self.facts, answers, oracle.fake_quantised(calls_of(answers))))
            written = any(not torch.equal(_first(now), kept[name]) for name, now in self.plan.host.items())
            digest = weights_digest(self.model, self.facts) if written else self.digest
            evidence = replace(run.evidence([seat]), weights={seat: digest})
        terms = parity.SeatTerms(scheme.limits, weights=self.digest)
        found = ParityEvidence(metrics, (), pooled=together)
        return parity.judge(found, evidence, parity.Terms({seat: terms}, "values", "random"))

    def _answers(self, run: SeamRun) -> list[Answer]:
        calls = [self.real[start:stop] for start, stop in seam.splits(self.real.shape[0], self.band)]
        inputs = [(REAL, calls), *((f"case/{name}", [x]) for name, x in self.cases)]
        found = [(name, _outputs(run.outputs, f"{name}/{self.facts.id}"), x) for name, x in inputs]
        return [Answer(name.removeprefix("case/"), got, x) for name, got, x in found if got]


def _first(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1)[:1]


@contextmanager
def _first_elements_kept(tensors: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """Put back the first element of every host tensor: the only ones that a mutant writes to."""
    kept = {name: _first(tensor).clone() for name, tensor in tensors.items()}
    try:
        yield kept
    finally:
        for name, tensor in tensors.items():
            _first(tensor).copy_(kept[name])


def _outputs(held: Mapping[str, Tensor], key: str) -> Row:
    return (held[key],) if key in held else tuple(held[f"{key}#{i}"] for i in range(3) if f"{key}#{i}" in held)


def _band(scheme: str, structure: str) -> tuple[int, int]:
    entries = (entry.impl for entry in REGISTRY.impls.values())
    bands = [impl.rows[scheme] for impl in entries if impl.structure == structure and scheme in impl.schemes]
    return bands[0] if bands else ((1, 8) if scheme in SHORT else (1, 512))


def _costly(name: str, x: Tensor) -> bool:
    """Report whether a case is about memory or many rows: those are tried on tiny hosts, where they cost little."""
    return not x.is_contiguous() or bool(x.storage_offset()) or "batch" in name or x.numel() > ROWS * x.shape[-1]


def _calibrated(structure: Structure, keywords: Mapping[str, object], x: Tensor, scheme: Scheme) -> Scales:
    found: dict[str, float] = {}
    if scheme.statistic == "none":
        return Scales()

    def tap(point: str, value: Tensor) -> Tensor:
        found[point] = torch.tensor(float(value.abs().max()) / scheme.format_max).item()
        return value

    load_module(Path(structure.folder) / "reference.py").reference(x=x, **keywords, tap=tap)
    return Scales(found)


def _neighbour(found: Ground, facts: SeatFacts) -> dict[str, Tensor]:
    """Return the slots of the layer above, float32."""
    up = {slot: SlotRef(ref.tensor.replace(".0.", ".1.", 1), ref.transpose) for slot, ref in facts.slots.items()}
    return slot_tensors(found.model, replace(facts, slots=up))


@cache
def bench(name: str, scheme_name: str, place: str) -> Bench:
    """Return a seat in a scheme on a place, ready to judge parts."""
    spec, found = SEATS[name], ground(place, SEATS[name].host)
    structure = REGISTRY.structures[spec.structure].spec
    scheme = cast("Scheme", load_module(REGISTRY.schemes[scheme_name].file).SCHEME)
    slots = {slot.name: slot for slot in structure.slots}
    facts = facts_of(spec, found.model, {slot: one.shape for slot, one in slots.items()})
    weights = slot_tensors(found.model, facts)
    rows = found.rows(spec)
    seen, real = rows[:ROWS], rows[ROWS : 2 * ROWS].contiguous()
    scales = _calibrated(structure, {**weights, **facts.variant, **facts.constants}, seen, scheme)
    plan = Plan(
        structure=spec.structure,
        variant=facts.variant,
        eps=spec.eps,
        slots=slots,
        weights=weights,
        scheme=scheme,
        scales=scales,
        neighbour=_neighbour(found, facts),
        seen=seen,
        act=ACTIVATIONS[facts.variant.get("activation", "silu")],
        quantise=scheme.weight,
        tap=lambda point, value: scheme.activation(value, scales.by_point.get(point)),
        product=out_in_bfloat16 if scheme_name == "w8a16_decode" else torch.matmul,
        host={slot: host_tensor(found.model, ref.tensor) for slot, ref in facts.slots.items()},
    )
    band = _band(scheme_name, spec.structure)
    cases = load_module(Path(structure.folder) / "cases.py")
    widths = tuple(evaluate(one.shape[-1], facts.dims) for one in structure.outputs)
    drawn = tuple(
        case for case in seam.case_inputs(cases, facts, band, CASE_SEED) if place == "tiny" or not _costly(*case)
    )
    oracle = Remembered(SeatOracle(found.model, facts, structure, scheme, scales))
    digest = weights_digest(found.model, facts)
    return Bench(facts, found.model, plan, oracle, real, drawn, cases, band, widths, digest)


def seam_refusal(name: str, scheme: str, place: str, fault: Fault) -> Refusal | None:
    """Return why parity refuses a part at its seam, or None."""
    return next(iter(bench(name, scheme, place).judge(fault).seats.refused), None)


def contract(name: str, scheme: str, fault: Fault) -> Verdict:
    """Judge by the contract what a part does to its process, and how it answers in a second thread, on a tiny host."""
    asked, built, ref = bench(name, scheme, "tiny"), host(SEATS[name].host), host_ref(SEATS[name].host)
    state = built.program.prepare(built.model, hosting.split(built, ref).heldout[:1], built.spec.phases[0].name)
    census = Census(built.model)
    try:
        bound = asked.bound(fault)
        changed = census.changed()
        with patch.object(lifecycle, "CHECKS", (second_thread_agrees,)):
            checks = lifecycle.run_battery(
                built.model, lambda: attach(built.model, [bound]), lambda: built.program.run(built.model, state)
            )
    finally:
        fault.undo()
    return contract_gate.judge((*checks, Check(CHECK, not changed, ", ".join(changed))), required=[CHECK])
