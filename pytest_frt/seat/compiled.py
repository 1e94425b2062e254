"""Build a compiled CPU kernel project with the compiler of this machine, over the part of torch that keeps its ABI.

A build is named by what went into it: first the project, then flags and the releases of the compiler and of torch's
headers. No machine path enters the binary, so the same inputs give the same bytes in any folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from pytest_frt.errors import FrtError, KernelUnavailable, SpecError
from pytest_frt.seat.noarch import ID_DIGITS, Project, replacing, write_python
from pytest_frt.spec.tree import tree_digest, tree_files

COMPILERS: Final = ("g++", "c++")
STANDARD_FLAGS: Final = ("-std=c++17", "-fPIC", "-shared", "-fvisibility=hidden", "-w")
LIBRARIES: Final = ("-ltorch", "-ltorch_cpu", "-lc10")
PYTHON_ABI: Final = "0x03090000"
BUILDS: Final = "build/"
SHOWN: Final = 20
"""Lines of a compiler's complaint that a message shows."""

_REGISTRATION: Final = """// Written by the builder: what makes the library an importable module.
#pragma once
#include <Python.h>
#define FRT_JOINED(a, b) a##b
#define FRT_TEXT(a) #a
#define FRT_EXTENSION(init, text)                                                                 \\
  PyMODINIT_FUNC init(void) {                                                                     \\
    static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, text, nullptr, 0, nullptr};        \\
    return PyModule_Create(&module);                                                              \\
  }
#define REGISTER_EXTENSION(name) FRT_EXTENSION(FRT_JOINED(PyInit_, name), FRT_TEXT(name))
"""


class BuildFailed(FrtError):
    """The compiler refused a kernel's sources, or could not be run."""

    code = "BUILD"


@dataclass(frozen=True, slots=True)
class CompiledProject:
    """A kernel project of C++ sources.

    Attributes:
        project: What its build.toml says of it.
        abi: Release of torch whose stable ABI it is built over, e.g. ``(2, 11)``.
        sources: Files that are compiled, relative to the project.
        includes: Folders that sources include from, relative to the project.
        flags: The project's own flags.
    """

    project: Project
    abi: tuple[int, int]
    sources: tuple[str, ...]
    includes: tuple[str, ...]
    flags: tuple[str, ...]

    @property
    def variant(self) -> str:
        """Name of the build's folder on this machine."""
        release = "".join(map(str, self.abi))
        return f"torch-stable-abi{release}-cpu-{platform.machine().lower()}-{platform.system().lower()}"


def read_compiled(project: Project) -> CompiledProject:
    """Read what ``build.toml`` says of how a CPU project is compiled.

    Raises:
        SpecError: it names no CPU kernel over the stable ABI, or sources outside the project.
    """
    document, file = project.document, project.folder / "build.toml"
    try:
        abi = tuple(map(int, str(document["torch"]["stable-abi"]["cpu"]).split(".")))
        parts = [document["torch"], *(part for part in document["kernel"].values() if part["backend"] == "cpu")]
        named = [str(name) for part in parts for name in part["src"]]
        includes = tuple(str(name) for part in parts for name in part.get("include", ()))
        flags = tuple(str(flag) for part in parts for flag in part.get("cxx-flags", ()))
        major, minor = abi
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise SpecError(
            f"{file} describes no CPU kernel over torch's stable ABI: {fault!r}",
            hint='it needs [torch] src, [torch.stable-abi] cpu = "2.11" and one [kernel.NAME] with backend = "cpu"',
        ) from fault
    held = {one.name for one in tree_files(project.folder, leave_bytecode=True)}
    if strange := sorted(set(named) - held):
        raise SpecError(f"{file} names {strange[0]} as a source, the project has no such file", hint="correct src")
    sources = tuple(sorted(name for name in named if name.endswith((".cpp", ".cc", ".c"))))
    return CompiledProject(project, (major, minor), sources, includes, flags)


def find_compiler(asked: str = "") -> Path:
    """Return the compiler to use.

    Args:
        asked: Name or path of one; empty takes the first of ``COMPILERS`` that is installed.

    Raises:
        KernelUnavailable: there is none.
    """
    for name in (asked,) if asked else COMPILERS:
        if found := shutil.which(name):
            return Path(found)
    what = f"the compiler {asked} is not" if asked else f"none of the compilers {', '.join(COMPILERS)} is"
    raise KernelUnavailable(
        f"{what} installed: a compiled kernel cannot be built",
        hint="install g++ 9 or newer (apt-get install g++), or name another with --compiler=PATH",
    )


def sources_id(project: Project) -> str:
    """Return what the id of a build begins with, whatever compiled it.

    Raises:
        TreeInvalid: the project holds a link or an odd name.
    """
    files = tree_files(project.folder, leave_bytecode=True)
    digest = tree_digest([one for one in files if not one.name.startswith(BUILDS) and not one.name.endswith(".md")])
    return f"_{project.sources.name}_cpu_{digest[:ID_DIGITS]}_"


def build_id(compiled: CompiledProject, compiler: Path) -> str:
    """Return the id that a build by this compiler has: the name of its module and of its ops.

    Raises:
        BuildFailed: the compiler cannot be run.
        TreeInvalid: the project holds a link or an odd name.
    """
    said = _run([str(compiler), "--version"], compiled.project.folder).partition("\n")[0]
    tools = "\0".join((said, metadata.version("torch"), *STANDARD_FLAGS))
    return sources_id(compiled.project) + hashlib.sha256(tools.encode()).hexdigest()[:ID_DIGITS]


def build_compiled(compiled: CompiledProject, out: Path, compiler: Path) -> Path:
    """Compile a project and write its variant folder into ``out``, in place of one of the same name.

    Args:
        compiled: What to build.
        out: The ``build`` folder.
        compiler: From :func:`find_compiler`.

    Returns:
        The variant folder.

    Raises:
        BuildFailed: the compiler refused; what was there before stays.
        KernelUnavailable: the headers of torch or Python are not installed.
        SpecError: the sources hold a file that the builder writes.
        TreeInvalid: the project holds a link or an odd name.
    """
    name = build_id(compiled, compiler)
    variant = out / compiled.variant
    with replacing(variant) as fresh, tempfile.TemporaryDirectory() as headers:
        Path(headers, "registration.h").write_text(_REGISTRATION, encoding="utf-8")
        write_python(compiled.project, fresh, name, "cpu", library=f"\nfrom . import {name}\n")
        _run(_command(compiled, name, compiler, Path(headers), fresh / f"{name}.abi3.so"), compiled.project.folder)
    return variant


def _command(compiled: CompiledProject, name: str, compiler: Path, headers: Path, library: Path) -> list[str]:
    torch, python = _torch_folder(), Path(sysconfig.get_paths()["include"])
    for header, package in ((python / "Python.h", "python3-dev"), (torch / "include/torch/csrc/stable/ops.h", "torch")):
        if not header.is_file():
            raise KernelUnavailable(
                f"the header {header} is not installed: a compiled kernel cannot be built", hint=f"install {package}"
            )
    major, minor = compiled.abi
    defines = {
        "TORCH_TARGET_VERSION": f"0x{major:02x}{minor:02x}{0:012x}",
        "Py_LIMITED_API": PYTHON_ABI,
        "TORCH_EXTENSION_NAME": name,
    }
    return [
        str(compiler),
        *STANDARD_FLAGS,
        *compiled.flags,
        *(f"-D{key}={value}" for key, value in defines.items()),
        *(f"-I{folder}" for folder in (*compiled.includes, headers)),
        *(word for folder in (torch / "include", python) for word in ("-isystem", str(folder))),
        *(f"-ffile-prefix-map={folder}={alias}" for folder, alias in ((torch, "torch"), (headers, "builder"))),
        *compiled.sources,
        "-o",
        str(library),
        f"-L{torch / 'lib'}",
        *LIBRARIES,
    ]


def _torch_folder() -> Path:
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise KernelUnavailable(
            "torch is not installed: its headers are what a kernel is built over", hint="install it"
        )
    return Path(spec.submodule_search_locations[0])


def _run(command: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603 (a list of arguments, no shell)
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as fault:
        raise BuildFailed(f"{command[0]} cannot be run: {fault.strerror}", hint="name another compiler") from fault
    if done.returncode:
        said = "\n  ".join((done.stderr or done.stdout).splitlines()[:SHOWN])
        raise BuildFailed(
            f"{command[0]} left with exit status {done.returncode} in {folder}:\n  {said}",
            hint="correct the sources, or name another compiler with --compiler=PATH",
        )
    return done.stdout
