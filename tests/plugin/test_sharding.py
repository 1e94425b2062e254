"""Under pytest-xdist the controller folds the same, and no worker hears of the key."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import keys
from pytest_frt.contracts.verdict import Refusal
from pytest_frt.suite.distribution import scope_of, without_key

if TYPE_CHECKING:
    from tests.plugin.conftest import Stage

SPY = """
import json, os, sys
def pytest_sessionfinish(session):
    config = session.config
    if hasattr(config, "workerinput"):
        seen = [config.workerinput["mainargv"], [str(a) for a in config.invocation_params.args], vars(config.option)]
        seen.append(config.pluginmanager.get_plugin("frt-session").settings.sign_key)
        open(f"seen_{config.workerinput['workerid']}.json", "w").write(json.dumps(seen, default=str))
"""


def test_two_workers_give_the_same_fold_and_hear_of_no_key(stage: Stage) -> None:
    keys.write_private(stage.pytester.path / "secret.pem", keys.generate())
    stage.pytester.makepyfile(spy=SPY)
    away = stage.other.replace("-toy-", "-box-")
    refused = Refusal("parity", "gain", "slope 0.01")
    stage.scenario(stage.record, gates={stage.other: {"parity": refused}, away: {}}, proven=[stage.record, away])
    words = ("--frt-sign-key=secret.pem", "--frt-json=r.json", "-p", "spy")
    result = stage.run(*words, "-n2", apart=True)
    assert result.ret == 1
    sharded = json.loads(stage.pytester.path.joinpath("r.json").read_text())
    alone = stage.run(*words)
    assert alone.ret == 1
    plain = json.loads(stage.pytester.path.joinpath("r.json").read_text())
    outcomes = [
        {one["id"]: (one["outcome"], one["reason"], bool(one["file"])) for one in r["records"]}
        for r in (sharded, plain)
    ]
    assert outcomes[0] == outcomes[1]
    assert sorted(word for word, *_ in outcomes[0].values()) == ["CERTIFIED", "CERTIFIED", "REFUSED"]
    seen = [path.read_text() for path in stage.pytester.path.glob("seen_*.json")]
    assert len(seen) == 2
    assert [text for text in seen if "secret" in text] == []


@pytest.mark.parametrize(
    "words",
    [["--frt-sign-key=k", "-v"], ["--frt-sign-key", "k", "-v"], ["-v", "--frt-sign-key", "k"]],
    ids=["joined", "apart", "last"],
)
def test_key_is_taken_out_of_a_command_line(words: list[str]) -> None:
    assert without_key(words) == ["-v"]


@pytest.mark.parametrize(
    ("nodeid", "scope"),
    [
        ("suite/test_cells.py::test_parity[ffn-fast-toy-w16a32-cpu@eager.decode.real.hot]", "toy-cpu"),
        ("suite/test_cells.py::test_union[toy-cpu@eager.decode.real.hot]", "toy-cpu"),
        ("test_own.py::test_mine", "test_own.py::test_mine"),
    ],
    ids=["record", "union", "foreign"],
)
def test_items_of_a_host_share_a_worker(nodeid: str, scope: str) -> None:
    assert scope_of(nodeid) == scope
