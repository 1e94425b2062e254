"""Root configuration of the test run: refuse a clone that was not installed, and let tests run pytest itself."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

import pytest

pytest_plugins = ["pytester"]


def pytest_configure() -> None:
    """Refuse to run without the installed package: its entry points are part of what is tested.

    Raises:
        pytest.UsageError: the distribution is not installed in this interpreter.
    """
    try:
        distribution("pytest-frt")
    except PackageNotFoundError:
        raise pytest.UsageError("pytest-frt is not installed here; run: pip install -e .[hosts,report,dev]") from None
