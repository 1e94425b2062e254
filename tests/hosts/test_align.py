"""A converted checkpoint keeps its values, at addresses a matrix product is as fast on as on torch's own memory."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

pytest.importorskip("gguf")
convert: Any = import_module("pytest_frt.hosts.gemma3_270m.convert")


@pytest.mark.parametrize("name", ["w" * length for length in range(1, 65, 7)], ids=len)
def test_aligned_file_holds_the_same_values_at_cache_lines(tmp_path: Path, name: str) -> None:
    tensors = {name: torch.arange(48.0), f"{name}.2": torch.arange(32.0).reshape(4, 8)}
    save_file(tensors, tmp_path / "source", metadata={"format": "pt"})
    convert.align(tmp_path / "source", tmp_path / "target")
    got = load_file(tmp_path / "target")
    assert got.keys() == tensors.keys()
    assert all(torch.equal(got[key], tensors[key]) for key in tensors)
    assert [got[key].data_ptr() % convert.ALIGNMENT for key in tensors] == [0, 0]
    with safe_open(tmp_path / "target", "pt") as file:
        assert file.metadata() == {"format": "pt"}
    assert not (tmp_path / "source").exists()
