"""Kernel builds on disk: find one for a repo id and bind its bytes to a digest, without running any of its code.

A repo id or a path only says where to look. What a build *is* are the names and bytes of one variant folder.
"""

from __future__ import annotations

import importlib
import inspect
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pytest_frt.contracts.record import FileDigest, KernelFacts
from pytest_frt.errors import FrtError, KernelUnavailable, SpecError
from pytest_frt.seat import compiled, noarch
from pytest_frt.seat.noarch import METADATA_FILE, Project, read_project
from pytest_frt.spec import packages
from pytest_frt.spec.hub_cache import COMMIT
from pytest_frt.spec.plain import read_plain
from pytest_frt.spec.tree import tree_digest, tree_files

OWN_PACKAGE: Final = "pytest_frt.csrc"
_NO_LOCAL: Final[Mapping[str, Path]] = MappingProxyType({})


class KernelRefused(FrtError):
    """A build that must not be imported, or whose import reached outside its own folder."""

    code = "KERNEL_REFUSED"


@dataclass(frozen=True, slots=True)
class KernelBuild:
    """One variant folder, read but not imported.

    Attributes:
        folder: Absolute path of the variant folder.
        id: ``metadata.json``'s id: the name of the module and of its op namespace.
        version: Kernel version.
        backend: Backend type, e.g. ``cpu``.
        files: Every file with its sha256, bytecode left by an installer excluded.
        facts: What a record states.
    """

    folder: Path
    id: str
    version: int
    backend: str
    files: tuple[FileDigest, ...]
    facts: KernelFacts


@dataclass(frozen=True, slots=True)
class HubPin:
    """Which published build to take.

    Attributes:
        pin: A commit of 40 hex digits, or an integer version, whose newest commit is taken.
        into: Folder the build is copied into: the client's cache holds links, which a digest cannot bind.
        trust_remote_code: Passed to clients that check publishers.
    """

    pin: str | int
    into: Path
    trust_remote_code: bool = False


def resolve(
    repo: str,
    *,
    override: Path | None = None,
    local: Mapping[str, Path] = _NO_LOCAL,
    pin: HubPin | None = None,
    backend: str | None = None,
) -> KernelBuild:
    """Find the build of a kernel that serves this machine, without importing it.

    The first of these that is given decides: ``override``, the repo's entry in ``local``, our own ``csrc``, ``pin``.

    Args:
        repo: Repo id an impl declares, e.g. ``pytest-frt/frt-cpu``.
        override: A kernel project, build or variant folder to use whatever ``repo`` says.
        local: Repo id to such a folder.
        pin: Published build to fall back on; the client may download it.
        backend: ``cpu`` or the backend of this torch build; None lets the client choose.

    Raises:
        KernelUnavailable: there is no such kernel here, or no build of it serves this machine, or ours was built of
            other sources than it has now.
        KernelRefused: the build's metadata cannot be used.
        TreeInvalid: the build holds links, bytecode, special files or odd names.
    """
    if (chosen := override or local.get(repo)) is not None:
        return read_build(repo, chosen, backend=backend)
    if (own := _own_project(repo)) is not None:
        return _read_own(own, backend)
    if pin is None:
        raise KernelUnavailable(
            f"kernel {repo} is not at hand: no local folder is given for it and no revision is pinned",
            hint="give a build with --frt-kernel=PATH",
        )
    return _fetch(repo, pin, backend=backend)


def read_build(repo: str, path: Path, *, backend: str | None = None, revision: str = "") -> KernelBuild:
    """Read the variant of a local kernel that serves this machine.

    Args:
        repo: Repo id the build is used for; a claim.
        path: Kernel project, ``build`` folder or variant folder.
        backend: As for :func:`resolve`.
        revision: Commit the build came from; a claim. Empty for a local build, whose tree digest stands in for it.

    Raises:
        KernelUnavailable: no such folder, or no variant in it serves this machine.
        KernelRefused: the metadata cannot be used.
        TreeInvalid: as for :func:`resolve`.
    """
    folder = variant_folder(path.resolve(), backend)
    if (inner := variant_folder(folder, backend)) != folder:
        raise KernelRefused(f"{folder} holds another build, {inner.name}: the client would load that one")
    # Installers compile what they install, so our own folder may hold bytecode; the import below reads none.
    files = tree_files(folder, leave_bytecode=is_own(folder))
    metadata = _metadata(folder)
    digest = tree_digest(files)
    facts = KernelFacts(repo=repo, revision=revision or digest, variant=folder.name, tree_digest=digest)
    return KernelBuild(folder, metadata["id"], metadata["version"], metadata["backend"]["type"], files, facts)


def variant_folder(path: Path, backend: str | None) -> Path:
    """Return the variant of a kernel project, ``build`` folder or variant folder that serves this machine.

    Raises:
        KernelUnavailable: none does, with the reason of each.
    """
    variants = importlib.import_module("kernels.variants")
    trace: list[Any] = []
    for base in (path, path / "build"):
        try:
            found, decisions = variants.resolve_variant(variants.get_variants_local(base), backend)
        except ValueError as fault:
            raise KernelUnavailable(f"kernel in {path}: {fault}", hint="ask for the backend of this machine") from fault
        if found is not None:
            return base / str(found.variant_str)
        trace += decisions
    if (path / METADATA_FILE).is_file():
        return path
    reasons = variants.variants_trace_str(trace) if trace else "it holds no build"
    raise KernelUnavailable(f"no build in {path} serves this machine: {reasons}", hint="build the kernel for it")


def _metadata(folder: Path) -> dict[str, Any]:
    file = folder / METADATA_FILE
    try:
        metadata = json.loads(read_plain(file))
        sound = isinstance(metadata["id"], str) and isinstance(metadata["version"], int)
        sound = sound and isinstance(metadata["backend"]["type"], str)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as fault:
        raise KernelRefused(f"{file} cannot be read: {fault!r}", hint="build the kernel again") from fault
    if not sound:
        raise KernelRefused(f"{file}: id and backend.type must be strings, version an integer")
    if depends := metadata.get("kernel-depends"):
        raise KernelRefused(f"{file} needs other kernels ({depends}): one build is certified and loaded at a time")
    return dict(metadata)


def _own_folder() -> Path:
    return packages.package_folder(OWN_PACKAGE).resolve()


def is_own(folder: Path) -> bool:
    """Return whether a folder lies in the kernel projects of this distribution."""
    return folder.is_relative_to(_own_folder())


def own_projects() -> tuple[Project, ...]:
    """Return the kernel projects of this distribution, by folder name."""
    return tuple(read_project(file.parent) for file in sorted(_own_folder().glob("*/build.toml")))


def _own_project(repo: str) -> Project | None:
    return next((project for project in own_projects() if project.repo == repo), None)


def _read_own(project: Project, backend: str | None) -> KernelBuild:
    command = f"frt build csrc/{project.folder.name}"
    try:
        build = read_build(project.repo, project.folder, backend=backend)
    except KernelUnavailable as absent:
        if backend is not None and backend not in project.backends:
            raise
        built = any((project.folder / "build").glob(f"*/{METADATA_FILE}"))
        said = absent.message if built else f"kernel {project.repo} is not built"
        raise KernelUnavailable(f"{said}: run {command}", hint=command) from absent
    wanted = compiled.sources_id(project) if project.compiled else noarch.build_id(project)
    if not build.id.startswith(wanted):
        said = f"kernel {project.repo} was built of other sources: its id is {build.id}, not {wanted}"
        raise KernelUnavailable(f"{said}: run {command}", hint=command)
    return build


def _fetch(repo: str, hub: HubPin, *, backend: str | None) -> KernelBuild:
    if isinstance(hub.pin, str) and not COMMIT.fullmatch(hub.pin):
        raise SpecError(f"kernel {repo} is pinned to {hub.pin!r}: a pin is an integer version or 40 hex digits")
    install = importlib.import_module("kernels").install_kernel
    revision = hub.pin if isinstance(hub.pin, str) else f"v{hub.pin}"
    offline: bool = importlib.import_module("huggingface_hub.constants").HF_HUB_OFFLINE
    options: dict[str, object] = {"revision": revision, "backend": backend, "local_files_only": offline}
    if "trust_remote_code" in inspect.signature(install).parameters:
        options["trust_remote_code"] = hub.trust_remote_code
    try:
        variant = Path(install(repo, **options))
    except (OSError, ValueError) as fault:  # not found, no build for this machine, no network, publisher not trusted
        raise KernelUnavailable(
            f"kernel {repo} at {hub.pin}: {fault}", hint="give a build with --frt-kernel=PATH"
        ) from fault
    commit = variant.parent.parent.name  # .../snapshots/<commit>/build/<variant>
    copy = hub.into / variant.name
    shutil.copytree(variant, copy, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    return read_build(repo, copy, backend=backend, revision=commit if COMMIT.fullmatch(commit) else "")
