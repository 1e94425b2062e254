"""Systematic errors, over the rows of all cases together: of one output channel, and towards a near miss.

Both are least-squares coefficients whose rows count alike whatever their size: each row is divided by its own root mean
square. Their standard errors are jackknifed over the rows (leave one out), since elements of one row err together.
Every number is finite: what rows cannot show has no gain, or the spread ``NO_SAY``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from pytest_frt.contracts.pooled import AlternativeMetrics, ChannelMetrics
from pytest_frt.measure.blocks import as_rows, blocks

LEAST_RMS: Final = 1e-12
"""Rows below it say nothing: products of float32 numbers that small lose bits, or vanish."""
LEAST_ROWS: Final = 8
"""Rows that one row must weigh like, at least: of fewer no scatter can be told."""
NO_SAY: Final = 1e6
"""Spread of a share that the rows say nothing about."""


def _usable(rows: Tensor, *others: Tensor) -> Tensor:
    """Return which rows count: finite, of some size, and other than the row before."""
    square = rows.square().mean(1)
    # A sum over a row is finite exactly when each of its elements is: float32 numbers do not overflow float64.
    kept = torch.isfinite(square) & (square.sqrt() > LEAST_RMS)
    for other in others:
        kept &= torch.isfinite(other.sum(1))
    for again in (square[1:] == square[:-1]).nonzero().flatten().tolist():
        if torch.equal(rows[again + 1], rows[again]):
            kept[again + 1] = False
    return kept


def _weighed(pairs: Iterable[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield error and fake-quantised reference in float64 blocks ``[m, N]``, and 1 over its mean squares ``[m]``."""
    for candidate, fake in pairs:
        for c, f in blocks(as_rows(candidate), as_rows(fake)):
            kept = _usable(f, c)
            whole = (c, f) if bool(kept.all()) else (c[kept], f[kept])
            yield whole[0] - whole[1], whole[1], whole[1].square().mean(1).reciprocal()


def channel_gains(pairs: Sequence[tuple[Tensor, Tensor]]) -> tuple[int, tuple[ChannelMetrics, ...]]:
    """Regress each channel's error on its value: ``gain = sum e f / sum f^2`` over the rows.

    Args:
        pairs: Candidate ``[..., N]`` in any float dtype and fake-quantised reference ``[..., N]`` in float64, per case.

    Returns:
        Rows that counted, and the channels that no other beats in both gain and spread, the largest gain first. A
        channel whose value comes from fewer than ``LEAST_ROWS`` rows has no gain.
    """
    if not pairs:
        return 0, ()
    zeros = pairs[0][1].new_zeros(pairs[0][1].shape[-1], dtype=torch.float64)
    rows, ef, ff, ffff = 0, zeros.clone(), zeros.clone(), zeros.clone()
    for e, f, weight in _weighed(pairs):
        square = f * f
        rows += e.shape[0]
        ef += weight @ (e * f)
        ff += weight @ square
        ffff += weight.square() @ square.square_()
    told = ff * ff >= LEAST_ROWS * ffff
    gain = torch.where(told, ef / ff.clamp_min(torch.finfo(torch.float64).tiny), zeros)
    left_out = zeros.clone()
    for e, f, weight in _weighed(pairs):
        # Without one row, the gain moves by w f (e - gain f) / (ff - w f^2).
        moved = torch.addcmul(e, gain, f, value=-1).mul_(f)
        moved /= torch.addcmul(ff, weight[:, None], f * f, value=-1)
        left_out += weight.square() @ moved.square_()
    return rows, tuple(_foremost(gain, torch.where(told, left_out.sqrt(), zeros)))


def _foremost(gain: Tensor, spread: Tensor) -> Iterator[ChannelMetrics]:
    order = gain.abs().argsort(descending=True, stable=True)
    least = spread[order].cummin(0).values
    first = torch.ones_like(least, dtype=torch.bool)
    first[1:] = least[1:] < least[:-1]
    for index in order[first].tolist():
        yield ChannelMetrics(index, float(gain[index]), float(spread[index]))


@dataclass(frozen=True, slots=True)
class Directions:
    """One output on the same rows, all ``[..., N]``, float64 but for the candidate.

    Attributes:
        candidate: What the part returned.
        scheme: The reference as the scheme rounds it.
        near: The near miss as the scheme rounds it.
        plain: The reference on the same weights, nothing rounded on the way.
        near_plain: The near miss likewise.
    """

    candidate: Tensor
    scheme: Tensor
    near: Tensor
    plain: Tensor
    near_plain: Tensor


def alternative_share(name: str, found: Sequence[Directions]) -> AlternativeMetrics:
    """Return how far the candidate lies on the way from the reference to a near miss.

    With ``e = candidate - scheme``, ``t = near - scheme`` and ``z = near_plain - plain`` it is ``sum e z / sum t z``.
    ``z`` is an instrument: it follows the near miss and none of the roundings, so that those of the candidate cancel
    over rows; projecting on ``t`` itself would not do, as a value that the near miss rounds elsewhere is one that any
    error rounds elsewhere.

    Args:
        name: Of the near miss.
        found: Per call.
    """
    along: list[Tensor] = []
    whole: list[Tensor] = []
    for one in found:
        c, r, a, p, q = (as_rows(each).double() for each in _fields(one))
        kept = _usable(r, c, a, p, q)
        z = (q - p)[kept] / r[kept].square().mean(1, keepdim=True)
        along.append(((c - r)[kept] * z).sum(1))
        whole.append(((a - r)[kept] * z).sum(1))
    return _ratio(name, torch.cat(along), torch.cat(whole)) if found else AlternativeMetrics(name, 0.0, NO_SAY, 0)


def _fields(one: Directions) -> tuple[Tensor, ...]:
    return one.candidate, one.scheme, one.near, one.plain, one.near_plain


def _ratio(name: str, along: Tensor, whole: Tensor) -> AlternativeMetrics:
    """Return ``sum along / sum whole`` with its jackknifed standard error."""
    rows, total = along.numel(), whole.sum()
    share = along.sum() / total
    moved = (along - share * whole) / (total - whole)
    spread = moved.square().sum().sqrt()
    if rows < LEAST_ROWS or not bool(torch.isfinite(share) & torch.isfinite(spread)):
        return AlternativeMetrics(name, 0.0, NO_SAY, rows)
    return AlternativeMetrics(name, float(share), min(float(spread), NO_SAY), rows)
