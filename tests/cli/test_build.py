"""``frt build`` makes a loadable kernel of C++ sources, names what is missing, and leaves no half of a build."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.errors import KernelUnavailable, SpecError
from pytest_frt.seat import compiled, kernel_build, kernels
from pytest_frt.seat.noarch import read_project
from pytest_frt.spec.tree import tree_files

Frt = Callable[..., tuple[int, str, str]]

BUILD_TOML = """
[general]
name = "toy-{name}"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu"]
[general.hub]
repo-id = "acme/toy-{name}"
[torch]
src = ["torch-ext/torch_binding.cpp"]
[torch.stable-abi]
cpu = "2.11"
[kernel.toy]
backend = "cpu"
depends = ["torch"]
include = ["."]
src = ["toy/answer.h"]
cxx-flags = ["-O1"]
"""
NOARCH_TOML = BUILD_TOML.partition("[torch]")[0] + "[torch-noarch]\n"
BINDING = """
#include "registration.h"
#include "toy/answer.h"
extern "C" __attribute__((visibility("default"))) int answer() { return ANSWER; }
REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
"""
needs_compiler = pytest.mark.skipif(not any(map(shutil.which, compiled.COMPILERS)), reason="no C++ compiler")


def toy(folder: Path, name: str = "a", **files: str) -> Path:
    """Write a kernel project of one source; ``files`` replace the text of its files."""
    texts = {
        "build.toml": files.get("toml", BUILD_TOML.format(name=name)),
        "toy/answer.h": files.get("header", "#define ANSWER 42\n"),
        "torch-ext/torch_binding.cpp": files.get("binding", BINDING),
        f"torch-ext/toy_{name}/__init__.py": "from . import _ops\n\nops = _ops.ops\n",
    }
    for place, text in texts.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text)
    return folder


@needs_compiler
def test_build_loads_under_the_name_of_its_library(frt: Frt, tmp_path: Path) -> None:
    status, out, err = frt("build", toy(tmp_path / "p", "loads"))
    assert status == 0, err
    (variant,) = (tmp_path / "p" / "build").iterdir()
    assert out.splitlines()[0] == str(variant)
    name = json.loads((variant / "metadata.json").read_text())["id"]
    module = kernels.load_build(kernels.read_build("acme/toy-loads", tmp_path / "p", backend="cpu"))
    assert (module.__name__, Path(module._ops.__dict__[name].__file__).name) == (name, f"{name}.abi3.so")


@needs_compiler
def test_same_inputs_give_the_same_bytes_in_any_folder(frt: Frt, tmp_path: Path) -> None:
    for place in ("one", "another/deeper"):
        assert frt("build", toy(tmp_path / place), f"--out={tmp_path / place / 'out'}")[0] == 0
    one, another = (tree_files(tmp_path / place / "out") for place in ("one", "another/deeper"))
    assert one == another


@needs_compiler
@pytest.mark.parametrize(
    "change",
    [
        {"header": "#define ANSWER 43\n"},
        {"toml": BUILD_TOML.format(name="a").replace("-O1", "-O2")},
    ],
    ids=["header", "flag"],
)
def test_changed_input_changes_the_id(tmp_path: Path, change: dict[str, str]) -> None:
    compiler = compiled.find_compiler()
    before, after = (
        compiled.build_id(compiled.read_compiled(read_project(toy(tmp_path / place, **files))), compiler)
        for place, files in (("before", {}), ("after", change))
    )
    assert before != after


@needs_compiler
def test_refused_source_shows_what_the_compiler_said_and_keeps_the_last_build(frt: Frt, tmp_path: Path) -> None:
    project = toy(tmp_path / "p")
    assert frt("build", project)[0] == 0
    before = tree_files(project / "build")
    toy(project, binding=BINDING + "int broken( { }\n")
    status, _, err = frt("build", project)
    assert status == 1
    assert "torch_binding.cpp:6" in err
    assert tree_files(project / "build") == before


def test_absent_compiler_is_named_with_the_next_step(frt: Frt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    status, _, err = frt("build", toy(tmp_path / "p"))
    assert status == 1
    assert "none of the compilers g++, c++ is installed" in err
    assert "next: install g++" in err
    assert not (tmp_path / "p" / "build").exists()


def test_compiler_that_was_asked_for_and_is_absent_is_named(frt: Frt, tmp_path: Path) -> None:
    status, _, err = frt("build", toy(tmp_path / "p"), "--compiler=nowhere++")
    assert status == 1
    assert "the compiler nowhere++ is not installed" in err


def test_absent_header_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled.sysconfig, "get_paths", lambda: {"include": str(tmp_path / "none")})
    project = compiled.read_compiled(read_project(toy(tmp_path / "p")))
    with pytest.raises(KernelUnavailable, match=r"none/Python\.h is not installed") as caught:
        compiled.build_compiled(project, tmp_path / "out", Path(shutil.which("true") or ""))
    assert caught.value.hint == "install python3-dev"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("torch-ext/torch_binding.cpp", "../outside.cpp", r"names \.\./outside\.cpp as a source"),
        ('cpu = "2.11"', "", "describes no CPU kernel over torch's stable ABI"),
        ('cpu = "2.11"', 'cpu = "two"', "describes no CPU kernel"),
        ("[torch]", "[odd]", "describes no CPU kernel"),
    ],
    ids=["source_outside", "no_abi", "odd_abi", "neither_kind"],
)
def test_project_that_cannot_be_built_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    project = read_project(toy(tmp_path / "p", toml=BUILD_TOML.format(name="a").replace(old, new)))
    (tmp_path / "outside.cpp").touch()
    with pytest.raises(SpecError, match=words):
        compiled.read_compiled(project)


@pytest.mark.parametrize("word", ["csrc/nowhere", "elsewhere/frt_cpu"])
def test_unknown_project_lists_the_known_ones(frt: Frt, word: str) -> None:
    status, _, err = frt("build", word)
    assert status == 4
    assert "csrc/frt_cpu, csrc/frt_scaled, csrc/w8a16_gemv" in err


def test_installed_project_is_found_by_name_from_anywhere(frt: Frt, tmp_path: Path) -> None:
    status, out, _ = frt("build", "csrc/frt_cpu", f"--out={tmp_path / 'out'}")
    assert status == 0
    assert f"use it with --frt-kernel={tmp_path / 'out'}" in out
    assert (tmp_path / "out" / "torch-cpu" / "metadata.json").is_file()


def test_folder_that_cannot_be_written_is_named(frt: Frt, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    status, _, err = frt("build", "csrc/frt_cpu", f"--out={tmp_path / 'file' / 'out'}")
    assert status != 0
    assert f"{tmp_path / 'file' / 'out'} cannot be read or written" in err


@needs_compiler
@pytest.mark.parametrize("toml", [BUILD_TOML, NOARCH_TOML], ids=["compiled", "noarch"])
def test_build_of_other_sources_is_refused(
    frt: Frt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toml: str
) -> None:
    project = toy(tmp_path / "toy_a", toml=toml.format(name="a"))
    assert frt("build", project)[0] == 0
    monkeypatch.setattr(kernel_build, "_own_folder", lambda: tmp_path)
    assert kernel_build.resolve("acme/toy-a", backend="cpu").facts.repo == "acme/toy-a"
    (project / "torch-ext" / "toy_a" / "more.py").touch()
    with pytest.raises(KernelUnavailable, match=r"was built of other sources: its id is .*: run frt build csrc/toy_a$"):
        kernel_build.resolve("acme/toy-a", backend="cpu")


def test_kernel_that_is_not_built_says_how_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy(tmp_path / "toy_a")
    monkeypatch.setattr(kernel_build, "_own_folder", lambda: tmp_path)
    with pytest.raises(KernelUnavailable, match=r"^kernel acme/toy-a is not built: run frt build csrc/toy_a$"):
        kernel_build.resolve("acme/toy-a", backend="cpu")


def test_no_build_is_promised_for_another_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy(tmp_path / "toy_a")
    monkeypatch.setattr(kernel_build, "_own_folder", lambda: tmp_path)
    with pytest.raises(KernelUnavailable) as caught:
        kernel_build.resolve("acme/toy-a", backend="cuda")
    assert "frt build" not in caught.value.message
