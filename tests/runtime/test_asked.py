"""What attach is asked for is refused as usage when it means nothing; the model stays as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.errors import UsageFault
from pytest_frt.runtime import asked
from tests.runtime.conftest import NOW

if TYPE_CHECKING:
    from tests.runtime.conftest import World

QUESTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "form empty": ({"form": ""}, "no deployment form"),
    "form unknown": ({"form": "eagre"}, "no deployment form"),
    "now naive": ({"now": NOW.replace(tzinfo=None)}, "without a time zone"),
    "certificates empty": ({"certificates": ""}, "an empty path"),
    "certificates nul": ({"certificates": "a\0b"}, "cannot be looked at"),
    "certificates long": ({"certificates": "a" * 5000}, "cannot be looked at"),
    "one of several": ({"certificates": [".", "a\0b"]}, "cannot be looked at"),
    "trust nul": ({"trust": "a\0b"}, "cannot be looked at"),
    "state nul": ({"state": "a\0b"}, "cannot be looked at"),
    "state empty": ({"state": ""}, "an empty path"),
    "host long": ({"host": "a" * 5000}, "cannot be looked at"),
    "kernel nul": ({"kernels": {"acme/toy": "a\0b"}}, "cannot be looked at"),
}


@pytest.mark.parametrize(("options", "words"), QUESTIONS.values(), ids=QUESTIONS)
def test_a_question_that_means_nothing_is_refused(world: World, options: dict[str, Any], words: str) -> None:
    world.certify()
    with pytest.raises(UsageFault, match=words) as caught:
        world.attach(**options)
    assert len(str(caught.value)) < 300
    assert world.is_untouched()


def test_an_empty_form_does_not_activate_a_compiled_certificate(world: World) -> None:
    world.claims = {"key": replace(world.record().key, form="compiled")}
    world.certify()
    with world.attach(form="compiled") as handle:
        assert handle.active
    with pytest.raises(UsageFault):
        world.attach(form="")
    assert not world.attach().active


@pytest.mark.parametrize("check", ["check_form", "check_paths", "moment"])
def test_a_runtime_that_does_not_ask_is_caught(world: World, monkeypatch: pytest.MonkeyPatch, check: str) -> None:
    monkeypatch.setattr(asked, check, lambda *given: given[0])
    name = {"check_form": "form empty", "check_paths": "certificates nul", "moment": "now naive"}[check]
    with pytest.raises((pytest.fail.Exception, ValueError, TypeError, AssertionError)):
        test_a_question_that_means_nothing_is_refused(world, *QUESTIONS[name])
