"""``frt replay``: the same verdict from kept pairs is exit status 0, any difference 1, nothing to replay 4."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.certs import dsse, keys, statement, store
from pytest_frt.contracts.record import FileDigest, Record
from pytest_frt.contracts.timing import ProcessTiming, TimedPair, TimedSample, TimingEvidence
from pytest_frt.gates import net_win
from pytest_frt.measure.timing import summarise
from pytest_frt.rules.rows import NET_WIN_ROW, net_win_row, rounded
from pytest_frt.run import evidence
from pytest_frt.spec.modules import load_file

Frt = Callable[..., tuple[int, str, str]]
certified: Any = load_file(Path(__file__).parents[1] / "certs" / "conftest.py")
NAME = certified.RECORD.key.id
OUT = Path("frt-certs")


def timing(speed: float) -> TimingEvidence:
    """Return eight processes of three units at a speed."""

    def sample(arm: str, seconds: float) -> TimedSample:
        return TimedSample(arm, 0, seconds, seconds, 0.002)

    first = TimedPair(sample("base", 0.03), sample("fast", 0.03 / speed), base_first=True)
    block = (first, replace(first, base_first=False))
    null = (replace(first, candidate=first.base),) * 2
    processes = tuple(ProcessTiming(index, (block,) * 3, null, 1.0, 0.0, 0.0, 1.0) for index in range(8))
    return TimingEvidence(processes, (0.03,) * 3, 1, quick=False)


@pytest.fixture
def kept(frt: Frt) -> Path:
    """Keep one collection below ``frt-certs`` of the empty directory that ``frt`` runs in."""
    assert frt
    pairs = timing(1.3)
    found = evidence.keep(OUT, NAME, pairs, net_win.judge(pairs, output="values"), output="values")
    return OUT / found.name


def certify(kept: Path, speed: float = 1.3) -> Record:
    """Return a record that binds a kept file, and states the unit ratios of a speed."""
    row = net_win_row(rounded(summarise(timing(speed)).worker))
    gates = tuple(row if one.name == NET_WIN_ROW else one for one in certified.RECORD.gates)
    bound = FileDigest(evidence.BOUND, evidence.read(kept).sha256)
    record: Record = replace(certified.RECORD, gates=gates, evidence=(bound,))
    return record


def flip(path: Path) -> None:
    document = json.loads(path.read_text())
    document["timing"]["processes"][5]["blocks"][2][1]["candidate"]["worker_s"] *= 1.5
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("by", ["file", "record", "directory"])
def test_same_verdict_is_0_and_a_flipped_sample_1(frt: Frt, kept: Path, by: str) -> None:
    target = {"file": kept, "record": NAME, "directory": OUT}[by]
    status, out, _ = frt("replay", target)
    assert status == 0
    assert out.startswith(f"same    {NAME} Pass 1.3000x ")
    flip(kept)
    status, out, _ = frt("replay", target)
    assert status == 1
    assert out.startswith(f"DIFFERS {NAME} ")
    assert "its timing has sha256" in out


def test_verdict_is_given_as_json(frt: Frt, kept: Path) -> None:
    status, out, _ = frt("replay", kept, "--json")
    (one,) = json.loads(out)
    assert (status, one["same"], one["faults"]) == (0, True, [])
    assert one["verdict"] == json.loads(kept.read_text())["verdict"]


@pytest.mark.parametrize("signed", [False, True], ids=["statement", "certificate"])
def test_certificate_replays_the_pairs_it_binds(frt: Frt, kept: Path, signed: bool) -> None:  # noqa: FBT001
    payload = statement.build_cell(certify(kept), **certified.World().terms)
    if signed:
        path = store.write_certificate(OUT, dsse.sign(payload, keys.generate()))
    else:
        path = store.write_statement(OUT, payload)
    status, out, _ = frt("replay", path)
    assert (status, out.split()[:2]) == (0, ["same", NAME])
    flip(kept)
    status, out, _ = frt("replay", path)
    assert status == 1
    assert "has the certified sha256" in out


def test_certificate_of_other_ratios_differs(frt: Frt, kept: Path) -> None:
    path = store.write_statement(OUT, statement.build_cell(certify(kept, speed=1.4), **certified.World().terms))
    status, out, _ = frt("replay", path)
    assert status == 1
    assert "its unit ratios are not those that the certificate states" in out


@pytest.mark.parametrize(
    ("target", "said"), [("no-such-record", "names no kept timing"), ("broken.json", "holds no timed pairs")]
)
def test_nothing_to_replay_is_one_message(frt: Frt, target: str, said: str) -> None:
    Path("broken.json").write_text("{}")
    status, _, err = frt("replay", target)
    assert status in {1, 4}
    assert said in err
    assert "Traceback" not in err
