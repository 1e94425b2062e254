"""A class is its source's when its code is: names, line numbers, wrappers and copies do not pass for it."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers.activations
from torch import nn
from transformers import AutoModel, BertConfig, Gemma3TextConfig, Qwen3Config
from transformers.modeling_utils import PreTrainedModel

from pytest_frt.seat.genuine import why_not_its_source, why_not_itself
from pytest_frt.spec.modules import load_file

SOURCE = """
import functools
import torch
from torch import nn

def doubled(method):
    @functools.wraps(method)
    def wrapper(self, x):
        return method(self, x) * 2
    return wrapper

class Base(nn.Module):
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.forward = doubled(cls.forward)
    def help(self, x):
        return x + 1

class Plain(nn.Module):
    def forward(self, x):
        return x
    @property
    def scale(self):
        return 1
    @staticmethod
    def part(x):
        return x

class Decorated(nn.Module):
    @doubled
    @torch.no_grad()
    def forward(self, x):
        return x

class Wrapped(Base):
    def forward(self, x):
        return self.help(x)

def local():
    class Inner(Plain):
        def forward(self, x):
            return super().forward(x)
    return Inner

Local = local()
"""


@pytest.fixture
def file(tmp_path: Path) -> types.ModuleType:
    path = tmp_path / "classes.py"
    path.write_text(SOURCE)
    return load_file(path)


@pytest.mark.parametrize("name", ["Plain", "Decorated", "Wrapped", "Base", "Local"])
def test_class_as_written(file: types.ModuleType, name: str) -> None:
    assert why_not_its_source(getattr(file, name)) == ""


def other(_self: nn.Module, x: Any) -> Any:
    return x


def same_lines(kind: type) -> Any:
    """Return another method with the name, the file and the line of the class's own."""
    own = kind.forward.__code__  # type: ignore[attr-defined]
    names = {"co_filename": own.co_filename, "co_qualname": own.co_qualname, "co_name": own.co_name}
    code = compile("def forward(self, x):\n    return x * 0\n", own.co_filename, "exec").co_consts[0]
    return types.FunctionType(code.replace(co_firstlineno=own.co_firstlineno, **names), {})


PATCHES: dict[str, tuple[str, Callable[[Any], tuple[str, Any]]]] = {
    "another function": ("Plain", lambda _: ("forward", other)),
    "wrapped": ("Plain", lambda kind: ("forward", functools.wraps(kind.forward)(other))),
    "copied names": ("Plain", lambda kind: ("forward", same_lines(kind))),
    "partial": ("Plain", lambda _: ("forward", functools.partialmethod(other))),
    "one wrapper more": ("Decorated", lambda kind: ("forward", functools.wraps(kind.forward)(other))),
    "property": ("Plain", lambda _: ("scale", property(other))),
    "static": ("Plain", lambda _: ("part", staticmethod(other))),
    "call": ("Plain", lambda _: ("__call__", other)),
    "wrapped beside its base": ("Wrapped", lambda kind: ("forward", functools.wraps(kind.forward)(other))),
    "method of a local class": ("Local", lambda _: ("forward", other)),
}


@pytest.mark.parametrize("patch", PATCHES)
def test_patched_class(file: types.ModuleType, patch: str) -> None:
    name, build = PATCHES[patch]
    kind = getattr(file, name)
    setattr(kind, *build(kind))
    assert "its source" in why_not_its_source(kind)


def test_patched_base(file: types.ModuleType) -> None:
    file.Base.help = other
    assert why_not_its_source(file.Wrapped) == "help of Base is not what its source defines"


def test_code_exchanged_in_place(file: types.ModuleType) -> None:
    file.Plain.forward.__code__ = other.__code__
    assert why_not_its_source(file.Plain) == "forward of Plain is not what its source defines"


def test_name_of_another_class(file: types.ModuleType) -> None:
    twin = type("Plain", (file.Plain,), {"__module__": file.__name__})
    assert why_not_its_source(twin) == f"another class is called {file.__name__}.Plain"


def kinds(module: types.ModuleType) -> list[Any]:
    return [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, nn.Module)]


@pytest.mark.parametrize("kind", [*kinds(torch.nn.modules), *kinds(transformers.activations)], ids=str)
def test_layers_of_libraries_are_themselves(kind: type[nn.Module]) -> None:
    assert why_not_its_source(kind) == ""


SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 9}
GROUPS = SIZES | {"num_key_value_heads": 2, "head_dim": 16, "pad_token_id": 0}


@pytest.mark.parametrize("config", [BertConfig(**SIZES), Qwen3Config(**GROUPS), Gemma3TextConfig(**GROUPS)], ids=type)
def test_modules_of_real_hosts_are_themselves(config: Any) -> None:
    model = AutoModel.from_config(config)
    model(torch.tensor([[1, 2]]))  # a library may change its modules on a first call
    parts = [part for part in model.modules() if not isinstance(part, PreTrainedModel)]
    assert [why for part in parts if (why := why_not_itself(part) or why_not_its_source(type(part)))] == []
