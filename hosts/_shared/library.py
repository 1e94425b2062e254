"""The host libraries: imported late, offline, and without progress bars of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from pytest_frt.sdk import MissingExtra

# Read by huggingface_hub when it is imported: everything a host needs is on this machine.
os.environ.setdefault("HF_HUB_OFFLINE", "1")


def require(module: str, *, install: str = "pip install 'pytest-frt[hosts]'") -> ModuleType:
    """Import a third-party module that an extra installs.

    Args:
        module: Dotted name, e.g. ``transformers``.
        install: The command that installs its distribution.

    Raises:
        MissingExtra: its distribution is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as absent:
        if absent.name not in {module, module.partition(".")[0]}:
            raise
        raise MissingExtra(
            f"this host needs the package {absent.name}, which is not installed",
            hint=install,
        ) from absent


@contextmanager
def replaced(module: ModuleType, **answers: object) -> Iterator[None]:
    """Let names of a module stand for something else inside the block, and give them back after it.

    Args:
        module: Has the names already.
        answers: Name to what it stands for.
    """
    kept = {name: getattr(module, name) for name in answers}
    vars(module).update(answers)
    try:
        yield
    finally:
        vars(module).update(kept)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the progress bars and warnings of transformers inside the block, and restore them after it."""
    settings = require("transformers.utils.logging")
    verbosity, bars = settings.get_verbosity(), settings.is_progress_bar_enabled()
    settings.set_verbosity_error()
    settings.disable_progress_bar()
    try:
        yield
    finally:
        settings.set_verbosity(verbosity)
        if bars:
            settings.enable_progress_bar()
