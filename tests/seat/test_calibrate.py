"""Scales follow from what was seen, in the declared way; what was not seen, or not finite, gives no scale."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pytest_frt.contracts.impl import Scales
from pytest_frt.contracts.scheme import Scheme, SeamLimits
from pytest_frt.contracts.seat import ModuleSeat, PointAt, SeatFacts
from pytest_frt.errors import CalibrationRefused
from pytest_frt.seat.calibrate import calibrate, load_artefact, save_artefact, survey

LIMITS = SeamLimits(2, 0, 0.002, 1, 1, 1, 0, "toy")


def scheme(statistic: str = "amax", percentile: float = 99.9) -> Scheme:
    return Scheme("toy", "A toy.", lambda w, _: w, lambda x, _: x, "all", statistic, 448.0, percentile, LIMITS)


class Host(nn.Module):
    """Calls ``inner`` positionally, by keyword, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.other = nn.Identity(), nn.Linear(4, 4, bias=False)

    def forward(self, *inputs: Tensor, keyword: bool = False) -> None:
        for x in inputs:
            self.other(input=x) if keyword else self.inner(x)


def seat(*points: str) -> SeatFacts:
    return SeatFacts("toy", ModuleSeat("s"), {}, {}, {}, {}, "float32", {name: PointAt(name) for name in points})


SEAT = seat("inner")


def passes(model: Host, samples: Iterable[tuple[Tensor, ...]], *, keyword: bool = False) -> list[Callable[[], object]]:
    return [lambda inputs=inputs: model(*inputs, keyword=keyword) for inputs in samples]


def at(*values: float) -> tuple[Tensor, ...]:
    """One sample: a call per value, each with that largest magnitude."""
    return tuple(torch.tensor([[0.1, -value, 0.0, value / 2]]) for value in values)


def test_largest_within_a_sample_and_percentile_across() -> None:
    peaks = [3.0, 8.0, 5.0, 1.0]
    model = Host()
    found = survey(model, passes(model, [at(1.0, peak, 0.5) for peak in peaks]), [SEAT], scheme(percentile=50))
    expected = float(np.float32(np.percentile(np.float64(peaks), 50) / 448))
    assert found.scales == {"s": Scales({"inner": expected})}
    assert (found.amax, found.samples, found.dead, found.refused) == ({"s|inner": tuple(peaks)}, 4, (), {})


@pytest.mark.parametrize("percentile", [0, 50, 99.9, 100])
def test_percentile_is_linear(percentile: float) -> None:
    peaks = np.random.default_rng(0).uniform(1, 100, 9).astype(np.float32)
    model = Host()
    scales = calibrate(model, passes(model, [at(float(p)) for p in peaks]), [SEAT], scheme(percentile=percentile))
    assert scales["s"].by_point["inner"] == pytest.approx(np.percentile(peaks, percentile) / 448, rel=1e-6)


def test_keyword_calls_count() -> None:
    model = Host()
    scales = calibrate(model, passes(model, [at(4.48)], keyword=True), [seat("other")], scheme())
    assert scales["s"].by_point["other"] == pytest.approx(0.01)


REFUSED = {
    "never_seen": ([at(), at()], "point inner was never seen in 2 samples"),
    "seen_late": ([at(), at(1.0)], "point inner was first seen in sample 2 of 2"),
    "seen_no_more": ([at(1.0), at(2.0), at()], "point inner was not seen in sample 3 of 3"),
    "left_out_between": ([at(1.0), at(), at(2.0)], "point inner was not seen in sample 2 of 3"),
    "nan": ([at(1.0), at(2.0, float("nan"))], "held NaN or Inf in sample 2 of 2"),
    "nan_before_a_larger_value": ([at(float("nan"), 9.0)], "held NaN or Inf in sample 1 of 1"),
    "inf": ([at(float("inf")), at(1.0)], "held NaN or Inf in sample 1 of 2"),
}


@pytest.mark.parametrize(("samples", "reason"), REFUSED.values(), ids=REFUSED)
def test_seat_without_a_sound_statistic_is_refused(samples: list[tuple[Tensor, ...]], reason: str) -> None:
    model = Host()
    found = survey(model, passes(model, samples), [SEAT], scheme())
    assert found.scales == {}
    assert reason in found.refused["s"]
    with pytest.raises(CalibrationRefused, match="none of 1 seats"):
        calibrate(model, passes(model, samples), [SEAT], scheme())


def test_one_bad_point_refuses_its_seat_and_no_other() -> None:
    model = Host()
    both = SeatFacts("toy", ModuleSeat("t"), {}, {}, {}, {}, "float32", {n: PointAt(n) for n in ("inner", "other")})
    found = survey(model, passes(model, [at(1.0)]), [SEAT, both], scheme())
    assert (set(found.scales), set(found.refused)) == ({"s"}, {"t"})


def test_dead_point_is_flagged_and_gets_the_smallest_scale() -> None:
    model = Host()
    silent = survey(model, passes(model, [(torch.zeros(2, 4),)]), [SEAT], scheme())
    assert silent.dead == ("s|inner",)
    assert silent.scales["s"].by_point["inner"] == pytest.approx(1e-8)


def test_empty_call_is_seen_and_adds_nothing() -> None:
    model = Host()
    empty = torch.zeros(0, 4)
    found = survey(model, passes(model, [(empty,), (empty, *at(2.0), empty)]), [SEAT], scheme())
    assert (found.amax, found.refused) == ({"s|inner": (0.0, 2.0)}, {})


def test_scheme_without_statistic_runs_nothing() -> None:
    found = survey(Host(), [lambda: pytest.fail("the host ran")], [SEAT], scheme("none"))
    assert found.scales == {"s": Scales()}


IMPOSSIBLE = {
    "no_sample": (scheme(), [], "scheme toy needs calibration samples and got none"),
    "unknown_statistic": (scheme("entropy"), [at(1.0)], "wants statistic 'entropy'; known are amax and none"),
    "percentile_over": (scheme(percentile=100.1), [at(1.0)], "wants percentile 100.1, needs 0 to 100"),
    "percentile_under": (scheme(percentile=-0.1), [at(1.0)], "wants percentile -0.1, needs 0 to 100"),
    "percentile_nan": (scheme(percentile=float("nan")), [at(1.0)], "wants percentile nan, needs 0 to 100"),
}


@pytest.mark.parametrize(("asked", "samples", "words"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_cannot_be_calibrated_is_an_error(asked: Scheme, samples: list[tuple[Tensor, ...]], words: str) -> None:
    model = Host()
    with pytest.raises(CalibrationRefused) as caught:
        survey(model, passes(model, samples), [SEAT], asked)
    assert words in caught.value.message
    assert survey(model, passes(model, [at(1.0)]), [SEAT], scheme()).refused == {}


def test_hooks_are_gone_even_after_a_crash() -> None:
    model = Host()
    with pytest.raises(ZeroDivisionError):
        survey(model, [lambda: 1 / 0], [SEAT], scheme())
    assert not model.inner._forward_pre_hooks


SCALES = {"a.b": Scales({"x": float(np.float32(0.1)), "y": float(np.float32(3e-8))}), "c": Scales()}


def test_artefact_survives_bit_for_bit(tmp_path: Path) -> None:
    first, second = tmp_path / "1.safetensors", tmp_path / "2.safetensors"
    provenance = {"samples": 4, "method": "p99.9", "data": "d" * 64}
    save_artefact(first, SCALES, provenance)
    save_artefact(second, dict(reversed(SCALES.items())), dict(reversed(provenance.items())))
    assert load_artefact(first) == SCALES
    assert first.read_bytes() == second.read_bytes()
    with safe_open(first, framework="pt") as reader:
        assert json.loads(reader.metadata()["frt"]).items() >= provenance.items()


def replaced(path: Path, key: str, value: Tensor) -> None:
    with safe_open(path, framework="pt") as reader:
        metadata = reader.metadata()
    save_file({**load_file(path), key: value}, path, metadata=metadata)


SPOILS: dict[str, Callable[[Path], object]] = {
    "nan": lambda path: replaced(path, "a.b|x", torch.tensor([torch.nan])),
    "zero": lambda path: replaced(path, "a.b|x", torch.zeros(1)),
    "negative": lambda path: replaced(path, "a.b|x", -torch.ones(1)),
    "other_dtype": lambda path: replaced(path, "a.b|x", torch.ones(1, dtype=torch.float64)),
    "per_channel": lambda path: replaced(path, "a.b|x", torch.ones(3)),
    "unlisted_seat": lambda path: replaced(path, "z|x", torch.ones(1)),
    "no_metadata": lambda path: save_file({"a.b|x": torch.ones(1)}, path),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_spoiled_artefact_is_refused(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    path = tmp_path / "scales.safetensors"
    save_artefact(path, SCALES)
    spoil(path)
    with pytest.raises(CalibrationRefused, match=r"scales\.safetensors"):
        load_artefact(path)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")], ids=str)
def test_unusable_scale_is_not_written(tmp_path: Path, scale: float) -> None:
    with pytest.raises(CalibrationRefused, match="s at x"):
        save_artefact(tmp_path / "scales.safetensors", {"s": Scales({"x": scale})})
