"""Runs of the packaged suite inside this process, over a judge that says what a scenario says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cattrs.strategies  # noqa: F401 (an inner run in this process forgets what it was the first to import)
import jsonschema.exceptions  # noqa: F401
import pytest

import pytest_frt.session  # noqa: F401
from pytest_frt.contracts.verdict import Verdict
from pytest_frt.spec import codec

RECORD: Final = "decoder_ffn-torch_packed-toy-w16a32-cpu@eager.decode.real.hot"
OTHER: Final = "linear_proj-torch_packed-toy-w16a32-cpu@eager.decode.real.hot"
UNION: Final = "toy-cpu@eager.decode.real.hot"


@dataclass
class Stage:
    """An empty directory, a scenario in it, and pytest run there with ``--frt-host=toy`` and the fake judge."""

    pytester: pytest.Pytester
    record: str = RECORD
    other: str = OTHER
    union: str = UNION

    def scenario(self, *records: str, gates: dict[str, dict[str, Verdict]] | None = None, **more: Any) -> None:
        """Write what the fake judge says: of each record nothing but passes, unless ``gates`` says otherwise."""
        said = {name: {} for name in records or (RECORD,)} | {
            name: {gate: codec.to_json(verdict) for gate, verdict in verdicts.items()}
            for name, verdicts in (gates or {}).items()
        }
        self.pytester.path.joinpath("scenario.json").write_text(json.dumps({"records": said, **more}))

    def run(self, *args: object, apart: bool = False) -> pytest.RunResult:
        """Run pytest with the fake judge: in this process, or ``apart`` from it and with pytest-xdist."""
        return self.bare("-p", "frt_fake", "--frt-host=toy", *args, apart=apart)

    def bare(self, *args: object, apart: bool = False) -> pytest.RunResult:
        """Run pytest with our plugin alone, which saves the time of loading all that are installed."""
        runner = self.pytester.runpytest_subprocess if apart else self.pytester.runpytest_inprocess
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
            return runner("-p", "frt", *(("-p", "xdist") if apart else ()), *map(str, args))

    @staticmethod
    def counts(result: pytest.RunResult) -> dict[str, int]:
        """Return pytest's counts of outcomes."""
        return {word: count for word, count in result.parseoutcomes().items() if word != "warnings"}

    @staticmethod
    def text(result: pytest.RunResult) -> str:
        """Return what was printed as one line: where lines break depends on the terminal."""
        return " ".join(result.stdout.str().split())

    def report(self, *args: object) -> dict[str, Any]:
        """Run pytest with a JSON report and return it."""
        self.run("--frt-json=report.json", *args)
        found: dict[str, Any] = json.loads(self.pytester.path.joinpath("report.json").read_text())
        return found

    @property
    def out(self) -> Path:
        """The output directory."""
        return self.pytester.path / "frt-certs"

    def files(self) -> list[str]:
        """Return the names of statements and certificates below the output directory."""
        out = self.pytester.path / "frt-certs"
        kinds = (path.name.split(".")[-2] for path in out.rglob("*.json*"))
        return sorted(kind for kind in kinds if kind != "last-report")


@pytest.fixture
def stage(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Return a stage with one record that passes every gate; its terminal has 109 columns."""
    pytester.syspathinsert(Path(__file__).parent)
    pytester.syspathinsert()
    monkeypatch.setenv("COLUMNS", "109")
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}:{pytester.path}")
    made = Stage(pytester)
    made.scenario()
    return made
