"""Seam and host metrics in float64, over blocks of rows so that a ``[P, 262144]`` output stays small in memory.

Every number is finite as long as the references are: a NaN or Inf of the candidate counts as a dropped (zero)
element in the sums and clears ``finite``, which the gates look at first. So evidence files hold no NaN, and no
comparison can let one through.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from pytest_frt.contracts.evidence import HostMetrics, SeamMetrics
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.errors import EvidenceError, SpecError
from pytest_frt.measure.blocks import TOTAL_ERROR, as_rows, blocks, cosine, relative

SMALL_ROW: Final = 1e-3
"""Rows whose norm is below this share of the mean row norm are judged against the mean: their own says nothing."""


@dataclass(slots=True)
class _Sums:
    """Running float64 sums over elements (c candidate, r reference, f fake-quantised reference)."""

    elements: int = 0
    finite: bool = True
    cc: float = 0.0
    cf: float = 0.0
    cr: float = 0.0
    ff: float = 0.0
    rr: float = 0.0
    c_minus_f: float = 0.0
    c_minus_r: float = 0.0
    f_minus_r: float = 0.0
    largest: float = 0.0
    row_errors: list[Tensor] = field(default_factory=list)
    row_norms: list[Tensor] = field(default_factory=list)

    @property
    def rms(self) -> float:
        """RMS of the fake-quantised reference; of the candidate where that is zero and has no scale of its own."""
        return math.sqrt((self.ff or self.cc) / self.elements) if self.elements else 0.0

    @property
    def max_abs(self) -> float:
        """Largest error over the RMS."""
        return relative(self.largest, self.rms)


def _cleaned(c: Tensor, r: Tensor, f: Tensor) -> tuple[Tensor, Tensor, Tensor, int, bool]:
    """Zero what cannot be compared; return also the compared elements and whether all is finite that must be.

    Only where the plain reference overflows may anything be NaN: a scheme that overflows where the reference does not
    excuses nobody.
    """
    exact, scheme, sound = torch.isfinite(r), torch.isfinite(f), torch.isfinite(c)
    judged = exact & scheme
    zero = torch.zeros((), dtype=torch.float64, device=c.device)
    finite = bool(((sound & scheme) | ~exact).all())
    c, r, f = torch.where(judged & sound, c, zero), torch.where(judged, r, zero), torch.where(judged, f, zero)
    return c, r, f, int(judged.sum()), finite


def _accumulate(candidate: Tensor, reference: Tensor, fake: Tensor) -> _Sums:
    sums = _Sums()
    for block in blocks(candidate, reference, fake):
        c, r, f, count, finite = _cleaned(*block)
        error = c - f
        sums.elements += count
        sums.finite &= finite
        sums.cc += float((c * c).sum())
        sums.cf += float((c * f).sum())
        sums.cr += float((c * r).sum())
        sums.ff += float((f * f).sum())
        sums.rr += float((r * r).sum())
        sums.c_minus_f += float((error * error).sum())
        sums.c_minus_r += float((c - r).square().sum())
        sums.f_minus_r += float((f - r).square().sum())
        sums.largest = max(sums.largest, float(error.abs().max()))
        sums.row_errors.append(error.square().sum(-1).sqrt())
        sums.row_norms.append(f.square().sum(-1).sqrt())
    return sums


def _worst_row(sums: _Sums) -> float:
    errors, norms = torch.cat(sums.row_errors), torch.cat(sums.row_norms)
    mean = float(norms.mean())
    if mean == 0.0:
        return TOTAL_ERROR if bool((errors > 0).any()) else 0.0
    return float((errors / torch.where(norms < SMALL_ROW * mean, mean, norms)).max())


def _count_over(bound: float, candidate: Tensor, reference: Tensor, fake: Tensor) -> int:
    """Count elements whose error against the fake-quantised reference exceeds ``bound``."""
    over = 0
    for block in blocks(candidate, reference, fake):
        c, _, f, _, _ = _cleaned(*block)
        over += int(((c - f).abs() > bound).sum())
    return over


def incomparable(seat: str, case: str, output: int, mismatch: str) -> SeamMetrics:
    """State a total error for outputs whose shapes differ."""
    return SeamMetrics(
        seat=seat,
        case=case,
        output=output,
        rows=0,
        finite=False,
        candidate_error=TOTAL_ERROR,
        scheme_error=0.0,
        slope=0.0,
        rel_l2=TOTAL_ERROR,
        row_rel_l2=TOTAL_ERROR,
        max_abs=TOTAL_ERROR,
        outliers=TOTAL_ERROR,
        cosine=0.0,
        mismatch=mismatch,
    )


def _exact_nothing(seat: str, case: str, output: int) -> SeamMetrics:
    """State no error for an output without rows (M = 0), of the right shape."""
    return SeamMetrics(
        seat=seat,
        case=case,
        output=output,
        rows=0,
        finite=True,
        candidate_error=0.0,
        scheme_error=0.0,
        slope=1.0,
        rel_l2=0.0,
        row_rel_l2=0.0,
        max_abs=0.0,
        outliers=0.0,
        cosine=1.0,
    )


def _fold(sums: _Sums, over: int, seat: str, case: str, output: int) -> SeamMetrics:
    """Turn sums over one output into its metrics; ``over`` counts the elements beyond the scheme's ``max_abs``."""
    return SeamMetrics(
        seat=seat,
        case=case,
        output=output,
        rows=sum(map(len, sums.row_errors)),
        finite=sums.finite and sums.elements > 0,
        candidate_error=relative(math.sqrt(sums.c_minus_r), math.sqrt(sums.rr)),
        scheme_error=relative(math.sqrt(sums.f_minus_r), math.sqrt(sums.rr)),
        slope=sums.cf / sums.ff if sums.ff > 0.0 else 1.0,
        rel_l2=relative(math.sqrt(sums.c_minus_f), math.sqrt(sums.ff)),
        row_rel_l2=_worst_row(sums),
        max_abs=sums.max_abs,
        outliers=over / sums.elements if sums.elements else TOTAL_ERROR,
        cosine=cosine(sums.cr, sums.cc, sums.rr),
        elements=sums.elements,
    )


def seam_metrics(
    candidate: Tensor,
    reference64: Tensor,
    fakequant64: Tensor,
    *,
    seat: str,
    case: str,
    output: int,
    limits: SeamLimits,
) -> SeamMetrics:
    """Compare one output of one seat with both oracles.

    Args:
        candidate: ``[..., K]``, any float dtype.
        reference64: ``[..., K]`` float64, the plain reference.
        fakequant64: ``[..., K]`` float64, the reference with the scheme's weights and activations.
        seat: Seat id.
        case: ``real`` or the name of a case.
        output: Index of the output tensor.
        limits: The scheme's limits; ``max_abs`` decides which elements are outliers.

    Returns:
        The metrics; with ``mismatch`` set when the shapes differ, and with zero errors when there are no rows.
    """
    if candidate.shape != reference64.shape or fakequant64.shape != reference64.shape:
        got, want = tuple(candidate.shape), tuple(reference64.shape)
        return incomparable(seat, case, output, f"{got} for reference {want}")
    c, r, f = as_rows(candidate), as_rows(reference64), as_rows(fakequant64)
    if c.numel() == 0:
        return _exact_nothing(seat, case, output)
    sums = _accumulate(c, r, f)
    over = _count_over(limits.max_abs * sums.rms, c, r, f) if sums.max_abs > limits.max_abs else 0
    return _fold(sums, over, seat, case, output)


@dataclass(slots=True)
class _HostSums:
    """Running float64 sums over scored positions (c candidate, e expected)."""

    finite: bool = True
    ce: float = 0.0
    cc: float = 0.0
    ee: float = 0.0
    largest: float = 0.0
    equal: int = 0
    kl: float = 0.0
    last_cosine: float = 0.0


def _finite_or_zero(tensor: Tensor) -> tuple[Tensor, bool]:
    """Return the tensor with NaN and Inf zeroed, and whether there was none; one pass where all is finite."""
    if math.isfinite(float(tensor.sum())):  # a NaN or Inf anywhere leaves none of a finite sum
        return tensor, True
    return torch.nan_to_num(tensor, nan=0.0, posinf=0.0, neginf=0.0), bool(torch.isfinite(tensor).all())


def _dot(left: Tensor, right: Tensor) -> float:
    return float(left.flatten() @ right.flatten())


def _worst_divergence(expected: Tensor, candidate: Tensor) -> float:
    """Return the largest KL(softmax(expected) || softmax(candidate)) over rows, in nats."""
    log_p, log_q = expected.log_softmax(-1), candidate.log_softmax(-1)
    # max keeps its first argument when nothing compares: a NaN stays one.
    return max(float(torch.linalg.vecdot(log_p.exp(), log_p - log_q).max()), 0.0)


def _agreeing(candidate: Tensor, expected: Tensor) -> int:
    """Count positions whose first choice is one of the expected first choices: 16-bit logits tie at the top.

    Ties of the candidate count for nothing: equal logits everywhere choose every token.
    """
    chosen = expected.gather(-1, candidate.argmax(-1, keepdim=True))
    return int((chosen == expected.amax(-1, keepdim=True)).sum())


def _host_sums(candidate: Tensor, expected: Tensor, *, distribution: bool) -> _HostSums:
    sums = _HostSums()
    for raw_c, raw_e in blocks(candidate, expected):
        (c, sound), (e, exact) = _finite_or_zero(raw_c), _finite_or_zero(raw_e)
        sums.finite &= sound and exact
        sums.ce += _dot(c, e)
        sums.cc += _dot(c, c)
        sums.ee += _dot(e, e)
        sums.largest = max(sums.largest, float(torch.linalg.vector_norm(c - e, math.inf)))
        last_c, last_e = c[-1], e[-1]
        sums.last_cosine = cosine(float(last_c @ last_e), float(last_c @ last_c), float(last_e @ last_e))
        if distribution:
            sums.equal += _agreeing(c, e)
            sums.kl = max(_worst_divergence(e, c), sums.kl)
    return sums


def host_metrics(candidate: Tensor, expected: Tensor, kind: str, sample: int) -> HostMetrics:
    """Compare one held-out output of the host with seats against the untouched host's.

    Args:
        candidate: ``[P, V]`` (logits) or any shape (values).
        expected: The same shape.
        kind: ``values`` or ``distribution``.
        sample: Index of the sample.

    Raises:
        SpecError: ``kind`` is neither word.
        EvidenceError: the shapes differ, or there is nothing to compare.
    """
    if kind not in {"values", "distribution"}:
        raise SpecError(f"host output kind {kind!r} is neither 'values' nor 'distribution'", hint="fix host.yaml")
    if candidate.shape != expected.shape or expected.numel() == 0:
        shapes = f"{tuple(candidate.shape)} against {tuple(expected.shape)}"
        raise EvidenceError(f"held-out sample {sample}: cannot compare outputs of shape {shapes}")
    c, e = as_rows(candidate), as_rows(expected)
    distribution = kind == "distribution"
    sums = _host_sums(c, e, distribution=distribution)
    return HostMetrics(
        sample=sample,
        finite=sums.finite,
        cosine=cosine(sums.ce, sums.cc, sums.ee),
        top1=sums.equal / c.shape[0] if distribution else 1.0,
        last_cosine=sums.last_cosine,
        kl=sums.kl,
        max_abs=sums.largest,
    )
