"""``autoregressive_decode_pipeline``: a small decoder keeps every check, and each planted fault breaks its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_frt.contracts.pipeline import Broken, DecodeStages, Finding, Holds, NotShown
from pytest_frt.spec.load import load_structure
from pytest_frt.spec.modules import load_file
from pytest_frt.spec.pipelines import load_pipeline, read_finding

from . import decoders
from .conftest import CATALOG
from .decoders import LAYERS, Decoder, captured, told

FOLDER = CATALOG / "autoregressive_decode_pipeline"
CHECKS = {check.name: check for check in load_pipeline(FOLDER).checks}
PREFILL, UPDATE, SELECTION, MODALITY, BUCKETS = CHECKS


def found(check: str, host: DecodeStages) -> Finding:
    limits = {one.metric: one.value for one in CHECKS[check].limits}
    return read_finding(getattr(load_file(FOLDER / "conformance.py"), check)(host, **limits), check)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("check", CHECKS)
def test_plain_decoder_holds(check: str) -> None:
    assert isinstance(found(check, told(Decoder())), Holds)


def test_experts_that_are_ranked_inside_a_block_are_no_tokens() -> None:
    assert isinstance(found(SELECTION, told(decoders.RoutesInside())), Holds)


def test_window_that_drops_its_first_positions_rewrites_none() -> None:
    host = told(decoders.KeepsAWindow(), lengths=lambda state: (state.at,) * LAYERS)
    assert isinstance(found(UPDATE, host), Holds)


FAULTS: dict[str, tuple[type[Decoder], str, str]] = {
    "position_lost": (decoders.LosesAPosition, PREFILL, "length"),
    "position_blank": (decoders.BlanksAPosition, PREFILL, "unread"),
    "state_holds_no_number": (decoders.HoldsNoNumber, PREFILL, "empty"),
    "block_never_called": (decoders.SkipsABlock, PREFILL, "blocks"),
    "state_grows_by_one_more": (decoders.GrowsTwice, UPDATE, "growth"),
    "state_grows_by_one_less_where_rows_are_several": (decoders.LosesOneOfSeveral, UPDATE, "growth"),
    "given_state_written": (decoders.WritesTheState, UPDATE, "written"),
    "past_positions_move": (decoders.RewritesThePast, UPDATE, "rewritten"),
    "count_kept_beside_the_state": (decoders.KeepsACount, UPDATE, "elsewhere"),
    "buffer_of_the_model_written": (decoders.WritesABuffer, UPDATE, "in_the_model"),
    "token_chosen_in_a_block": (decoders.ChoosesInside, SELECTION, "selects_inside"),
    "step_answers_ids": (decoders.AnswersIds, SELECTION, "no_logits"),
    "image_seen_for_every_token": (decoders.SeesForEveryToken, MODALITY, "per_token"),
    "image_seen_twice": (decoders.SeesTwice, MODALITY, "not_once"),
    "image_without_effect": (decoders.SeesNothing, MODALITY, "unseen"),
}


@pytest.mark.parametrize(("decoder", "check", "reason"), FAULTS.values(), ids=FAULTS)
def test_planted_fault_is_broken(decoder: type[Decoder], check: str, reason: str) -> None:
    seen = found(check, told(decoder()))
    assert isinstance(seen, Broken)
    assert seen.reason == reason, seen


def test_limit_of_a_prefill_lies_far_from_both_sides() -> None:
    right, wrong = (found(PREFILL, told(one())) for one in (Decoder, decoders.BlanksAPosition))
    assert isinstance(right, Holds)
    assert isinstance(wrong, Broken)
    assert 10 * right.measured["error_in_eps"] < right.measured["limit"] < wrong.measured["error_in_eps"] / 10


WORDS: dict[str, tuple[dict[str, Any], str, str]] = {
    "module_that_is_not_there": ({"modules": {"prefill": ("layers.0",), "decode": ()}}, PREFILL, "no_such_module"),
    "several_tokens_per_row": ({"select": lambda logits: logits.topk(2).indices}, SELECTION, "no_token"),
    "token_beyond_the_vocabulary": ({"select": lambda logits: logits.argmax(-1) + 99}, SELECTION, "no_token"),
}


@pytest.mark.parametrize(("changes", "check", "reason"), WORDS.values(), ids=WORDS)
def test_wrong_word_of_the_host_is_broken(changes: dict[str, Any], check: str, reason: str) -> None:
    seen = found(check, told(Decoder(), **changes))
    assert isinstance(seen, Broken)
    assert seen.reason == reason, seen


@pytest.mark.parametrize(
    ("wrong", "reason", "rows"),
    [({"silent": True}, "unreported", 4), ({"off": 0.01}, "answer", 2)],
    ids=["fallback_not_counted", "bucket_answers_otherwise"],
)
def test_wrong_bucket_is_broken(wrong: dict[str, Any], reason: str, rows: int) -> None:
    decoder = Decoder()
    seen = found(BUCKETS, told(decoder, buckets=captured(decoder, **wrong)))
    assert isinstance(seen, Broken)
    assert (seen.reason, seen.measured["rows"]) == (reason, rows)


TEXT = {"prefill": ("blocks.0",), "decode": ("blocks.0",)}


@pytest.mark.parametrize(
    ("changes", "check", "why"),
    [
        ({"modules": TEXT}, MODALITY, "text alone"),
        ({"buckets": None}, BUCKETS, "nothing is captured"),
        ({"modules": {**TEXT, "decode": ()}}, SELECTION, "no block"),
    ],
    ids=["text", "no_buckets", "no_blocks"],
)
def test_what_cannot_be_seen_is_not_shown(changes: dict[str, Any], check: str, why: str) -> None:
    seen = found(check, told(Decoder(), **changes))
    assert isinstance(seen, NotShown)
    assert why in seen.why


def test_embedded_structures_are_structures() -> None:
    assert all(load_structure(CATALOG / name).name == name for name in load_pipeline(FOLDER).embeds)
