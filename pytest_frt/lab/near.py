"""What the answers of all cases show together: gains of single channels, and shares of the way to a near miss."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from pytest_frt.contracts.pooled import PooledMetrics
from pytest_frt.lab import calls
from pytest_frt.lab.seam_run import REAL
from pytest_frt.measure.pooled import Directions, alternative_share, channel_gains

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType
    from typing import Any

    from torch import Tensor

    from pytest_frt.contracts.pooled import AlternativeMetrics
    from pytest_frt.contracts.seat import SeatFacts
    from pytest_frt.lab.calls import Call
    from pytest_frt.lab.oracle import Answer, SeatOracle

    Row = tuple[Tensor, ...]
    Product = Callable[[Tensor, Tensor], Tensor]

FEW_ROWS: Final = 32
"""Real rows on which near misses are computed: four float64 references each, on the inputs that count most."""
ENOUGH: Final = 0.05
"""Standard error of a share at which more inputs change no verdict: ten of them lie between reference and midpoint."""
MATMULS: Final = frozenset({torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__})


class NearMiss(Protocol):
    """What ``cases.py`` says of a near miss: see ``catalog/_shared/near.py``."""

    @property
    def name(self) -> str:
        """Unique among the near misses of one variant."""

    @property
    def keywords(self) -> Mapping[str, object]:
        """Axes and constants of the reference that take another value."""

    @property
    def slots(self) -> Mapping[str, Callable[[Tensor], Tensor]]:
        """Slot to what it is taken for."""


class Rounded(TorchFunctionMode):
    """Rounds what every matmul leaves while it is entered; one by ``F.linear`` leaves before its bias is added.

    Args:
        product: Of the scheme.
    """

    def __init__(self, product: Product) -> None:
        super().__init__()
        self._product = product

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        """Call on, and round the result where the call was a matmul."""
        named = dict(kwargs or {})
        if func is F.linear:
            x, w, *bias = args
            left = self._product(func(x, w), w.T)
            offset = bias[0] if bias else named.get("bias")
            return left if offset is None else left + offset
        out = func(*args, **named)
        return self._product(out, args[1]) if func in MATMULS else out


def pooled(
    oracle: SeatOracle, cases: ModuleType, facts: SeatFacts, answers: Sequence[Answer], fakes: Sequence[Row]
) -> Iterator[PooledMetrics]:
    """Yield what all answers of one seat show together, one per output.

    Args:
        oracle: Of the seat.
        cases: The structure's ``cases.py``; its ``near_misses(variant)``, where it has one, names near misses.
        facts: The seat.
        answers: Real rows and cases; those whose outputs differ in count or shape from the reference are left out.
        fakes: The fake-quantised reference of every call of every answer.
    """
    left = iter(fakes)
    paired = [(answer, list(islice(left, len(answer.calls)))) for answer in answers]
    fitting = [(answer, fake) for answer, fake in paired if _fits(answer, fake)]
    outputs = max((len(answer.got) for answer, _ in fitting), default=1)
    named = getattr(cases, "near_misses", None)
    misses = list(named(facts.variant)) if named and fitting else []
    kept = [answer for answer, _ in fitting]
    shares = [_shares(oracle, miss, kept) or [alternative_share(miss.name, ())] * outputs for miss in misses]
    for index in range(outputs):
        pairs = [(answer.got[index], torch.cat([row[index] for row in fake])) for answer, fake in fitting]
        rows, worst = channel_gains(pairs)
        width = pairs[0][0].shape[-1] if pairs else 0
        yield PooledMetrics(facts.id, index, rows, width, worst, tuple(share[index] for share in shares))


def _fits(answer: Answer, fake: Sequence[Row]) -> bool:
    whole = [sum(row[index].shape[:-1].numel() for row in fake) for index in range(len(fake[0]))]
    widths = [output.shape[-1] for output in fake[0]]
    return [(one.shape[:-1].numel(), one.shape[-1]) for one in answer.got] == list(zip(whole, widths, strict=True))


def _shares(oracle: SeatOracle, miss: NearMiss, answers: Sequence[Answer]) -> list[AlternativeMetrics]:
    """Return the share of every output: on a few real rows, and on the cases too where those do not tell.

    Of several ways to round, and of both sets of rows, the one that scatters least is believed: rounding that the part
    does not do, and rows that excite nothing, only scatter.
    """
    real = [piece for answer in answers if answer.case == REAL for piece in _few(oracle, answer)]
    others = [
        (calls.of(answer.calls[0]), answer.got)
        for answer in answers
        if answer.case != REAL and calls.of(answer.calls[0]).x.numel()
    ]
    best: list[AlternativeMetrics] = []
    for pieces in filter(None, (real, [*real, *others] if others else [])):
        plain = [oracle.variant([call for call, _ in pieces], near=near, tapped=False) for near in (None, miss)]
        for product in (*oracle.products, None):
            columns = _directions(oracle, miss, pieces, plain, product)
            found = [alternative_share(miss.name, column) for column in columns]
            best = [min(pair, key=lambda one: one.spread) for pair in zip(best or found, found, strict=True)]
            if all(one.spread <= ENOUGH for one in best):
                return best
    return best


def _few(oracle: SeatOracle, answer: Answer) -> Iterator[tuple[Call, Row]]:
    """Yield whole calls up to ``FEW_ROWS``; a call taller than that is cut where its rows do not depend on others."""
    start = 0
    for index, call in enumerate(map(calls.of, answer.calls)):
        rows = call.x.shape[0]
        if start and start + rows > FEW_ROWS:
            return
        kept = rows if oracle.per_call else min(rows, FEW_ROWS)
        yield (
            call.given(call.x[:kept]),
            tuple(
                output[index : index + 1] if single else output[start : start + kept]
                for output, single in zip(answer.got, oracle.per_call_outputs, strict=True)
            ),
        )
        start += rows


def _directions(
    oracle: SeatOracle,
    miss: NearMiss,
    pieces: Sequence[tuple[Call, Row]],
    plain: Sequence[Sequence[Row]],
    product: Product | None,
) -> list[tuple[Directions, ...]]:
    """Return, per output, the directions of every call."""
    given = [call for call, _ in pieces]
    rounded = [oracle.variant(given, near=near, tapped=True, product=product) for near in (None, miss)]
    by_call = [
        [Directions(*column) for column in zip(got, *rows, strict=True)]
        for (_, got), *rows in zip(pieces, *rounded, *plain, strict=True)
    ]
    return list(zip(*by_call, strict=True))


def entered(product: Product | None, call: Callable[[Call], Row]) -> Callable[[Call], Row]:
    """Return ``call`` with what its matmuls leave rounded; itself where a scheme rounds none."""
    if product is None:
        return call
    mode = Rounded(product)

    def rounded(given: Call) -> Row:
        with mode:
            return call(given)

    return rounded
