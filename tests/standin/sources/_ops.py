"""Ops of one build, in a namespace of its own: the id in the metadata beside this file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

NAMESPACE = json.loads(Path(__file__).with_name("metadata.json").read_text(encoding="utf-8"))["id"]


def add_op_namespace_prefix(name: str) -> str:
    """Return the qualified name of an op."""
    return f"{NAMESPACE}::{name}"


def register(name: str, schema: str, run: Callable[..., None]) -> Callable[..., None]:
    """Define an op that writes to the arguments that ``schema`` marks, as compiled ones do, and return it."""
    qualified = add_op_namespace_prefix(name)
    torch.library.define(qualified, schema)
    torch.library.impl(qualified, ("cpu", "cuda"))(run)
    torch.library.register_fake(qualified, _nothing)
    op: Callable[..., None] = getattr(getattr(torch.ops, NAMESPACE), name)
    return op


def _nothing(*_args: Any, **_keywords: Any) -> None:
    return None
