"""Which build each kernel of a run is: the one its impls name, or one that ``--frt-kernel`` puts in its place."""

from __future__ import annotations

import base64
import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from pytest_frt.contracts.record import FileDigest
from pytest_frt.errors import KernelMismatch, KernelUnavailable, UsageFault
from pytest_frt.registry import Registry
from pytest_frt.run.config import RunConfig
from pytest_frt.run.kernel_words import CachedRelease, KernelWord, LocalBuild
from pytest_frt.seat.kernel_build import KernelBuild, read_build, resolve, variant_folder
from pytest_frt.seat.noarch import METADATA_FILE
from pytest_frt.spec.hub_cache import copy_out, find_release

SHA256: Final = "sha256"
HASHES: Final = frozenset({SHA256, "sha512"})
"""The algorithms of digests in metadata; nothing is compared by a weaker one."""
_UNHASHED: Final = frozenset({METADATA_FILE, f"{METADATA_FILE}.sigstore"})


class Kernels:
    """Finds each kernel once: a build is read and hashed, and many cells share one.

    Args:
        asked: Builds asked for; empty takes the ones impls name.
        used: Repo ids that impls name.
        cache: The client's cache.
        copies: Where releases are copied to: a digest cannot bind the links of a cache.
        overridden: Repo ids that ``LOCAL_KERNELS`` names.

    Raises:
        UsageFault: a build belongs to no impl, two are given for one kernel, or the environment overrides one.
    """

    def __init__(
        self,
        asked: Sequence[KernelWord],
        *,
        used: Iterable[str],
        cache: Path,
        copies: Path,
        overridden: Iterable[str] = (),
    ) -> None:
        self._cache, self._copies = cache, copies
        self._chosen: dict[str, KernelWord] = {}
        self._found: dict[tuple[str, str], KernelBuild | KernelUnavailable] = {}
        self._seen: set[str] = set()
        self._needed: set[tuple[str, str]] = set()
        known, local = sorted(set(used)), set(overridden)
        for word in asked:
            repo = _repo_of(word, known)
            if repo in self._chosen:
                raise UsageFault(
                    f"two builds of {repo} are given: {self._chosen[repo].word} and {word.word}",
                    hint="one build per run: certify the other in a run of its own",
                )
            if repo in local:
                raise UsageFault(
                    f"LOCAL_KERNELS overrides {repo}, which --frt-kernel={word.word} gives",
                    hint="unset LOCAL_KERNELS",
                )
            self._chosen[repo] = word

    def selects(self, repo: str) -> bool:
        """Return whether the impls of a kernel take part: all do as long as no build is asked for."""
        self._seen.add(repo)
        return not self._chosen or repo in self._chosen

    def of(self, repo: str, kind: str, *, needed: bool = True) -> KernelBuild | KernelUnavailable:
        """Return the build that serves a device kind of this machine, or why there is none.

        Args:
            repo: Repo id.
            kind: Device kind.
            needed: A build that was asked for is wrong when it has none; False where a CPU only stands in.

        Raises:
            UsageFault: a release that was asked for is not in the cache.
            KernelMismatch: its bytes are not what was fetched, or not what its metadata states.
            FrtError: the build cannot be read; see ``kernel_build.resolve``.
        """
        if needed:
            self._needed.add((repo, kind))
        if (repo, kind) not in self._found:
            try:
                self._found[repo, kind] = self._find(repo, kind)
            except KernelUnavailable as absent:
                self._found[repo, kind] = absent
        return self._found[repo, kind]

    def check_served(self) -> None:
        """Refuse a build that was asked for and serves nothing.

        Raises:
            UsageFault: no cell uses it, or it has no variant for the devices of its cells.
        """
        for repo, word in self._chosen.items():
            found = [build for key, build in self._found.items() if key in self._needed and key[0] == repo]
            if repo not in self._seen:
                raise UsageFault(
                    f"--frt-kernel={word.word}: no selected impl uses {repo}", hint="widen --frt-impl or --frt-host"
                )
            absent = [one for one in found if isinstance(one, KernelUnavailable)]
            if absent and len(absent) == len(found):
                there = ", ".join(_variants(self._folder(word))) or "none"
                raise UsageFault(
                    f"--frt-kernel={word.word}: {absent[0].message}", hint=f"variants there: {there}; build one"
                )

    def _folder(self, word: KernelWord) -> Path:
        if isinstance(word, LocalBuild):
            return Path(word.path)
        return find_release(self._cache, word.repo, word.revision).folder

    def _find(self, repo: str, kind: str) -> KernelBuild:
        match self._chosen.get(repo):
            case None:
                return resolve(repo, backend=kind)
            case LocalBuild(path=path):
                build = read_build(repo, Path(path), backend=kind)
            case CachedRelease(revision=revision):
                release = find_release(self._cache, repo, revision)
                copy = copy_out(release, variant_folder(release.folder, kind), self._copies)
                build = read_build(repo, copy, backend=kind, revision=release.commit)
        check_stated(build)
        return build


def kernels_of(config: RunConfig, registry: Registry) -> Kernels:
    """Return the kernels of a run; raises like :class:`Kernels`."""
    return Kernels(
        config.kernel,
        used=(entry.impl.kernel for entry in registry.impls.values()),
        cache=Path(config.kernel_cache),
        copies=Path(config.cache) / "kernels",
        overridden=config.local_kernels,
    )


def check_stated(build: KernelBuild) -> None:
    """Compare a build with the digests its own metadata states, which ``kernels verify-signature`` compares as well.

    Raises:
        KernelMismatch: a file is missing, is not stated, or has other bytes.
    """
    digest = json.loads((build.folder / METADATA_FILE).read_bytes()).get("digest")
    if not isinstance(digest, dict):
        return
    algorithm, stated = digest.get("algorithm"), digest.get("files")
    if algorithm not in HASHES or not isinstance(stated, dict):
        raise KernelMismatch(f"{build.folder / METADATA_FILE} states digests of a kind that is not known")
    found = {file.name: _hash(build.folder, file, algorithm) for file in build.files if file.name not in _UNHASHED}
    for name in sorted(found.keys() | stated.keys()):
        if found.get(name) != stated.get(name):
            what = "is not there" if name not in found else "is not stated" if name not in stated else "has other bytes"
            raise KernelMismatch(
                f"{build.folder / name} {what}: {METADATA_FILE} states the digests of its build",
                hint="build or fetch the kernel again",
            )


def _hash(folder: Path, file: FileDigest, algorithm: str) -> str:
    if algorithm == SHA256:  # taken when the build was read
        return base64.b64encode(bytes.fromhex(file.sha256)).decode()
    with (folder / file.name).open("rb") as stream:
        return base64.b64encode(hashlib.file_digest(stream, algorithm).digest()).decode()


def _repo_of(word: KernelWord, known: Sequence[str]) -> str:
    """Return the repo id whose impls run a build.

    Raises:
        UsageFault: no impl names it, or several fit.
    """
    if isinstance(word, CachedRelease) or word.repo:
        return _known(word, word.repo, known)
    path = Path(word.path)
    if (repo := _project_repo(path)) is not None:
        return _known(word, repo, known)
    names = _stated_names(path)
    if not names:
        raise UsageFault(
            f"{path} is no kernel project: it has neither build.toml nor a build with {METADATA_FILE}",
            hint="give the folder that holds build/",
        )
    fits = [repo for repo in known if repo.rpartition("/")[2] in names]
    if len(fits) == 1:
        return fits[0]
    said = f"kernels {', '.join(fits)} have the name" if fits else "no impl uses a kernel of the name"
    raise UsageFault(f"{said} {', '.join(sorted(names))} of {path}", hint=f"say which: --frt-kernel=REPO={path}")


def _known(word: KernelWord, repo: str, known: Sequence[str]) -> str:
    if repo in known:
        return repo
    near = get_close_matches(repo, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"kernels in use: {', '.join(known) or 'none'}"
    raise UsageFault(f"--frt-kernel={word.word}: no impl uses {repo}", hint=hint)


def _project_repo(path: Path) -> str | None:
    """Return the repo id a kernel project states; None where there is no build.toml."""
    file = next((up / "build.toml" for up in (path, *path.parents[:2]) if (up / "build.toml").is_file()), None)
    if file is None:
        return None
    try:
        repo = tomllib.loads(file.read_text(encoding="utf-8")).get("general", {}).get("hub", {}).get("repo-id")
    except (ValueError, AttributeError) as fault:
        raise UsageFault(f"{file} cannot be read: {fault}", hint="correct it") from fault
    return repo if isinstance(repo, str) else None


def _variants(path: Path) -> list[str]:
    return sorted({file.parent.name for file in _metadata_files(path)})


def _metadata_files(path: Path) -> Iterator[Path]:
    for pattern in (METADATA_FILE, f"*/{METADATA_FILE}", f"build/*/{METADATA_FILE}"):
        yield from sorted(path.glob(pattern))


def _stated_names(path: Path) -> set[str]:
    found: set[str] = set()
    for file in _metadata_files(path):
        try:
            name = json.loads(file.read_bytes()).get("name")
        except (ValueError, AttributeError) as fault:
            raise UsageFault(f"{file} cannot be read: {fault}", hint="build the kernel again") from fault
        found |= {name} if isinstance(name, str) else set()
    return found
