"""The hosts whose trained weights come from a package of the ``hosts`` extra, converted once into the user's cache."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

from pytest_frt.contracts.host import BuildRequest
from pytest_frt.errors import MissingExtra
from pytest_frt.registry import load_module
from pytest_frt.settings import default_cache

HOSTS: Final = Path(__file__).resolve().parents[1] / "hosts"
REQUEST: Final = BuildRequest("real", 0, None, "cpu", str(default_cache()))


@cache
def program(name: str) -> Any:
    """Return the program of a host."""
    return load_module(HOSTS / name / "host.py")


@cache
def weights_file(name: str) -> Path:
    """Return the one safetensors file of a host, which is made first where it has not been yet (about 10 s)."""
    (file,) = program(name).checkpoint(REQUEST).files
    return Path(file)


def absent(name: str) -> str:
    """Say why the trained weights of a host are not at hand; empty when they are."""
    try:
        weights_file(name)
    except MissingExtra as missing:
        return missing.message
    return ""
