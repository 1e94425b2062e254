"""The bench judges in order, pulls each piece of evidence once, and stands by no source that moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_frt.contracts.evidence import Check
from pytest_frt.contracts.verdict import Crashed, Inconclusive, Invalid, NotRun, Pass, Refusal, Verdict
from pytest_frt.devices.probe import machine_facts
from pytest_frt.errors import EvidenceError
from pytest_frt.registry import Provider, Registry
from pytest_frt.rules.fold import RECORD_GATES, fold
from pytest_frt.run import evidence
from pytest_frt.run.bench import Bench
from pytest_frt.run.config import RunConfig, Selection
from pytest_frt.run.custody import Sources
from pytest_frt.run.plan import RecordPlan, RunPlan, UnionPlan, plan_run
from pytest_frt.run.progress import Silent
from pytest_frt.run.settle import required_checks
from pytest_frt.run.stages import Tried, Witnessed
from pytest_frt.spec.modules import load_file

planted: Any = load_file(Path(__file__).parents[1] / "adversaries" / "planted.py")


@dataclass
class Judged:
    """A bench over pretended workers.

    Attributes:
        bench: The bench.
        record: Its one record.
        source: The impl's module.
        stages: What pretends to be workers.
    """

    bench: Bench
    record: RecordPlan
    source: Path
    stages: Any

    def verdicts(self) -> dict[str, Verdict]:
        return {gate: self.bench.judge(self.record, gate).verdict for gate in RECORD_GATES}


@pytest.fixture
def judged(tmp_path: Path, toy: Any) -> Iterator[Callable[..., Judged]]:
    """Return a function that makes a bench whose candidate comes to ``answer``."""
    source = tmp_path / "impls" / "decoder_ffn" / "sound.py"
    source.parent.mkdir(parents=True)
    source.write_text(planted.SOUND["sound"].source("sound"))
    registry = replace(Registry.load(), impls=Registry.of([Provider("impls", "", "x", tmp_path / "impls")]).impls)
    include = {"host": ("qwen3",), "structure": ("decoder_ffn",), "phase": ("decode",)}
    plain: dict[str, Any] = dict.fromkeys(("checkpoint", "sign_key", "json")) | {"kernel": ()}
    flags: dict[str, Any] = {"quick": False, "timing": True, "comparison": False, "seed": 3, "threads": 1}
    out = str(tmp_path / "out")
    config = RunConfig(Selection(include), ("eager",), "tiny", out=out, cache=out, issuer="", **plain, **flags)
    plan = plan_run(config, registry, machine_facts())
    benches: list[Bench] = []

    def make(answer: Any = None, witness: Any = None, during: Callable[[], object] = lambda: None) -> Judged:
        found = toy.witnessed(toy.seat("a", "decoder_ffn"), toy.seat("b", "decoder_ffn"))
        checks = tuple(Check(name, ok=True, detail="") for name in required_checks())

        class Stages(toy.Stages):  # type: ignore[misc]
            def witness(self, *_: object) -> Witnessed | Crashed:
                answered: Witnessed | Crashed = witness or found
                return answered

            def attempt(self, *args: Any, **kwargs: Any) -> Any:
                during()
                tried = super().attempt(*args, **kwargs)
                kept = tried.evidence.lifecycle or checks if isinstance(tried, Tried) else ()
                return replace(tried, evidence=replace(tried.evidence, lifecycle=kept)) if kept else tried

        bench = Bench(config, registry, plan, Silent(), environ={})
        benches.append(bench)
        bench._stages = stages = Stages([answer or toy.Answer()])
        return Judged(bench, plan.records[0], source, stages)

    yield make
    for bench in benches:
        bench.close()


class Clock:
    """Says that everything wins, and may spoil something meanwhile."""

    def __init__(self, evidence: Any, during: Callable[[], object] = lambda: None) -> None:
        self._evidence, self._during = evidence, during
        self.entrants: list[str] = []
        self.phases: tuple[str, ...] = ()

    def judge(self, course: Any, entrants: Sequence[Any]) -> dict[str, Any]:
        self._during()
        self.phases = course.phases
        self.entrants += [one.name for one in entrants]
        return {one.name: (Pass("net_win"), self._evidence) for one in entrants}

    def close(self) -> None:
        """Nothing runs."""


def test_gates_before_timing_hold_on_one_attempt(judged: Callable[..., Judged]) -> None:
    one = judged()
    assert [type(one.bench.judge(one.record, gate).verdict) for gate in RECORD_GATES[:-1]] == [Pass] * 5
    assert len(one.stages.asked) == 1


def test_one_cause_is_one_failure(judged: Callable[..., Judged], toy: Any) -> None:
    found = judged(toy.Answer(gain=("a", "b"))).verdicts()
    assert isinstance(found["parity"], Refusal)
    later = [found[gate] for gate in ("ledger", "contract", "net_win")]
    assert later == [NotRun(verdict.gate, "parity") for verdict in later]


def test_witness_that_died_leaves_everything_else_not_run(judged: Callable[..., Judged]) -> None:
    one = judged(witness=Crashed("null_control", "CRASH", "out of memory"))
    found = one.verdicts()
    assert isinstance(found["null_control"], Crashed)
    assert {type(found[gate]) for gate in RECORD_GATES[1:]} == {NotRun}
    assert one.stages.asked == []


def test_contract_needs_every_check(judged: Callable[..., Judged]) -> None:
    one = judged()
    settled = one.bench._settle(one.record)
    assert settled.tried is not None
    fewer = replace(
        settled.tried, evidence=replace(settled.tried.evidence, lifecycle=settled.tried.evidence.lifecycle[1:])
    )
    one.bench._settled[one.record.id] = replace(settled, tried=fewer)
    verdict = one.bench.judge(one.record, "contract").verdict
    assert isinstance(verdict, Refusal)
    assert verdict.reason == "unchecked"


def test_source_that_moved_before_the_candidate_voids_the_run(judged: Callable[..., Judged]) -> None:
    one = judged()
    one.source.write_text(one.source.read_text() + "#")
    found = one.verdicts()
    assert isinstance(found["seats"], Invalid)
    assert (found["seats"].guard, str(one.source) in found["seats"].detail) == ("sources", True)
    assert one.stages.asked == []


def test_source_that_moved_under_the_candidate_is_tampering(judged: Callable[..., Judged], tmp_path: Path) -> None:
    source = tmp_path / "impls" / "decoder_ffn" / "sound.py"
    found = judged(during=lambda: source.write_text("")).verdicts()
    assert isinstance(found["parity"], Refusal)
    assert found["parity"].reason == "tampered"


def test_source_that_moved_while_timed_certifies_nothing(judged: Callable[..., Judged], toy: Any) -> None:
    one = judged()
    one.bench._clock = Clock(toy.timing(1.3), one.source.unlink)  # type: ignore[assignment]
    result = one.bench.judge(one.record, "net_win")
    assert isinstance(result.verdict, Invalid)
    assert (result.verdict.guard, result.proven) == ("sources", None)


def test_timed_pairs_are_kept_although_nothing_was_won(judged: Callable[..., Judged], toy: Any, tmp_path: Path) -> None:
    class Tie(Clock):
        def judge(self, _course: Any, entrants: Sequence[Any]) -> dict[str, Any]:
            return {one.name: (Inconclusive("net_win", "51 of 80"), self._evidence) for one in entrants}

    one = judged()
    one.bench._clock = Tie(toy.timing(1.02))  # type: ignore[assignment]
    result = one.bench.judge(one.record, "net_win")
    assert result.evidence is not None
    assert evidence.read(tmp_path / "out" / result.evidence.name).sha256 == result.evidence.sha256
    assert result.proven is None


def elsewhere(record: RecordPlan, *, emulated: bool) -> RecordPlan:
    """Return the same record as one of a device that is not here."""
    cell = replace(record.key.cell, device="thor")
    return replace(record, key=replace(record.key, cell=cell), emulated=emulated)


def test_emulated_record_is_correct_and_neither_timed_nor_proven(judged: Callable[..., Judged]) -> None:
    one = judged()
    one.record = replace(one.record, emulated=True)
    one.bench._clock = Clock(None, lambda: pytest.fail("timed"))  # type: ignore[assignment]
    found = fold(list(one.verdicts().values()))
    assert (found.outcome, found.gate, found.reason, found.correct) == ("NOT_SUPPORTED", "net_win", "emulated", True)
    assert one.bench.judge(one.record, "net_win").proven is None
    assert one.bench.union(UnionPlan("both", (one.record,))).verdict == NotRun("union", "no record of it was certified")


def test_emulated_record_shares_no_timing(judged: Callable[..., Judged], toy: Any) -> None:
    one, timed = judged(), Clock(toy.timing(1.0))
    away = elsewhere(one.record, emulated=True)
    other = replace(away, key=replace(away.key, phase="another"))
    one.bench._plan = RunPlan((one.record, away, other), (), ())
    one.bench._clock = timed  # type: ignore[assignment]
    one.bench._time_group(one.record)
    assert (timed.entrants, timed.phases) == ([one.record.id], (one.record.key.phase,))


def test_record_of_a_device_that_is_not_here_cannot_be_proven_even_if_taken_for_present(
    judged: Callable[..., Judged], toy: Any
) -> None:
    one = judged()
    one.bench._clock = Clock(toy.timing(1.3))  # type: ignore[assignment]
    away = elsewhere(one.record, emulated=False)
    one.bench._plan, one.bench._sources = RunPlan((away,), (), ()), Sources(one.bench._registry, [away])
    with pytest.raises(EvidenceError, match="nothing can be stated of thor here: device thor is a cuda device"):
        one.bench.judge(away, "net_win")


def test_kept_record_is_not_timed_again_for_its_union(
    judged: Callable[..., Judged], toy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = judged()
    timing = toy.timing(1.3)
    seats = [SimpleNamespace(facts=SimpleNamespace(id=seat)) for seat in ("a", "b")]
    kept: Any = SimpleNamespace(
        plan=one.record,
        pairs=SimpleNamespace(verdict=Pass("net_win"), timing=timing),
        certificate=SimpleNamespace(record=SimpleNamespace(seats=seats)),
    )
    monkeypatch.setattr("pytest_frt.run.proof.record_of", lambda *_: "the record")
    monkeypatch.setattr("pytest_frt.run.proof.keep", lambda *_: None)
    one.bench._kept = {one.record.id: kept}
    one.bench._timed = {one.record.id: (kept.pairs.verdict, timing)}
    one.bench._clock = Clock(None, lambda: pytest.fail("timed again"))  # type: ignore[assignment]
    assert one.bench._stands(one.record)
    seats.pop()
    assert not one.bench._stands(one.record)
