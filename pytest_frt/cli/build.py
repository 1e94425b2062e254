"""``frt build PROJECT``: make a kernel of its sources, where the loader finds it."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_frt.errors import StorageFault, UsageFault
from pytest_frt.seat.compiled import build_compiled, find_compiler, read_compiled
from pytest_frt.seat.kernel_build import own_projects
from pytest_frt.seat.noarch import Project, build_noarch, read_project

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)


def add_commands(subparsers: Subparsers) -> None:
    """Register ``frt build``."""
    command = subparsers.add_parser("build", help="build a kernel project with the compiler of this machine")
    command.add_argument(
        "project", metavar="PROJECT", help="folder with a build.toml, or csrc/NAME of an installed one"
    )
    command.add_argument("--out", type=Path, help="folder for the build; PROJECT/build when left out")
    command.add_argument("--compiler", default="", help="C++ compiler; g++ or c++ when left out")
    command.set_defaults(func=build)


def build(args: argparse.Namespace) -> int:
    """Build every variant of a project and print its folder.

    Raises:
        UsageFault: there is no such project.
        StorageFault: the sources cannot be read, or the folder cannot be written.
    """
    project = _project(args.project)
    out = (args.out or project.folder / "build").resolve()
    started = time.monotonic()
    try:
        if project.compiled:
            found: tuple[Path, ...] = (build_compiled(read_compiled(project), out, find_compiler(args.compiler)),)
        else:
            found = build_noarch(project, out)
    except OSError as fault:
        raise StorageFault(
            f"{fault.filename or out} cannot be read or written: {fault.strerror}",
            hint="build elsewhere with --out=DIR, and give it to a run with --frt-kernel=DIR",
        ) from fault
    for variant in found:
        print(variant)
    use = f"; use it with --frt-kernel={out}" if args.out else ""
    print(f"{project.repo}: built in {time.monotonic() - started:.1f} s{use}")
    return 0


def _project(word: str) -> Project:
    """Return a project: on disk, or of this distribution by ``csrc/NAME`` or ``NAME``."""
    folder = Path(word)
    if (folder / "build.toml").is_file():
        return read_project(folder.resolve())
    own = own_projects()
    for project in own:
        if folder in {Path(project.folder.name), Path("csrc", project.folder.name)}:
            return project
    names = ", ".join(f"csrc/{project.folder.name}" for project in own)
    raise UsageFault(f"{word} holds no build.toml", hint=f"kernel projects of this distribution: {names}")
