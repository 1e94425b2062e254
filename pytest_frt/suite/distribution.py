"""Sharding by pytest-xdist: one worker for all items of a host on a device, and no word of a key for any worker."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_frt.options import BY_KEY
from pytest_frt.plugin import session_of

if TYPE_CHECKING:
    from collections.abc import Iterable

KEY_OPTION: Final = f"--frt-{BY_KEY['sign_key'].name}"
CELL_PARTS: Final = 5
HOST_PART, DEVICE_PART = 2, 4


def without_key(args: Iterable[str]) -> list[str]:
    """Return command line words without the key option and its value."""
    kept: list[str] = []
    skip = False
    for word in args:
        if skip:
            skip = False
        elif word == KEY_OPTION:
            skip = True
        elif not word.startswith(f"{KEY_OPTION}="):
            kept.append(word)
    return kept


def hide_key(config: pytest.Config) -> None:
    """Take the key out of the command line that pytest-xdist hands to its workers."""
    given = config.invocation_params
    args = without_key(str(word) for word in given.args)
    config.invocation_params = type(given)(args=args, plugins=given.plugins, dir=given.dir)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401 (xdist's WorkerController)
    """Take the key out of the copy of ``sys.argv`` that a worker is sent, and tell it which records are kept."""
    from pytest_frt.session import KEPT

    node.workerinput["mainargv"] = without_key(node.workerinput["mainargv"])
    session = session_of(node.config)
    node.workerinput[KEPT] = [one.plan.id for one in session.plan.kept] if session else []


def scope_of(nodeid: str) -> str:
    """Return ``<host>-<device>`` of an item of the packaged suite, the node id of any other."""
    _, bracket, inside = nodeid.partition("[")
    parts = inside.partition("@")[0].split("-")
    if bracket and len(parts) == CELL_PARTS:
        return f"{parts[HOST_PART]}-{parts[DEVICE_PART]}"
    return "-".join(parts) if bracket and len(parts) == len({HOST_PART, DEVICE_PART}) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:  # noqa: ANN401 (xdist's types)
    """Schedule by host: what a worker learned of a host serves every gate, record and union of it."""
    if config.getvalue("dist") != "load":
        return None
    scheduler = sys.modules["xdist.scheduler"].LoadScopeScheduling(config, log)  # the caller's own module
    scheduler._split_scope = scope_of  # noqa: SLF001 (the one method that xdist names for this)
    return scheduler
