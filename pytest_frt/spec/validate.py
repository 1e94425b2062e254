"""A yaml file against its JSON schema: one message with file, key and value."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from pytest_frt.errors import SpecError
from pytest_frt.spec.plain import read_plain
from pytest_frt.spec.strict_yaml import read_yaml

SHOWN = 80
"""Characters of an offending value that a message shows; the file holds the rest."""


@cache
def _validator(schema: str) -> Any:  # noqa: ANN401 (jsonschema's validator classes are made at run time)
    from jsonschema import Draft202012Validator

    text = resources.files("pytest_frt.schemas").joinpath(f"{schema}.schema.json").read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))


def read_validated(path: Path, schema: str) -> tuple[dict[str, Any], bytes]:
    """Read a yaml file that must hold to ``pytest_frt/schemas/<schema>.schema.json``.

    Returns:
        The content and the file's bytes (what digests are taken over).

    Raises:
        SpecError: the file is missing or breaks the schema; the message names file, key and value.
    """
    try:
        data = read_plain(path)
    except OSError as fault:
        raise SpecError(f"{path}: cannot be read: {fault.strerror}", hint=f"add {path.name}") from fault
    content = read_yaml(data, str(path))
    check(content, str(path), schema)
    return content, data


def check(content: object, where: str, schema: str) -> None:
    """Hold a value to ``pytest_frt/schemas/<schema>.schema.json``; ``where`` is what a message calls it.

    Raises:
        SpecError: it breaks the schema; the message names place, key and value.
    """
    from jsonschema.exceptions import best_match

    broken = best_match(_validator(schema).iter_errors(content))
    if broken is not None:
        key = ".".join(map(str, broken.absolute_path)) or "top level"
        shown = repr(broken.instance)
        shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}... ({len(shown)} characters)"
        raise SpecError(
            f"{where}: {key}: {broken.message} (value: {shown})",
            hint=f"see pytest_frt/schemas/{schema}.schema.json",
        )
