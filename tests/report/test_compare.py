"""Which changes a rule calls worse, and which it lets stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_frt.contracts.verdict import Inconclusive, Measured, NotRun, Outcome, Pass, Refusal, Verdict
from pytest_frt.errors import UsageFault
from pytest_frt.report import compare
from pytest_frt.report.compare import Earlier, Seen, parse

NAME = "ffn-fast-toy-w16a32-cpu@eager.decode.real.hot"


def timed(pooled: float) -> Pass:
    numbers = {"pooled_median": pooled, "interval_low": pooled - 0.05, "interval_high": pooled + 0.05}
    return Pass("net_win", tuple(Measured(name, value, ">", 1.02, 24) for name, value in numbers.items()))


def parity(rel_l2: float, cosine: float = 0.9996) -> Pass:
    numbers = (Measured("rel_l2", rel_l2, "<=", 0.002, 9), Measured("cosine", cosine, ">=", 0.999, 12))
    return Pass("parity", (Measured("rel_l2", 0.0001, "<=", 0.002, 9, at="another seat"), *numbers))


BEFORE = Seen(
    Outcome.CERTIFIED,
    {"parity": parity(0.0005).measured, "net_win": timed(1.31).measured},
    frozenset({"parity", "net_win"}),
)


@pytest.mark.parametrize(
    ("now", "rule", "said"),
    [
        (timed(1.28), "ratio:2%", "ratio 1.310x before, 1.280x now (-2.3 %, 99 % interval from 1.260 before, to 1.330"),
        (timed(1.29), "ratio:2%", ""),
        (timed(1.19), "ratio", "ratio 1.310x before, 1.190x now (-9.2 %"),
        (timed(1.22), "ratio", ""),
        (timed(1.5), "ratio:0%", ""),
        (parity(0.0008), "parity:10%", "rel_l2 0.0005 before, 0.0008 now (needs <= 0.002): 15 % of what the limit"),
        (parity(0.0006), "parity:10%", ""),
        (parity(0.0001), "parity:0%", ""),
        (parity(0.0005, 0.9992), "parity:10%", "cosine 0.9996 before, 0.9992 now (needs >= 0.999): 40 % of what"),
        (Inconclusive("net_win", "51 of 80"), "outcome", "gate net_win held before"),
        (Refusal("parity", "nan", "NaN"), "outcome", "gate parity held before"),
        (NotRun("net_win", "parity"), "outcome", ""),
        (timed(1.0), "outcome", ""),
    ],
    ids=[
        "slower", "within_share", "beyond_noise", "within_noise", "faster", "nearer_a_ceiling", "within_room", "better",
        "nearer_a_floor", "undecided", "refused", "stopped_by_another_gate", "slower_by_another_rule",
    ],
)  # fmt: skip
def test_rule_at_one_gate(now: Verdict, rule: str, said: str) -> None:
    found = compare.of_gate(BEFORE, NAME, now, (parse(rule),))
    assert [one.text[: len(said)] for one in found] == ([said] if said else [])
    assert all((one.subject, one.rule) == (NAME, rule) for one in found)


@pytest.mark.parametrize("whole", [True, False])
def test_what_a_cpu_showed_in_the_place_of_a_device_is_held_against_nothing_of_the_device(*, whole: bool) -> None:
    stood_in = Seen(Outcome.NOT_SUPPORTED, {"parity": parity(0.0019).measured}, frozenset({"parity"}), emulated=True)
    device, emulated = (Earlier("r", {NAME: one}, "cpu") for one in (BEFORE, stood_in))
    rules = (parse("outcome"), parse("parity:10%"))
    found = compare.compare(device, emulated, rules, whole=whole)
    assert [one.text for one in found] == (["CERTIFIED before, emulated now"] if whole else [])
    assert compare.compare(emulated, device, rules, whole=whole) == ()
    assert compare.like(device, {NAME}).seen == {}


def test_what_a_cpu_showed_is_held_against_what_it_showed_before() -> None:
    before, now = (
        Earlier("r", {NAME: Seen(word, {"parity": numbers.measured}, frozenset(), emulated=True)}, "cpu")
        for word, numbers in ((Outcome.NOT_SUPPORTED, parity(0.0005)), (Outcome.REFUSED, parity(0.0019)))
    )
    found = compare.compare(before, now, (parse("outcome"), parse("parity:10%")), whole=True)
    assert found[0].text == "NOT_SUPPORTED before, REFUSED now"
    assert len(found) == len(("outcome", "parity"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ration:2%", "did you mean 'ratio'"),
        ("parity", "needs a share"),
        ("outcome:2%", "has no share"),
        ("ratio:2", "is unknown"),
        ("ratio:-2%", "is unknown"),
    ],
)
def test_rule_that_is_none_is_one_message(text: str, said: str) -> None:
    with pytest.raises(UsageFault) as caught:
        parse(text)
    assert said in caught.value.diagnostics()


@pytest.mark.parametrize("text", ["ratio", "ratio:2.5%", "parity:10%", "outcome"])
def test_rule_is_written_as_it_was_read(text: str) -> None:
    assert str(parse(text)) == text


def test_lost_record_is_worse_only_between_whole_reports() -> None:
    before, now = Earlier("a", {NAME: BEFORE}, "cpu"), Earlier("b", {}, "cpu")
    (lost,) = compare.compare(before, now, compare.SHOWN, whole=True)
    assert lost.text == "CERTIFIED before, not judged now"
    assert compare.compare(before, now, compare.SHOWN, whole=False) == ()


@pytest.mark.parametrize("text", ["[]", '{"schema": "other/1"}', '{"schema": "frt-report/1", "records": 3}', "{"])
def test_file_that_is_no_report_is_one_message(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(UsageFault, match="report"):
        compare.read(tmp_path / "r.json")
