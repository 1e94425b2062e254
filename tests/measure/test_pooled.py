"""Systematic errors that no single row shows, found under noise; and no number that is none."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pytest_frt.contracts.pooled import AlternativeMetrics, ChannelMetrics
from pytest_frt.measure.pooled import LEAST_RMS, NO_SAY, Directions, alternative_share, channel_gains

ROWS, WIDTH, NOISE = 64, 48, 0.01


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


FAKE = draw(ROWS, WIDTH)
NOISY = FAKE + NOISE * draw(ROWS, WIDTH, seed=1)


def scaled(channel: int, factor: float) -> Tensor:
    out = NOISY.clone()
    out[:, channel] *= factor
    return out


def foremost(*pairs: tuple[Tensor, Tensor]) -> ChannelMetrics:
    return channel_gains(pairs)[1][0]


def test_gain_of_one_channel_is_found_under_noise() -> None:
    found = foremost((scaled(7, 1.05), FAKE))
    assert found.index == 7
    assert found.gain == pytest.approx(0.05, abs=5 * found.spread)
    assert found.spread == pytest.approx(NOISE / math.sqrt(ROWS), rel=0.5)


def test_sound_channels_scatter_by_their_own_spread() -> None:
    rows, found = channel_gains([(NOISY, FAKE)])
    assert rows == ROWS
    assert all(abs(one.gain) < 5 * one.spread for one in found)


def test_only_channels_that_no_other_beats_are_kept() -> None:
    gains = torch.tensor([0.4, -0.3, 0.2, 0.1], dtype=torch.float64)
    noise = torch.tensor([1e-2, 1e-3, 1e-2, 1e-4], dtype=torch.float64)
    wrong = FAKE[:, :4] * (1 + gains + noise * draw(ROWS, 4, seed=2))
    found = channel_gains([(torch.cat([wrong, FAKE[:, 4:]], 1), FAKE)])[1]
    assert [one.index for one in found[:3]] == [0, 1, 3]
    assert [one.gain for one in found] == sorted((one.gain for one in found), key=abs, reverse=True)
    assert all(one.spread > other.spread for one, other in itertools.pairwise(found))


def test_an_exact_output_has_no_gain() -> None:
    assert channel_gains([(FAKE, FAKE)]) == (ROWS, (ChannelMetrics(0, 0.0, 0.0),))
    assert channel_gains([]) == (0, ())


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_rows_count_alike_whatever_their_size(size: float) -> None:
    scale = torch.logspace(-3, 3, ROWS, dtype=torch.float64)[:, None] * size
    assert foremost((scaled(7, 1.05) * scale, FAKE * scale)).gain == pytest.approx(
        foremost((scaled(7, 1.05), FAKE)).gain
    )


def test_cases_add_up_and_shapes_do_not_matter() -> None:
    whole = channel_gains([(scaled(7, 1.05), FAKE)])
    parts = [(scaled(7, 1.05)[:16].view(4, 4, WIDTH), FAKE[:16].view(4, 4, WIDTH)), (scaled(7, 1.05)[16:], FAKE[16:])]
    found = channel_gains(parts)
    assert found[0] == whole[0]
    assert found[1][0].gain == pytest.approx(whole[1][0].gain)


def test_spread_is_the_jackknife_over_rows() -> None:
    bad, one = scaled(7, 1.05), 7
    e, f = ((bad - FAKE) / rms(FAKE))[:, one], (FAKE / rms(FAKE))[:, one]
    gain = float((e * f).sum() / (f * f).sum())
    without = [float(((e * f).sum() - e[i] * f[i]) / ((f * f).sum() - f[i] ** 2)) for i in range(ROWS)]
    found = foremost((bad, FAKE))
    assert found.gain == pytest.approx(gain)
    assert found.spread == pytest.approx(math.sqrt(sum((gain - other) ** 2 for other in without)))


def rms(rows: Tensor) -> Tensor:
    return rows.square().mean(-1, keepdim=True).sqrt()


@pytest.mark.parametrize(("rows", "gain"), [(7, 0.0), (8, 0.5)], ids=["one_row_short", "enough_rows"])
def test_a_channel_that_few_rows_show_has_no_gain(rows: int, gain: float) -> None:
    fake = torch.sign(FAKE)
    fake[rows:, 7] = 0
    bad = fake.clone()
    bad[:, 7] *= 1.5
    assert foremost((bad[:rows], fake[:rows])).gain == pytest.approx(gain)


def test_a_channel_that_one_row_makes_up_has_no_gain() -> None:
    fake, bad = FAKE.clone(), FAKE.clone()
    fake[0, 7] *= 1e3
    bad[:, 7] = 1.5 * fake[:, 7]
    assert foremost((bad, fake)).gain == 0.0


def test_a_channel_that_is_always_zero_has_no_gain() -> None:
    fake = FAKE.clone()
    fake[:, 7] = 0
    bad = fake.clone()
    bad[:, 7] = 0.01
    assert foremost((bad, fake)) == ChannelMetrics(0, 0.0, 0.0)


def test_of_two_equal_channels_one_is_kept() -> None:
    fake = FAKE.clone()
    fake[:, 8] = fake[:, 7]
    bad = scaled(7, 1.5)
    bad[:, 8] = bad[:, 7]
    assert [one.index for one in channel_gains([(bad, fake)])[1]][:2] != [7, 8]


def test_a_candidate_of_equal_rows_is_compared_on_all_of_them() -> None:
    rows, found = channel_gains([(torch.zeros_like(FAKE), FAKE)])
    assert (rows, found[0].gain) == (ROWS, -1.0)


@pytest.mark.parametrize(("size", "rows"), [(1.5e-12, ROWS), (1e-12, 0), (0.7e-12, 0)], ids=["over", "at", "under"])
def test_the_least_row(size: float, rows: int) -> None:
    fake = size * torch.sign(FAKE)
    assert channel_gains([(fake, fake)])[0] == rows


def test_what_says_nothing_is_far_from_told() -> None:
    assert NO_SAY == 1e6


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(torch.full((WIDTH,), math.nan), id="nan"),
        pytest.param(torch.full((WIDTH,), math.inf), id="inf"),
        pytest.param(torch.full((WIDTH,), LEAST_RMS / 2), id="too_small"),
        pytest.param(torch.zeros(WIDTH), id="zeros"),
    ],
)
def test_rows_that_say_nothing_are_left_out(row: Tensor) -> None:
    fake = torch.cat([FAKE, row.double()[None]])
    got = torch.cat([scaled(7, 1.05), 2 * row.double()[None]])
    rows, found = channel_gains([(got, fake)])
    assert rows == ROWS
    assert found[0] == foremost((scaled(7, 1.05), FAKE))


def test_a_row_whose_reference_overflows_is_left_out() -> None:
    fake = FAKE.clone()
    fake[3] = math.inf
    rows, found = channel_gains([(scaled(7, 1.05), fake)])
    assert rows == ROWS - 1
    assert math.isfinite(found[0].gain)


def test_a_nan_of_the_candidate_leaves_its_row_out() -> None:
    bad = scaled(7, 1.05)
    bad[3, 5] = math.nan
    rows, found = channel_gains([(bad, FAKE)])
    assert rows == ROWS - 1
    assert math.isfinite(found[0].gain)


def test_a_row_repeated_counts_once() -> None:
    bad = scaled(7, 1.05)
    twice = channel_gains([(bad.repeat_interleave(3, 0), FAKE.repeat_interleave(3, 0))])
    assert twice == channel_gains([(bad, FAKE)])


def test_of_a_row_repeated_the_first_counts() -> None:
    bad = scaled(7, 1.05)
    got = torch.cat([bad[:1], 3 * bad[:1], bad[1:]])
    assert channel_gains([(got, torch.cat([FAKE[:1], FAKE]))]) == channel_gains([(bad, FAKE)])


# Near misses: `plain` and `near_plain` follow a step, `scheme` and `near` are those rounded, the candidate has noise.
STEP = 0.002 * draw(ROWS, WIDTH, seed=3)


def on_the_way(share: float, *, noise: float = NOISE, rounding: float = NOISE) -> Directions:
    around = FAKE + rounding * draw(ROWS, WIDTH, seed=4)
    beside = FAKE + STEP + rounding * draw(ROWS, WIDTH, seed=5)
    got = around + share * (beside - around) + noise * draw(ROWS, WIDTH, seed=6)
    return Directions(got, around, beside, FAKE, FAKE + STEP)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0, -1.0])
def test_share_is_found_where_noise_is_five_times_the_step(share: float) -> None:
    found = alternative_share("other", [on_the_way(share, rounding=0.0)])
    assert (found.name, found.rows) == ("other", ROWS)
    assert found.share == pytest.approx(share, abs=5 * found.spread)
    assert found.spread < 0.2
    assert 4 * float(STEP.square().mean().sqrt()) < NOISE


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_what_the_scheme_rounds_otherwise_cancels(share: float) -> None:
    found = alternative_share("other", [on_the_way(share, noise=0.0)])
    assert found.share == pytest.approx(share, abs=1e-12)
    assert found.spread == pytest.approx(0.0, abs=1e-12)


def test_spread_grows_with_noise_and_falls_with_rows() -> None:
    quiet, loud = (alternative_share("x", [on_the_way(0.0, noise=n, rounding=0.0)]).spread for n in (NOISE, 3 * NOISE))
    assert loud == pytest.approx(3 * quiet)
    few = halves(on_the_way(0.0, rounding=0.0))[0]
    assert 1.1 * quiet < alternative_share("x", [few]).spread < 2 * quiet


def halves(one: Directions) -> tuple[Directions, Directions]:
    def cut(rows: slice) -> Directions:
        return Directions(*(part[rows] for part in (one.candidate, one.scheme, one.near, one.plain, one.near_plain)))

    return cut(slice(0, ROWS // 2)), cut(slice(ROWS // 2, None))


def test_calls_add_up() -> None:
    whole = on_the_way(0.5)
    one, other = alternative_share("x", [whole]), alternative_share("x", list(halves(whole)))
    assert (one.rows, one.share, one.spread) == (other.rows, pytest.approx(other.share), pytest.approx(other.spread))


def test_share_spread_is_the_jackknife_over_rows() -> None:
    one = on_the_way(0.5)
    z = (one.near_plain - one.plain) / one.scheme.square().mean(-1, keepdim=True)
    along, whole = ((one.candidate - one.scheme) * z).sum(-1), ((one.near - one.scheme) * z).sum(-1)
    share = along.sum() / whole.sum()
    without = (along.sum() - along) / (whole.sum() - whole)
    found = alternative_share("x", [one])
    assert found.share == pytest.approx(float(share))
    assert found.spread == pytest.approx(float((without - share).square().sum().sqrt()))


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_rows_of_any_size_count_alike(size: float) -> None:
    one = on_the_way(1.0)
    scale = torch.logspace(-2, 2, ROWS, dtype=torch.float64)[:, None] * size
    parts = (one.candidate, one.scheme, one.near, one.plain, one.near_plain)
    found = alternative_share("x", [Directions(*(part * scale for part in parts))])
    assert found.share == pytest.approx(alternative_share("x", [one]).share)


@pytest.mark.parametrize(
    ("found", "rows"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param(
            [replace(on_the_way(1.0), near=on_the_way(1.0).scheme, near_plain=FAKE)], ROWS, id="same_function"
        ),
        pytest.param([replace(on_the_way(1.0), candidate=torch.full_like(FAKE, math.nan))], 0, id="nan"),
    ],
)
def test_what_shows_nothing_is_told_by_nobody(found: list[Directions], rows: int) -> None:
    assert alternative_share("x", found) == AlternativeMetrics("x", 0.0, NO_SAY, rows)


@pytest.mark.parametrize(("rows", "told"), [(7, False), (8, True)], ids=["one_short", "enough"])
def test_few_rows_tell_nothing(rows: int, *, told: bool) -> None:
    one = on_the_way(1.0, noise=0.0)
    parts = (one.candidate, one.scheme, one.near, one.plain, one.near_plain)
    found = alternative_share("x", [Directions(*(part[:rows] for part in parts))])
    assert (found.spread < NO_SAY) is told
    assert found.rows == rows


def test_one_row_that_weighs_all_says_nothing() -> None:
    one = on_the_way(1.0)
    lone = FAKE.clone()
    lone[0] += STEP[0]
    found = alternative_share("x", [replace(one, near_plain=lone)])
    assert (found.share, found.spread) == (0.0, NO_SAY)
