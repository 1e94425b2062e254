"""Fractions of a run judge every record once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.plugin.conftest import Stage


def test_every_record_is_judged_in_one_fraction(stage: Stage) -> None:
    stage.scenario(stage.record, stage.other)
    found = []
    for index in (1, 2, 3):
        result = stage.run("--collect-only", "-q", f"--frt-fraction={index},3")
        found += re.findall(r"test_null_control\[(.*)\]", result.stdout.str())
    assert sorted(found) == sorted([stage.record, stage.other])
