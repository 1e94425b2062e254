"""Names of files are shown as one line of printable characters: none makes a line of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_frt.certs.outcomes import Refused
from pytest_frt.certs.strict_json import one_line
from pytest_frt.cli.certs import print_outcomes
from pytest_frt.runtime.handle import FileDecision, Handle

NAMES = {
    "line feed": "z\naccepted  plan of somebody",
    "escape": "z\x1b[8m",
    "right to left": "z\u202egnp",
    "zero width": "z\u200b",
    "not utf-8": "z\udcff",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_name_stays_on_its_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(Path("folder", f"{name}.frt.intoto.jsonl"))
    print_outcomes(f"directory {name}", [Refused(f"{source}:1", "", "ENVELOPE", f"{source} is no envelope")])
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) == 3
    handle = Handle(
        None, (), (FileDecision(source, "", "ENVELOPE", f"{source} is no envelope"),), "", (f"repo {name}",)
    )
    told = handle.explain()
    assert len(told.splitlines()) == 3
    for text in (shown, told):
        assert all(one.isprintable() for line in text.splitlines() for one in line)
        assert "z\\" in text


def test_plain_text_is_as_it_was() -> None:
    assert one_line("größer als 1, ≥ 0.5") == "größer als 1, ≥ 0.5"
