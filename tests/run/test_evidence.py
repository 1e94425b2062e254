"""Timed pairs are kept with their verdict and give it again; a flipped sample shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.errors import EvidenceError
from pytest_frt.gates import net_win
from pytest_frt.run import evidence
from pytest_frt.spec.digest import json_digest

NAME = "ffn-fast-toy-w16a32-cpu@eager.decode.real.hot"


@pytest.fixture
def kept(toy: Any, tmp_path: Path) -> Path:
    timing = toy.timing(1.3)
    found = evidence.keep(tmp_path, NAME, timing, net_win.judge(timing, output="values"), output="values")
    return tmp_path / found.name


def test_kept_pairs_give_their_verdict_again(kept: Path) -> None:
    found = evidence.read(kept)
    assert found.pairs.subject == NAME
    assert found.sha256[:12] in kept.name
    assert evidence.replay(found).faults == ()


def test_pairs_of_an_older_version_lack_a_field_and_give_their_verdict(kept: Path) -> None:
    whole = json.loads(kept.read_text())
    del whole["timing"]["alpha"]
    whole["timing_sha256"] = json_digest(whole["timing"])
    kept.write_text(json.dumps(whole))
    assert evidence.replay(evidence.read(kept)).faults == ()


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("timing", "processes", 3, "blocks", 1, 0, "candidate", "worker_s"), 0.001, "its timing has sha256"),
        (("timing", "processes", 3, "blocks", 1, 0, "base_first"), False, "the verdict differs"),
        (("timing", "witness_base_s", 0), 0.0301, "its timing has sha256"),
        (("verdict", "measured", 0, "value"), 1.31, "the verdict differs"),
        (("output",), "distribution", ""),
    ],
    ids=["sample", "order", "witness", "verdict", "output_kind_with_perfect_outputs"],
)
def test_flipped_number_shows(kept: Path, place: tuple[Any, ...], value: Any, said: str) -> None:
    whole = at = json.loads(kept.read_text())
    for key in place[:-1]:
        at = at[key]
    assert at[place[-1]] != value
    at[place[-1]] = value
    kept.write_text(json.dumps(whole))
    faults = evidence.replay(evidence.read(kept)).faults
    assert any(said in fault for fault in faults) if said else not faults


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "has 0 bytes"), ("{}", "holds no timed pairs"), ("NaN", "holds no timed pairs")],
    ids=["empty", "other_json", "no_json"],
)
def test_file_that_is_none_is_named(kept: Path, text: str, said: str) -> None:
    kept.write_text(text)
    with pytest.raises(EvidenceError, match=said):
        evidence.read(kept)


def test_other_schema_is_not_guessed_at(kept: Path) -> None:
    kept.write_text(kept.read_text().replace(evidence.SCHEMA, "frt-pairs/9"))
    with pytest.raises(EvidenceError, match="this version reads"):
        evidence.read(kept)


def test_number_that_is_none_is_not_kept(toy: Any, tmp_path: Path) -> None:
    timing = toy.timing(float("nan"))
    with pytest.raises(EvidenceError, match="holds a number that is none"):
        evidence.keep(tmp_path, NAME, timing, net_win.judge(toy.timing(1.3), output="values"), output="values")
