"""The pytest plugin: thin hooks. Without an ``--frt-*`` selection it does nothing and imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.errors import FrtError
from pytest_frt.options import add_options, is_active

if TYPE_CHECKING:
    from pytest_frt.session import Session

SUITE = Path(__file__).parent / "suite"
NAME = "frt-session"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Load the suite's own conftest files alone: those above it and those of the working directory are not part of it."""
    known = early_config.known_args_namespace
    if not known.file_or_dir and is_active(early_config, known):
        known.file_or_dir = [str(SUITE)]
        known.confcutdir = str(SUITE)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the session when this run is ours, and point pytest at the packaged suite when no path was given."""
    config.addinivalue_line("markers", "frt_gate(name): judges one gate of a record")
    try:
        if not is_active(config, config.option):
            return
        from pytest_frt.session import Session

        config.pluginmanager.register(Session.begin(config), NAME)
    except FrtError as fault:
        raise pytest.UsageError(fault.diagnostics()) from fault
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = [str(SUITE)]


def session_of(config: pytest.Config) -> Session | None:
    """Return the registered session of this run; None when the plugin is inert."""
    return config.pluginmanager.get_plugin(NAME)
