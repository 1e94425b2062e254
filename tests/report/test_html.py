"""The page is one file that loads nothing, tells its report, and serves keyboard and screen reader."""

from __future__ import annotations

import copy
import hashlib
import re
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from pytest_frt.contracts.verdict import Outcome
from pytest_frt.report import drawing, html
from pytest_frt.report.table import SEVERITY
from pytest_frt.report.words import LOOKS
from pytest_frt.rules import thresholds
from pytest_frt.spec.validate import check
from tests.report import page_world as world
from tests.report.markup import Markup

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7 * 7 }}"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return world.report(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def page(report: dict[str, Any]) -> Markup:
    return Markup(html.render(report))


def test_report_holds_to_its_schema(report: dict[str, Any]) -> None:
    check(report, "report", "report")


def test_nothing_is_loaded_and_only_the_own_script_may_run(report: dict[str, Any]) -> None:
    page = Markup(html.render(report))
    assert not {"link", "img", "iframe", "object", "embed", "video", "audio", "base", "form"} & {
        node.tag for node in page.nodes
    }
    assert [node.tag for node in page.nodes if node.get("src") or node.get("style")] == []
    assert [node.get("href") for node in page.find("a") if not node.get("href").startswith("#")] == []
    (style,), (script,) = page.find("style"), page.find("script")
    assert not re.search(r"url\(|@import|@font-face", style.text)
    (policy,) = (node.get("content") for node in page.find("meta") if node.get("http-equiv"))
    assert policy.startswith("default-src 'none'; ")
    assert f"'{drawing.source_hash(style.text)}'" in policy
    assert f"'{drawing.source_hash(script.text)}'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("where", ["host_name", "refusal", "seat", "fault", "setting", "kernel", "machine", "note"])
def test_hostile_text_stays_text(report: dict[str, Any], where: str) -> None:
    made = copy.deepcopy(report)
    wrong = next(one for one in made["records"] if one["id"] == world.WRONG)
    if where == "host_name":
        wrong["key"]["cell"]["host"] = EVIL
    elif where == "refusal":
        wrong["detail"] = wrong["gates"]["parity"]["refused"][0]["detail"] = EVIL
    elif where == "seat":
        wrong["seats"][3]["seat"] = EVIL
    elif where == "fault":
        made["faults"][0]["message"] = EVIL
    elif where == "setting":
        made["settings"]["selection"]["include"]["host"] = [EVIL]
    elif where == "kernel":
        made["not_supported"][0]["reason"] = EVIL
    elif where == "machine":
        made["machine"][0]["name"] = EVIL
    elif where == "note":
        made["notes"] = [EVIL]
    text = html.render(made)
    assert EVIL.encode() not in text
    page = Markup(text)
    assert (len(page.find("script")), page.find("img")) == (1, [])
    assert any(EVIL in node.text for node in page.nodes)


def test_ids_are_unique_and_every_link_and_label_has_its_target(page: Markup) -> None:
    ids = Counter(node.get("id") for node in page.nodes if node.get("id"))
    assert [name for name, count in ids.items() if count > 1] == []
    wanted = {node.get("href")[1:] for node in page.find("a")} | {n.get("data-copy") for n in page.find("button")}
    assert wanted - {""} <= ids.keys()


def test_every_table_has_a_caption_and_scoped_heads(page: Markup) -> None:
    for table in page.find("table"):
        assert table.find("caption")[0].text.strip()
        assert {head.get("scope") for head in table.find("th")} == {"col", "row"}


def test_every_drawing_has_words_or_is_hidden_with_words_beside_it(page: Markup) -> None:
    for drawn in page.find("svg"):
        if drawn.inside("svg"):
            continue
        hidden = drawn.get("aria-hidden") or any(node.get("aria-hidden") for node in drawn.above)
        assert hidden or (drawn.get("role") == "img" and len(drawn.get("aria-label")) > 20)


def test_page_is_walked_by_keyboard(page: Markup) -> None:
    assert page.find("a")[0].get("class") == "skip"
    assert page.by_id(page.find("a")[0].get("href")[1:]).get("tabindex") == "-1"
    for region in (node for node in page.nodes if node.get("class") == "scroll"):
        assert (region.get("tabindex"), region.get("role")) == ("0", "region")
        assert region.get("aria-label")
    assert {
        node.tag for node in page.nodes if node.get("onclick") or node.get("tabindex") not in {"", "0", "-1"}
    } == set()
    levels = [int(node.tag[1]) for node in page.nodes if re.fullmatch("h[1-6]", node.tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.find("html")[0].get("lang") == "en"


def test_words_have_looks_and_signs_of_their_own() -> None:
    assert {word.value for word in Outcome} < LOOKS.keys()
    signs = Counter(look.sign for word, look in LOOKS.items() if word != "PASSED")
    assert set(signs.values()) == {1}
    assert {*SEVERITY, Outcome.NOT_SUPPORTED} == set(Outcome)


def test_headline_counts_what_the_terminal_counts(page: Markup) -> None:
    (lead,) = (node for node in page.nodes if node.get("class") == "lead")
    assert lead.text == "1 certified of 6 asked for and 5 supported here"


@pytest.mark.parametrize(("setting", "said"), [("quick", "Quick form"), ("timing", "Timing was switched off")])
def test_form_that_certifies_nothing_says_so(report: dict[str, Any], setting: str, said: str) -> None:
    forms = {"quick": setting == "quick", "timing": setting != "timing"}
    made = {**report, "settings": report["settings"] | forms}
    (notice,) = (node for node in Markup(html.render(made)).nodes if node.get("class") == "notice")
    assert notice.text.startswith(said)


def test_matrix_shows_words_by_structure_and_host(page: Markup) -> None:
    matrix = " ".join(page.section("matrix").replace("\N{MULTIPLICATION SIGN}", "x").split())
    for said in ("structure lost toy", "norm ○ NOT_RUN x 1 ✕ REFUSED x 1", "decoder_ffn none ✓ CERTIFIED x 1"):
        assert said in matrix


def test_root_cause_is_told_once_with_everything_it_stopped(page: Markup) -> None:
    causes = page.section("causes")
    whole = page.find("main")[0].text
    assert whole.count("weights of lost cannot be read") == 1
    assert "NOT_RUN checkpoint, 2 records" in causes
    assert "3 not run, because of parity" in page.section("details")


def test_sentence_that_records_share_is_told_once(report: dict[str, Any]) -> None:
    made = copy.deepcopy(report)
    for one in made["records"][1:3]:
        one.update(outcome="CRASH", gate="seats", reason="crash", detail="the kernel is no shared object")
    causes = Markup(html.render(made)).section("causes")
    assert causes.count("the kernel is no shared object") == 1
    assert "CRASH seats: crash, 2 records" in causes


def test_every_failure_has_its_command(report: dict[str, Any], page: Markup) -> None:
    causes = page.section("causes")
    failed = [one for one in report["records"] if one["outcome"] != "CERTIFIED"]
    assert len(failed) == 4
    for one in failed:
        assert one["rerun"] in causes
    copied = {page.by_id(node.get("data-copy")).text for node in page.find("button") if node.get("data-copy")}
    assert {one["rerun"] for one in (*report["records"], *report["unions"])} == copied


def test_strip_plot_draws_every_unit_the_margin_and_the_interval(page: Markup) -> None:
    plots = [node for node in page.find("svg") if "unit ratios" in node.get("aria-label")]
    assert len(plots) == 3
    for plot in plots:
        assert len(plot.find("circle")) == 6
        assert "1.02 needed" in plot.text
        assert len([line for line in plot.find("line") if line.get("class") == "middle"]) == 2
    assert "5 of them above 1.02; pooled median 1.1100, 99% interval 1.0900 to 1.1400" in plots[0].get("aria-label") + (
        plots[1].get("aria-label") + plots[2].get("aria-label")
    )


def test_seats_are_drawn_worst_first_with_their_limit(page: Markup) -> None:
    details = next(one for one in page.find("details") if "card" in one.get("class") and world.WINS in one.text)
    seats = [node for node in details.find("li") if node.inside("ul") and node.find("rect")]
    assert len(seats) == 1 + len(world.SEATS)
    assert "host.cosine.worst: 40.0% of its limit" in seats[0].text
    assert [seat.text.split()[0] for seat in seats[1:3]] == ["layers.13.mlp", "layers.12.mlp"]
    assert all(any(line.get("class") == "limit" for line in seat.find("line")) for seat in seats)
    assert "2 more seats" in details.text


def test_refused_seat_is_drawn_beyond_its_limit(page: Markup) -> None:
    details = next(one for one in page.find("details") if "card" in one.get("class") and world.WRONG in one.text)
    seat = next(node for node in details.find("li") if node.find("rect"))
    assert seat.text.split()[:2] == ["layers.0.mlp", "REFUSED"]
    assert any("broken" in rect.get("class") and rect.get("width") == "100.0%" for rect in seat.find("rect"))


def test_every_threshold_stands_there_with_value_origin_and_reason(page: Markup) -> None:
    text = page.section("thresholds")
    for name, one in vars(thresholds).items():
        if isinstance(one, thresholds.Threshold):
            said = f"{name.lower().replace('_', ' ')} {one.value:g} rules/thresholds {one.because}"
            assert said in re.sub(r"\s+", " ", text)
    assert "<= 0.02 scheme w16a32 half a step" in text


def test_settings_files_and_layers_are_told(page: Markup) -> None:
    environment = page.section("environment")
    assert "host toy, lost command line" in environment
    assert "seed 7 [tool.pytest_frt]" in environment
    assert "no structure has a place for it" in page.section("layers")
    assert "no kernel serves cpu" in page.section("layers")
    assert "a note" in page.section("certificates")


def test_certificate_is_listed_with_the_digest_of_its_file(report: dict[str, Any], page: Markup) -> None:
    (one,) = report["certificates"]
    assert one["sha256"] == hashlib.sha256(b"stated").hexdigest()
    assert one["sha256"] in page.section("certificates")


def test_number_that_is_not_finite_is_told_and_drawn_beyond(report: dict[str, Any]) -> None:
    made = {**report, "records": [dict(report["records"][0])]}
    seat = {
        "seat": "layers.5.mlp",
        "numbers": [{"metric": "rel_l2", "value": None, "limit": 0.02, "at": "real#0", "n": 1}],
    }
    made["records"][0]["seats"] = [seat]
    text = html.render(made).decode()
    assert "not finite" in text
    assert "fill broken" in text


def test_run_that_judged_nothing_has_a_page(report: dict[str, Any]) -> None:
    empty = {**report, "records": [], "unions": [], "hosts": [], "certificates": [], "faults": [], "not_supported": []}
    assert "No record was judged" in Markup(html.render(empty)).section("main")


def colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_has_the_contrast_that_guidelines_ask_for_in_every_theme() -> None:
    light, system, dark = (colours(block) for block in re.findall(r"{\s*(--bg[^}]*)}", drawing.asset("page.css")))
    assert system == dark
    tones = [(tone, f"{tone}-bg") for tone in {look.tone for look in LOOKS.values()}]
    for theme in (light, dark):
        for ink, ground in (
            ("ink", "bg"),
            ("ink", "raised"),
            ("soft", "bg"),
            ("soft", "raised"),
            ("link", "bg"),
            *tones,
        ):
            high, low = sorted((luminance(theme[ink]), luminance(theme[ground])), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, ground)


def test_earlier_runs_are_told(report: dict[str, Any]) -> None:
    kept = {"id": world.SLOW, "file": "certs/slow.jsonl", "name": "0" * 64, "until": "2030-01-01"}
    worse = {"subject": world.WINS, "gate": "net_win", "rule": "ratio:2%", "text": "1.14x was 1.19x"}
    made = report | {
        "resumed": {"kept": [kept], "plans": [], "again": {world.WRONG: "no certificate of it is here"}},
        "compared": {"source": "before.json", "common": 2, "worse": [worse], "fails": True, "note": ""},
    }
    page = Markup(html.render(made))
    assert "until 2030-01-01: certs/slow.jsonl" in page.section("resumed")
    assert "no certificate of it is here" in page.section("resumed")
    assert f"{world.WINS} , net win (ratio:2%): 1.14x was 1.19x".replace(" ,", ",") in page.section("compared")
    assert "Worse than in before.json: 1, which fails the run" in page.section("compared")
