"""What is emulated is asked for and waived like all else, and counts as nothing that a device showed."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Final

from pytest_frt.contracts.verdict import Refusal
from pytest_frt.report.totals import Totals
from pytest_frt.run.plan import RunPlan
from pytest_frt.waivers import Waiver
from tests.plugin.frt_fake import planned

if TYPE_CHECKING:
    from tests.report.conftest import Builder

TAIL: Final = "@eager.decode.real.hot"
HERE, THERE, WAIVED = (f"decoder_ffn-fast-toy-none-{name}{TAIL}" for name in ("cpu", "thor", "orin"))
ANY: Final = ("*",)
WAIVER: Final = Waiver("us", "known", "https://e.org", "parity", ANY, ANY, ("orin",), ANY, date.max, until="", place="")


def test_emulated_records_are_counted_by_themselves(build: Builder) -> None:
    plan = RunPlan((planned(HERE), planned(THERE, emulated=True), planned(WAIVED, emulated=True)), (), ())
    build.collected.emulated, build.collected.waivers = plan.emulated, (WAIVER,)
    for name in (HERE, THERE):
        build.record(name)
    build.record(WAIVED, parity=Refusal("parity", "nan", "NaN"))
    counts = {"supported": 1, "judged": 1, "correct": 1, "certified": 1, "waived": 1}
    assert Totals.of(build.collected, plan) == Totals(asked=3, **counts, emulated=2, emulated_correct=1)
