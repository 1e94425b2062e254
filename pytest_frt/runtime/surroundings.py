"""What surrounds a kernel that is about to be loaded: overrides, compile caches, and libraries that are mapped already.

Certified bytes run beside all of these. A cache that others may write to hands compiled code of theirs to a certified
source; a library that is mapped already answers in place of a verified copy of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from pytest_frt.errors import CertificateRefused
from pytest_frt.seat.identity import IdentityRefused
from pytest_frt.seat.jit_caches import EXTENSIONS, jit_caches
from pytest_frt.seat.kernel_build import KernelBuild
from pytest_frt.spec.hub_cache import local_kernels

VARIABLE: Final = "LOCAL_KERNELS"
MAPS: Final = Path("/proc/self/maps")
MAX_CACHE_ENTRIES: Final = 200_000
"""Files of one cache that are looked at: about two seconds."""
_SHOWN: Final = 120
"""Characters of a folder that cannot be used."""
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_ENTER: Final = stat.S_IXGRP | stat.S_IXOTH
_MAP_FIELDS: Final = 6
"""Address, permissions, offset, device, inode, path: the fields of a line of ``maps`` that names a file."""


def check_overrides(repo: str, environ: Mapping[str, str]) -> None:
    """Refuse when ``LOCAL_KERNELS`` names the repo, or a pattern of it: code may ask the client for it by name.

    Raises:
        CertificateRefused: ``LOCAL_KERNELS``; also for a value that the client cannot read and would stop at.
    """
    value = environ.get(VARIABLE)
    if value is not None and not all("=" in entry for entry in value.split(":")):
        message = f"the environment sets {VARIABLE} to {value!r}, which is no list of repo=folder"
        raise CertificateRefused("LOCAL_KERNELS", message, hint=f"unset {VARIABLE}")
    for name in local_kernels(environ):
        if fnmatchcase(repo.lower(), name.strip().lower()):
            raise CertificateRefused(
                "LOCAL_KERNELS",
                f"{VARIABLE} overrides {name} with a local folder, and {repo} is to run as certified",
                hint=f"unset {VARIABLE}; give a local build of a certified kernel to attach(kernels=...)",
            )


def check_libraries(build: KernelBuild, origin: Path) -> None:
    """Refuse when a file of the build is mapped already: the loader would hand out that one, and its ops are taken.

    Args:
        build: The private copy.
        origin: The folder it was copied from.

    Raises:
        IdentityRefused: ``LIBRARY_LOADED``.
    """
    inodes, paths = _mapped()
    for folder in (origin, build.folder):
        for file in build.files:
            path = folder / file.name
            try:
                facts = path.stat()
            except OSError:  # gone since it was copied: nothing there can be loaded
                continue
            # Where file systems are stacked, maps shows the inode of a lower one: the path is compared as well.
            if (facts.st_dev, facts.st_ino) in inodes or os.path.realpath(path) in paths:
                raise IdentityRefused(
                    "LIBRARY_LOADED",
                    f"{path} of kernel {build.facts.repo} is loaded already, not by this runtime",
                    hint="attach in a fresh process, before anything else loads this kernel",
                )


def _mapped() -> tuple[set[tuple[int, int]], set[str]]:
    """Return device and inode, and the paths, of all files that this process has mapped; empty without ``/proc``."""
    inodes: set[tuple[int, int]] = set()
    paths: set[str] = set()
    try:
        lines = MAPS.read_text(errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return inodes, paths
    for line in lines:
        fields = line.split(maxsplit=_MAP_FIELDS - 1)
        if len(fields) == _MAP_FIELDS and fields[4] != "0":
            major, _, minor = fields[3].partition(":")
            inodes.add((os.makedev(int(major, 16), int(minor, 16)), int(fields[4])))
            paths.add(fields[5])
    return inodes, paths


def check_jit_caches(build: KernelBuild, environ: Mapping[str, str]) -> None:
    """Refuse when compiled code could come from a cache instead of from certified bytes.

    Raises:
        CertificateRefused: ``JIT_CACHE`` for a cache that another user owns or can write to, wholly or in part, and
            for one that is no folder or cannot be looked at; ``JIT_STALE`` for an extension of the build's name that
            was compiled earlier.
    """
    caches = jit_caches(environ)
    for variable, folder in caches.items():
        try:
            if os.path.lexists(folder):
                _check_cache(variable, folder)
            else:
                _check_absent(variable, folder)
        except (OSError, ValueError) as fault:
            raise _unusable(variable, folder, f"cannot be looked at: {fault}") from fault
    names = {build.id} | {_stem(file.name) for file in build.files if ".so" in file.name}
    for stale in _extensions(caches[EXTENSIONS], names):
        raise CertificateRefused(
            "JIT_STALE",
            f"{stale} was compiled earlier under a name of kernel {build.facts.repo} and could run in its place",
            hint=f"remove it, or name an empty folder in {EXTENSIONS}",
        )


def _stem(name: str) -> str:
    return name.rpartition("/")[2].partition(".")[0]


def _extensions(root: Path, names: Iterable[str]) -> Iterator[Path]:
    # One level more stands for the Python and the accelerator when the folder is the default one.
    for name in sorted(names):
        yield from (path for path in (root / name, *sorted(root.glob(f"*/{name}"))) if path.is_dir())


def _check_absent(variable: str, folder: Path) -> None:
    try:
        folder.lstat()  # tells absent from what can never be a folder, which a test for existence does not
    except FileNotFoundError:
        return
    except NotADirectoryError as fault:
        raise _unusable(variable, folder, "lies below a file") from fault


def _check_cache(variable: str, folder: Path) -> None:
    real = Path(os.path.realpath(folder, strict=True))
    if not real.is_dir():
        raise _unusable(variable, folder, "is no folder")
    open_to_others = True
    for above in reversed(real.parents):
        facts = above.stat()
        # In a sticky folder others cannot rename or replace what is not theirs.
        if fault := _fault(facts, writable=not facts.st_mode & stat.S_ISVTX):
            raise _unsafe(variable, folder, f"lies in {above}, which {fault}")
        open_to_others = open_to_others and bool(facts.st_mode & _OTHERS_ENTER)
    for number, (path, facts) in enumerate(_entries(real)):
        if number == MAX_CACHE_ENTRIES:
            raise _unsafe(variable, folder, f"holds more than {MAX_CACHE_ENTRIES} files, too many to look at")
        link = stat.S_ISLNK(facts.st_mode)
        if fault := _fault(facts, writable=open_to_others and not link):
            raise _unsafe(variable, folder, f"holds {path}, which {fault}" if path != real else fault)


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    yield folder, folder.stat()
    todo = [folder]
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    yield Path(entry.path), entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(Path(entry.path))
        except FileNotFoundError:  # a compiler of this user removed it meanwhile
            continue


def _fault(facts: os.stat_result, *, writable: bool) -> str:
    if facts.st_uid not in {os.geteuid(), 0}:
        return f"belongs to uid {facts.st_uid}"
    mode = stat.S_IMODE(facts.st_mode)
    return f"has mode {mode:04o}, open to others" if writable and mode & _OTHERS_WRITE else ""


def _unusable(variable: str, folder: Path, what: str) -> CertificateRefused:
    return CertificateRefused(
        "JIT_CACHE", f"the compile cache {str(folder)[:_SHOWN]} {what}", hint=f"name a folder of your own in {variable}"
    )


def _unsafe(variable: str, folder: Path, what: str) -> CertificateRefused:
    return CertificateRefused(
        "JIT_CACHE",
        f"the compile cache {folder} {what}: code of others could run in place of what is certified",
        hint=f"chmod -R go-w {folder} if all of it is yours, or name a folder of your own in {variable}",
    )
