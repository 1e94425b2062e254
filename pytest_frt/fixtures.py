"""Fixtures for test files of people who write entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_frt.cell import Cell
    from pytest_frt.run.config import RunConfig


@pytest.fixture
def frt_cell(request: pytest.FixtureRequest) -> Cell:
    """A cell of this run; a test that takes it runs once per cell, and is skipped when there is none."""
    cell: Cell = request.param
    return cell


@pytest.fixture
def frt_config(request: pytest.FixtureRequest) -> RunConfig:
    """The settings of this run; a test that takes them is skipped when no ``--frt-*`` option selects anything."""
    session = request.config.pluginmanager.get_plugin("frt-session")
    if session is None:
        pytest.skip("no --frt-* option selects anything")
    settings: RunConfig = session.settings
    return settings
