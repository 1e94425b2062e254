"""Whatever certified code raises or returns, attach refuses it with a code and leaves the model as it was."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt import registry
from pytest_frt.errors import CertificateRefused, SwapRefused
from pytest_frt.runtime import foreign, host, imports, prepare, sealed
from pytest_frt.seat import bind, jit_caches, kernels

if TYPE_CHECKING:
    from tests.runtime.conftest import World

HOST, IMPL, KERNEL = "hosts/toy/host.py", "impls/toy_ffn/toy.py", "kernel/build/torch-cpu/inner.py"
IN_HOST, IN_BIND, IN_CALL = "    return {name", "    return Bound(seat", "        answer: Tensor ="
TOP = "from torch import"
RETURN_BAD_MODE = """    import torch
    class BadMode(torch.nn.Module):
        def eval(self):
            raise OSError('no mode')
    return BadMode()
"""

FAULTS: dict[str, tuple[str, str, str, str, str]] = {
    "host lacks a key": (HOST, IN_HOST, "    raise KeyError('rope')\n", "HOST", "KeyError: 'rope'"),
    "host meets None": (HOST, IN_HOST, "    model = None\n", "HOST", "AttributeError"),
    "host type": (HOST, IN_HOST, "    len(None)\n", "HOST", "TypeError"),
    "host imports what is absent": (HOST, TOP, "import toy_nowhere\n", "HOST", "No module named 'toy_nowhere'"),
    "host imports an old name": (HOST, TOP, "from torch import not_there\n", "HOST", "ImportError"),
    "host projection no JSON": (HOST, IN_HOST, "    return {'a': object()}\n", "HOST", "not JSON serializable"),
    "host projection no mapping": (HOST, IN_HOST, "    return 7\n", "HOST", "AttributeError"),
    "host without projection": (HOST, IN_HOST, "    pass\ndef later(model):\n", "HOST", "AttributeError"),
    "impl name": (IMPL, "class Bound", "undefined_name\n", "LOAD", "NameError"),
    "impl raises": (IMPL, "class Bound", "raise RuntimeError('no AVX512')\n", "LOAD", "RuntimeError: no AVX512"),
    "impl deletes IMPL": (IMPL, "class Bound", "del globals()['IMPL']\n", "ROLE_FILE", "IMPL at run time is None"),
    "kernel raises": (KERNEL, "def ", "raise RuntimeError('boom')\n", "LOAD", "RuntimeError: boom"),
    "bind lacks an op": (IMPL, IN_BIND, "    kernel.absent_op\n", "BIND", "AttributeError"),
    "bind out of memory": (
        IMPL,
        IN_BIND,
        "    import torch\n    raise torch.OutOfMemoryError('x')\n",
        "BIND",
        "Memory",
    ),
    "bind gives a module that fails": (IMPL, IN_BIND, RETURN_BAD_MODE, "BIND", "OSError: no mode"),
    "bind gives nothing": (IMPL, IN_BIND, "    return None\n", "SPEC", "returned NoneType"),
    "call raises": (IMPL, IN_CALL, "        raise ValueError('illegal')\n", "SMOKE", "ValueError: illegal"),
    "call asserts": (IMPL, IN_CALL, "        assert x is None\n", "SMOKE", "AssertionError"),
    "call gives None": (IMPL, IN_CALL, "        return None\n", "SMOKE", "returned [<class 'NoneType'>]"),
    "call gives a number": (IMPL, IN_CALL, "        return (1,)\n", "SMOKE", "returned [<class 'int'>]"),
    "call gives text": (IMPL, IN_CALL, "        return 'x'\n", "SMOKE", "returned [<class 'str'>]"),
}


def insert(world: World, file: str, before: str, text: str) -> None:
    path = world.rename_kernel().root / file
    old = path.read_text()
    assert before in old
    path.write_text(old.replace(before, text + before, 1))
    world.certify()


@pytest.mark.parametrize(("file", "before", "text", "code", "words"), FAULTS.values(), ids=FAULTS)
def test_code_that_fails_is_refused_with_a_code(
    world: World, file: str, before: str, text: str, code: str, words: str
) -> None:
    insert(world, file, before, text)
    handle = world.attach()
    assert {one.code for one in handle.seats} == {code, "NOT_CERTIFIED"}, handle.explain()
    assert words in handle.explain()
    assert world.is_untouched()


@pytest.mark.parametrize(("file", "before"), [(HOST, IN_HOST), (IMPL, IN_BIND), (IMPL, IN_CALL)])
def test_what_ends_a_process_passes(world: World, file: str, before: str) -> None:
    indent = before[: len(before) - len(before.lstrip())]
    insert(world, file, before, f"{indent}raise SystemExit(3)\n")
    with pytest.raises(SystemExit):
        world.attach()
    assert world.is_untouched()


@pytest.mark.parametrize(
    "text", ["raise ValueError('later')", "raise SystemExit(3)"], ids=["then it fails", "then it ends"]
)
def test_bind_that_writes_to_the_model_is_an_error_however_it_ends(world: World, text: str) -> None:
    insert(world, IMPL, IN_BIND, f"    seat.weights['w_up'].zero_()\n    {text}\n")
    with pytest.raises(SwapRefused, match=r"wrote to w_up of seat blocks\.0"):
        world.attach()


def test_the_cause_is_kept_and_needs_no_text() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise ValueError

    fault = MuteError()
    with pytest.raises(CertificateRefused, match="MuteError") as caught, foreign.foreign("LOAD", "x"):
        raise fault
    assert (caught.value.__cause__, caught.value.refusal_code) == (fault, "LOAD")


@pytest.mark.parametrize(
    ("part", "name"), [(host, "host lacks a key"), (prepare, "impl raises"), (prepare, "call raises")]
)
def test_a_runtime_without_the_boundary_is_caught(
    world: World, monkeypatch: pytest.MonkeyPatch, part: object, name: str
) -> None:
    monkeypatch.setattr(part, "foreign", lambda *_, **__: contextlib.nullcontext())
    with pytest.raises((KeyError, RuntimeError, ValueError)):
        test_code_that_fails_is_refused_with_a_code(world, *FAULTS[name])


OURS = {
    "installed files": (registry, "impl_subjects"),
    "table of modules": (imports, "_files"),
    "names of modules": (imports, "_rename"),
    "sealing": (sealed, "seal_libraries"),
    "serving": (sealed, "_ops_from"),
    "client": (kernels, "_client"),
    "kernel again": (kernels, "_check_unchanged"),
    "kernel origin": (kernels, "check_origin"),
    "envelope": (bind, "envelope_faults"),
    "versions": (bind, "version_of"),
    "sizes": (bind, "evaluate"),
}
"""Steps of our own that stand beside calls of certified code."""


@pytest.mark.parametrize(("part", "name"), OURS.values(), ids=OURS)
def test_a_fault_of_ours_is_not_told_as_one_of_theirs(
    world: World, monkeypatch: pytest.MonkeyPatch, part: object, name: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise TypeError("a fault of ours")

    library = world.rename_kernel().kernel / "extra.so"  # something to seal
    library.write_bytes(b"\x7fELF")
    world.certify()
    monkeypatch.setattr(imports, "_LOADED", {})
    monkeypatch.setattr(part, name, broken)
    with pytest.raises(TypeError, match="a fault of ours"):
        world.attach()
    assert world.is_untouched()


def below_a_file(path: Path) -> Path:
    path.write_text("")
    return path / "below"


def made(make: Callable[[Path], object]) -> Callable[[Path], Path]:
    def place(path: Path) -> Path:
        make(path)
        return path

    return place


CACHES: dict[str, Callable[[Path], Path]] = {
    "dangling link": made(lambda path: path.symlink_to("/nowhere/a/b")),
    "link to itself": made(lambda path: path.symlink_to(path)),
    "plain file": made(lambda path: path.write_text("x")),
    "link to a file": made(lambda path: path.symlink_to(__file__)),
    "pipe": made(os.mkfifo),
    "name too long": lambda path: path.with_name("x" * 400),
    "path too long": lambda path: path / ("a/" * 4000),
    "below a file": below_a_file,
}


@pytest.mark.parametrize("variable", [jit_caches.TRITON, jit_caches.EXTENSIONS, jit_caches.INDUCTOR])
@pytest.mark.parametrize("cache", CACHES.values(), ids=CACHES)
def test_a_cache_that_is_no_folder_is_refused(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Callable[[Path], Path], variable: str
) -> None:
    world.rename_kernel().certify()
    monkeypatch.setenv(variable, str(cache(tmp_path / "cache")))
    handle = world.attach()
    assert {one.code for one in handle.seats} == {"JIT_CACHE", "NOT_CERTIFIED"}, handle.explain()
    assert variable in handle.explain()
    assert world.is_untouched()


def test_a_cache_that_is_absent_is_fine(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jit_caches.TRITON, str(tmp_path / "not" / "yet"))
    assert world.rename_kernel().certify().attach().active
