"""The oracles: reference and fake-quantised reference in float64, run without impl code after the candidate exited."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import safe_open
from safetensors.torch import load_file

from pytest_frt.contracts.impl import Scales
from pytest_frt.contracts.oracle import OracleEvidence
from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.lab import calls, hosting, seam
from pytest_frt.lab.calls import Call, Given
from pytest_frt.lab.near import NearMiss, entered, pooled
from pytest_frt.lab.units import NO_STATISTIC, load_scheme, members, peers
from pytest_frt.measure.metrics import incomparable, seam_metrics
from pytest_frt.registry import load_module
from pytest_frt.seat.artefact import load_artefact
from pytest_frt.seat.calibrate import survey
from pytest_frt.seat.weights import slot_tensors
from pytest_frt.spec import codec
from pytest_frt.spec.load import load_structure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from torch import Tensor, nn

    from pytest_frt.contracts.evidence import SeamMetrics
    from pytest_frt.contracts.job import OracleJob, UnitRef
    from pytest_frt.contracts.pooled import PooledMetrics
    from pytest_frt.contracts.scheme import Scheme, SeamLimits
    from pytest_frt.contracts.structure import Structure

    Product = Callable[[Tensor, Tensor], Tensor]
    SeamCall = Callable[[Call], tuple[Tensor, ...]]


class SeatOracle:
    """Both oracles of one seat, as functions of its inputs.

    Args:
        model: The untouched host.
        facts: The seat.
        structure: Its structure.
        scheme: The scheme under judgement.
        scales: Static scales the candidate was bound with.
    """

    def __init__(
        self, model: nn.Module, facts: SeatFacts, structure: Structure, scheme: Scheme, scales: Scales
    ) -> None:
        self._reference = load_module(Path(structure.folder) / "reference.py").reference
        self._keywords = {**facts.variant, **facts.constants}
        roles = {slot.name: slot for slot in structure.slots}
        self._exact: dict[str, Tensor] = {}
        self._fake: dict[str, Tensor] = {}
        for name, tensor in slot_tensors(model, facts).items():
            slot = roles[name]
            self._exact[name] = tensor.double()
            wide = tensor.double()  # in a host's 16 bits codes times scales would be rounded once more
            self._fake[name] = scheme.weight(wide, slot.out_axis) if slot.role == "matmul" else wide
        self._scheme, self._scales = scheme, scales
        self.names = tuple(tensor.name for tensor in structure.inputs)
        # What comes with x belongs to one call: rows of several calls are not computed together.
        self._rowwise = structure.rowwise and len(self.names) == 1
        self.per_call_outputs = tuple(tensor.per_call for tensor in structure.returned(facts.variant))

    @property
    def per_call(self) -> bool:
        """True where a row of the fake-quantised reference depends on the other rows of its call."""
        return self._scheme.per_call or not self._rowwise

    def _tap(self, name: str, value: Tensor) -> Tensor:
        if self._scheme.points != "all":
            return value
        return self._scheme.activation(value, self._scales.by_point.get(name))

    def reference(self, calls: Sequence[Given]) -> list[tuple[Tensor, ...]]:
        """Return the plain reference in float64 for each call."""
        return self._apply(self._plain, calls, rowwise=self._rowwise)

    def fake_quantised(self, calls: Sequence[Given]) -> list[tuple[Tensor, ...]]:
        """Return the reference with the scheme's weights, activations and products, in float64, for each call."""
        quantised = entered(self._scheme.leaves, self._quantised)
        return self._apply(quantised, calls, rowwise=self._rowwise and not self._scheme.per_call)

    @property
    def products(self) -> tuple[Product, ...]:
        """The ways in which the scheme's matmuls may leave rounded."""
        return self._scheme.products

    def variant(
        self, calls: Sequence[Given], *, near: NearMiss | None, tapped: bool, product: Product | None = None
    ) -> list[tuple[Tensor, ...]]:
        """Return the reference on the scheme's weights in float64, or a near miss of it, for each call.

        Args:
            calls: The calls.
            near: None for the reference itself.
            tapped: True to round activations as the scheme does.
            product: Rounds what matmuls leave; None to leave it.
        """
        slots = (
            {**self._fake, **{name: take(self._fake[name]) for name, take in near.slots.items()}}
            if near
            else self._fake
        )
        keywords = {**self._keywords, **(near.keywords if near else {}), **({"tap": self._tap} if tapped else {})}

        def call(given: Call) -> tuple[Tensor, ...]:
            return seam.as_tuple(self._reference(**self._inputs(given), **slots, **keywords))

        return self._apply(entered(product, call), calls, rowwise=self._rowwise and not (tapped and self.per_call))

    def _inputs(self, given: Call) -> dict[str, Tensor]:
        return {name: tensor.double() for name, tensor in zip(self.names, given.tensors, strict=True)}

    def _plain(self, given: Call) -> tuple[Tensor, ...]:
        return seam.as_tuple(self._reference(**self._inputs(given), **self._exact, **self._keywords))

    def _quantised(self, given: Call) -> tuple[Tensor, ...]:
        return seam.as_tuple(self._reference(**self._inputs(given), **self._fake, **self._keywords, tap=self._tap))

    @staticmethod
    def _apply(call: SeamCall, given: Sequence[Given], *, rowwise: bool) -> list[tuple[Tensor, ...]]:
        if not rowwise:
            return [call(calls.of(one)) for one in given]
        return seam.row_by_row(lambda x: call(Call(x)), [calls.of(one).x for one in given])


@dataclass(frozen=True, slots=True)
class Answer:
    """What a bound part returned in one case, row by row over ``calls``.

    Attributes:
        case: ``real`` or the case's name.
        got: One tensor per output.
        calls: The calls; a case of several has its outputs joined along the first axis.
    """

    case: str
    got: tuple[Tensor, ...]
    calls: Sequence[Given]


def calls_of(answers: Iterable[Answer]) -> list[Given]:
    """Return every call of every answer."""
    return [call for answer in answers for call in answer.calls]


def compare(
    oracle: SeatOracle,
    scheme: Scheme,
    seat: str,
    answers: Sequence[Answer],
    fakes: Sequence[tuple[Tensor, ...]] | None = None,
) -> Iterator[SeamMetrics]:
    """Yield the metrics of every answer against both oracles.

    Args:
        oracle: Of the seat.
        scheme: It is judged by.
        seat: Seat id.
        answers: Real rows and cases.
        fakes: The fake-quantised reference of every call, where it was computed already.
    """
    flat = calls_of(answers)
    exact, fake = iter(oracle.reference(flat)), iter(oracle.fake_quantised(flat) if fakes is None else fakes)
    for answer in answers:
        count = len(answer.calls)
        yield from _judge(scheme, seat, answer, list(islice(exact, count)), list(islice(fake, count)))


def _judge(
    scheme: Scheme,
    seat: str,
    answer: Answer,
    exact: Sequence[tuple[Tensor, ...]],
    fake: Sequence[tuple[Tensor, ...]],
) -> list[SeamMetrics]:
    got, case = answer.got, answer.case
    if len(got) != len(exact[0]):
        return [incomparable(seat, case, 0, f"{len(got)} outputs, the reference has {len(exact[0])}")]
    return [
        seam_metrics(g, _joined(e), _joined(f), seat=seat, case=case, output=index, limits=scheme.limits)
        for index, (g, e, f) in enumerate(zip(got, zip(*exact, strict=True), zip(*fake, strict=True), strict=True))
    ]


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _outputs(reader: safe_open, keys: set[str], prefix: str, seat: str) -> tuple[Tensor, ...]:
    plain = f"{prefix}/{seat}"
    if plain in keys:
        return (reader.get_tensor(plain),)
    found: list[Tensor] = []
    while f"{plain}#{len(found)}" in keys:
        found.append(reader.get_tensor(f"{plain}#{len(found)}"))
    return tuple(found)


def _seat(
    job: OracleJob,
    unit: UnitRef,
    oracle: SeatOracle,
    scheme: Scheme,
    facts: SeatFacts,
    real: Sequence[Call],
    reader: safe_open,
) -> tuple[list[SeamMetrics], list[PooledMetrics]]:
    keys = set(reader.keys())
    answers: list[Answer] = []
    fed = [call for group in real for call in calls.parts(group, unit.rows)]
    got = _outputs(reader, keys, "real", facts.id)
    if fed and got:
        answers.append(Answer("real", got, fed))
    cases = load_module(Path(unit.structure_folder) / "cases.py")
    for name, call in calls.case_calls(cases, facts, oracle.names, unit.rows, job.case_seed):
        answers.append(Answer(name, _outputs(reader, keys, f"case/{name}", facts.id), [call]))
    fakes = oracle.fake_quantised(calls_of(answers))
    compared = list(compare(oracle, scheme, facts.id, answers, fakes))
    return compared, list(pooled(oracle, cases, facts, answers, fakes))


def _drift(have: Scales, want: Scales) -> float:
    """Return the largest relative difference of any point's scale; a point that only one of them has is all of it."""
    if have.by_point.keys() != want.by_point.keys():
        return 1.0
    return max((abs(have.by_point[point] / scale - 1) for point, scale in want.by_point.items()), default=0.0)


def scale_drift(
    host: hosting.Hosting, job: OracleJob, seats: tuple[SeatFacts, ...], scales: Mapping[str, Scales]
) -> dict[str, float]:
    """Calibrate again, where no impl code can reach, and compare with the scales that the candidate left."""
    found: dict[str, float] = {}
    for unit in job.units:
        scheme = load_scheme(unit.scheme_file)
        mine = [facts for facts in members(unit, seats) if facts.id in scales]
        if scheme.statistic == NO_STATISTIC or not mine:
            continue
        drawn = hosting.split(host, job.host).calibration
        passes = [partial(host.program.score, host.model, [sample], job.phase) for sample in drawn]
        own = survey(host.model, passes, peers(unit, seats), scheme).scales
        found |= {facts.id: _drift(scales[facts.id], own.get(facts.id, Scales())) for facts in mine}
    return found


def _kept(file: Path) -> dict[str, Scales]:
    return load_artefact(file) if file.exists() else {}


@torch.no_grad()
def run(job: OracleJob) -> None:
    """Fill ``job.out`` with ``oracle.json``: seam metrics of every bound seat on real rows and cases."""
    host = hosting.build(job.host)
    seats = codec.loads(tuple[SeatFacts, ...], Path(job.seats).read_text())
    inputs, folder = load_file(job.seam_inputs), Path(job.candidate)
    scales = _kept(folder / "scales.safetensors")
    metrics: list[SeamMetrics] = []
    together: list[PooledMetrics] = []
    limits: dict[str, SeamLimits] = {}
    with safe_open(folder / "seam.safetensors", framework="pt") as reader:
        written = {key.partition("/")[2].split("#")[0] for key in reader.keys() if key.startswith("real/")}  # noqa: SIM118
        for unit in job.units:
            structure, scheme = load_structure(Path(unit.structure_folder)), load_scheme(unit.scheme_file)
            limits[unit.id] = scheme.limits
            for facts in members(unit, seats):
                if facts.id in written:
                    oracle = SeatOracle(host.model, facts, structure, scheme, scales.get(facts.id, Scales()))
                    real = calls.read(inputs, job.phase, facts.id, len(structure.inputs))
                    found = _seat(job, unit, oracle, scheme, facts, real, reader)
                    metrics, together = metrics + found[0], together + found[1]
    (Path(job.out) / "oracle.json").write_text(
        codec.dumps(
            OracleEvidence(tuple(metrics), limits, scale_drift(host, job, seats, scales), pooled=tuple(together))
        )
    )
