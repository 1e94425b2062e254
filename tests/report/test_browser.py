"""The page in a real browser, where one is installed: nothing is cut off, and its own script runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import screenshots

from pytest_frt.report import html
from tests.report import page_world as world

WIDTHS = (390, 1280)


@pytest.mark.skipif(screenshots.browser() is None, reason="no Chromium is installed")
def test_page_fits_a_phone_and_a_desk_and_runs_its_script(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_bytes(html.render(world.report(tmp_path)))
    found = screenshots.measure(page, WIDTHS)
    assert {width: (wide, cut, ran) for width, (wide, _, cut, ran) in found.items()} == {
        width: (width, 0, True) for width in WIDTHS
    }
