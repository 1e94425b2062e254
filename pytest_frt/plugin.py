"""The pytest plugin: thin hooks. Without an ``--frt-*`` option or a configured selection it is inert."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_frt.errors import FrtError, KernelUnavailable
from pytest_frt.fixtures import (
    AT_EXIT,
    MARKERS,
    frt_capture,
    frt_cell,
    frt_config,
    frt_inputs,
    frt_ledger,
    frt_pair_timer,
    frt_poison,
    frt_reference,
)
from pytest_frt.options import add_options, in_files, on_command_line

if TYPE_CHECKING:
    import argparse

    from pytest_frt.hookspecs import Judge
    from pytest_frt.registry import Registry
    from pytest_frt.run.config import RunConfig
    from pytest_frt.run.plan import RunPlan
    from pytest_frt.run.progress import Progress
    from pytest_frt.run.workshop import Workshop

__all__ = [
    "frt_capture",
    "frt_cell",
    "frt_config",
    "frt_inputs",
    "frt_ledger",
    "frt_pair_timer",
    "frt_poison",
    "frt_reference",
]

SUITE: Final = Path(__file__).parent / "suite"
SUITE_FILE: Final = "test_cells.py"
NAME: Final = "frt-session"
SHOP: Final[pytest.StashKey[Workshop]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare our hooks."""
    from pytest_frt import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def _suite_args(config: pytest.Config, namespace: argparse.Namespace) -> list[str]:
    """Return what this run collects of the packaged suite; nothing when it collects something else.

    An option on the command line overrides ``testpaths``; a selection in a file alone gives way to it. Node ids of the
    suite are taken as they are printed, wherever it lies.
    """
    if given := namespace.file_or_dir:
        ours = [SUITE_FILE + word.partition(SUITE_FILE)[2] for word in given if _names_suite(word)]
        return [str(SUITE / word) for word in ours] if len(ours) == len(given) else []
    asked = on_command_line(namespace) or (in_files(config) and not config.getini("testpaths"))
    return [str(SUITE)] if asked else []


def _names_suite(word: str) -> bool:
    path = Path(word.partition("::")[0])
    return path.name == SUITE_FILE and not path.exists()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Load conftest files of the suite alone: those above it and those of the working directory are not part of it."""
    known = early_config.known_args_namespace
    try:
        if args := _suite_args(early_config, known):
            known.file_or_dir = args
            known.confcutdir = str(SUITE)
            known.importmode = "importlib"
    except FrtError as fault:
        raise pytest.UsageError(fault.diagnostics()) from fault


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the session when this run is ours, and point pytest at the packaged suite when no path was given."""
    for name, line in MARKERS.items():
        config.addinivalue_line("markers", name + line)
    try:
        if on_command_line(config.option) or in_files(config):
            _begin(config)
    except FrtError as fault:
        raise pytest.UsageError(fault.diagnostics()) from fault


def _begin(config: pytest.Config) -> None:
    from pytest_frt.session import Session

    if args := _suite_args(config, config.option):
        config.args = args
        # The default mode would put the folder above the package on sys.path, in a clone with bare entry folders in it.
        config.option.importmode = "importlib"
    if config.pluginmanager.has_plugin("xdist"):
        from pytest_frt.suite import distribution

        distribution.hide_key(config)
        config.pluginmanager.register(distribution, "frt-distribution")
    config.pluginmanager.register(Session.begin(config), NAME)


@pytest.hookimpl(trylast=True)
def pytest_frt_plan(config: pytest.Config, settings: RunConfig, registry: Registry) -> RunPlan:
    """Plan by crossing the registry with the selection; a run that will judge here starts its fork server first."""
    from pytest_frt.devices.probe import machine_facts
    from pytest_frt.run.plan import plan_run

    if _judges_here(config):
        from pytest_frt.run.workshop import Workshop

        shop = config.stash[SHOP] = Workshop.of(os.environ, settings.threads)
        config.add_cleanup(shop.close)
        shop.client.begin()
    return plan_run(settings, registry, machine_facts())


def _judges_here(config: pytest.Config) -> bool:
    """Report whether our own bench judges in this process: not when collecting, and not in a controller of xdist."""
    alone = hasattr(config, "workerinput") or not getattr(config.option, "tx", None)
    return alone and not config.option.collectonly and len(config.hook.pytest_frt_judge.get_hookimpls()) == 1


@pytest.hookimpl(trylast=True)
def pytest_frt_judge(
    config: pytest.Config, settings: RunConfig, registry: Registry, plan: RunPlan, progress: Progress
) -> Judge:
    """Judge on the bench of this machine."""
    from pytest_frt.run.bench import Bench

    return Bench(settings, registry, plan, progress, environ=os.environ, shop=config.stash.get(SHOP, None))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Check the arguments of our markers, and parametrise ``frt_cell``."""
    if "frt_cell" in metafunc.fixturenames or any(mark.name in MARKERS for mark in metafunc.definition.iter_markers()):
        from pytest_frt import markers

        markers.parametrise(metafunc)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose needs this machine does not meet."""
    for mark in item.iter_markers("frt_requires"):
        from pytest_frt import markers

        markers.skip_unmet(mark)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run the checks that end a test: what they find fails the test itself. An absent kernel is no failure."""
    try:
        result = yield
    except KernelUnavailable as absent:
        if not {"frt_cell", "frt_trial"}.intersection(getattr(item, "fixturenames", ())):
            raise
        from pytest_frt import markers

        markers.not_supported(absent.message)
    for check in item.stash.get(AT_EXIT, ()):
        check()
    return result


def session_of(config: pytest.Config) -> Any:  # noqa: ANN401 (its type would import what an inert plugin must not)
    """Return the registered ``session.Session`` of this run; None when the plugin is inert."""
    return config.pluginmanager.get_plugin(NAME)
