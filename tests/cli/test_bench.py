"""``frt bench``: one lever on one host; what pays, what does not, and what the journal keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.fixtures import lever
from pytest_frt.fixtures.pairs import PairTiming
from pytest_frt.lab import locks
from pytest_frt.rules.exact import Interval
from pytest_frt.spec.modules import load_file

Frt = Callable[..., tuple[int, str, str]]
LAB = Path(__file__).parent.parent / "lab"
toys: Any = load_file(LAB / "toy.py")
pretended: Any = load_file(LAB / "pretended.py")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """Return a folder with a host whose projection is a plain one, impls and their kernel."""
    folder = tmp_path_factory.mktemp("toy")
    toys.Toy(folder, repository)
    host = folder / "toy" / "host.py"
    host.write_text(host.read_text().replace("self.proj = Wasteful(", "self.proj = nn.Linear("))
    return folder


@pytest.fixture
def bench(frt: Frt, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Return a function that benches one of the toy's impls."""
    monkeypatch.setattr(locks, "shared_folder", lambda: tmp_path)

    def run(impl: str, *words: str) -> tuple[int, str, str]:
        host, kernel = f"--host={toy / 'toy'}", f"--kernel={toy / 'kernel'}"
        return frt(
            "bench", toy / "impls" / "linear_proj" / f"{impl}.py", host, kernel, "--threads=1", "--pairs=12", *words
        )

    return run


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Return a function that puts pretended processes in the place of real ones."""

    def pretend(one: Any) -> None:
        monkeypatch.setattr(lever.Bench, "fleet", lambda _self, _name: one)

    return pretend


def entries(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "frt-bench.jsonl").read_text().splitlines()]


def test_real_lever_is_timed_with_the_base_again_at_the_end(bench: Any, tmp_path: Path) -> None:
    status, out, err = bench("faster")
    (entry,) = entries(tmp_path)
    assert out.startswith("linear_proj-faster-toy-none-cpu@eager.decode.tiny.hot\n"), err
    assert re.search(r"base again at the end [\d.]+ ms: drift [+-][\d.]+%, base against base [\d.]+x", out)
    assert "development only, certifies nothing" in out
    assert len(entry["units"]) == 6
    assert status == (0 if entry["outcome"] == "PAYS" else 6)
    assert entry["low"] <= entry["median"] <= entry["high"]
    assert min(entry["base_s"], entry["candidate_s"], entry["base_again_s"]) > 0


@pytest.mark.parametrize(
    ("candidate_s", "status", "outcome", "reason"),
    [(0.5, 0, "PAYS", ""), (0.99, 6, "REFUSED", "no_win"), (2.0, 6, "REFUSED", "no_win")],
    ids=["twice_as_fast", "under_the_margin", "slower"],
)
def test_outcome_and_journal(
    bench: Any, fleet: Any, tmp_path: Path, candidate_s: float, status: int, outcome: str, reason: str
) -> None:
    fleet(pretended.Fleet(candidate_s=candidate_s))
    assert bench("equal")[0] == status
    (entry,) = entries(tmp_path)
    assert (entry["outcome"], entry["reason"], entry["drift"]) == (outcome, reason, 0.0)
    assert entry["median"] == pytest.approx(1 / candidate_s)
    assert entry["note"] == "development only, certifies nothing"


def test_refusals_of_a_lever_are_counted(bench: Any, fleet: Any, tmp_path: Path) -> None:
    fleet(pretended.Fleet(candidate_s=1.0))
    assert "before" not in bench("equal")[1]
    assert "refused 1 times before" in bench("equal")[1]
    assert "REFUSED(no_win): the interval starts at 1.000, needs > 1.02" in bench("equal", f"--out={tmp_path / 'a'}")[1]
    assert (len(entries(tmp_path)), len(entries(tmp_path / "a"))) == (2, 1)


def test_wrong_lever_is_refused_before_anything_is_timed(bench: Any, tmp_path: Path) -> None:
    status, out, _ = bench("wrong")
    assert status == 1
    assert re.search(r"REFUSED\(parity\): \w+ on case real, seat proj, output 0: .*needs <=", out)
    assert "units" not in entries(tmp_path)[0]


def test_death_of_the_timed_process_is_told(bench: Any, fleet: Any) -> None:
    fleet(pretended.Fleet(fatal="lever"))
    status, out, _ = bench("equal")
    assert status == 1
    assert "REFUSED(crash): lever hung" in out


def timing(low: float, median: float, high: float) -> PairTiming:
    return PairTiming((median,) * 6, median, Interval(low, high), 0.95, 1.0, 1.0, 1)


@pytest.mark.parametrize(
    ("again", "base_s", "reason"),
    [
        ((1.02, 1.04, 1.06), 1.0, "drift"),
        ((0.9, 0.95, 0.98), 1.0, "drift"),
        ((0.5, 1.0, 1.41), 1.0, "noise"),
        ((0.99, 1.0, 1.01), 1.4, "drift"),
        ((0.99, 1.0, 1.01), 0.6, "drift"),
        ((0.99, 1.0, 1.01), 1.3, ""),
    ],
    ids=["base_beats_base", "base_loses_to_base", "wide_control", "base_slower", "base_faster", "sound"],
)
def test_restless_base_refuses_a_win(again: tuple[float, float, float], base_s: float, reason: str) -> None:
    found = lever.decide(lever.Timed(timing(1.4, 1.5, 1.6), replace(timing(*again), base_s=base_s)))
    assert isinstance(found, lever.NoWin if reason else lever.Pays)
    assert not isinstance(found, lever.NoWin) or found.doubt.value == reason


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["linear_proj/torch_paked", "--host=qwen3"], "did you mean 'linear_proj/torch_packed'?"),
        (["torch_packed", "--host=qwen3"], "is neither a file nor <structure>/<name>"),
        (["linear_proj/torch_packed", "--host=qwen3"], "runs w16a32, none: one lever at a time"),
        (["linear_proj/torch_packed", "--host=qwen", "--scheme=none"], "did you mean 'qwen3'?"),
        (["linear_proj/torch_packed", "--host=qwen3", "--scheme=none", "--form=eagre"], "did you mean 'eager'?"),
        (["linear_proj/torch_packed", "--host=qwen3", "--scheme=none", "--phase=prefil"], "did you mean 'prefill'?"),
        (["linear_proj/torch_packed", "--host=qwen3", "--scheme=none", "--pairs=7"], "needs an even number from 12"),
    ],
    ids=["impl", "no_structure", "two_schemes", "host", "form", "phase", "pairs"],
)
def test_unusable_request_is_a_usage_fault(frt: Frt, words: list[str], said: str) -> None:
    status, out, err = frt("bench", *words)
    assert (status, out) == (4, "")
    assert said in err


def test_damaged_journal_is_a_fault_and_stays(bench: Any, fleet: Any, tmp_path: Path) -> None:
    (tmp_path / "frt-bench.jsonl").write_text("{")
    fleet(pretended.Fleet())
    status, _, err = bench("equal")
    assert status == 1
    assert "is damaged" in err
    assert (tmp_path / "frt-bench.jsonl").read_text() == "{"
