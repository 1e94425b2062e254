"""Releases in the local cache of the ``kernels`` client, read without a network and without the client.

``<cache>/kernels--<owner>--<name>`` (``models--...`` in older caches) holds ``refs/<branch or tag>``, a file with a
commit each, and ``snapshots/<commit>/``, whose files are links into ``blobs/``. A blob is named by the digest of its
bytes: the sha1 of a git blob, or a sha256. Only a commit names fixed bytes: a version branch ``v<N>`` moves.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from pytest_frt.errors import KernelMismatch, UsageFault
from pytest_frt.spec.tree import BYTECODE_FOLDER, BYTECODE_SUFFIXES, check_name, tree_digest, tree_files

COMMIT: Final = re.compile(r"[0-9a-f]{40}")
REPO: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
KINDS: Final = ("kernels", "models")
_REVISION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_BLOB: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHA1_DIGITS: Final = 40


@dataclass(frozen=True, slots=True)
class Release:
    """One cached commit of a repo.

    Attributes:
        repo: Repo id.
        revision: What was asked for: a commit, tag or branch.
        commit: The commit it names now, 40 hex digits.
        folder: The snapshot; its files are links.
    """

    repo: str
    revision: str
    commit: str
    folder: Path

    @property
    def name(self) -> str:
        """``repo@commit``, and the branch or tag that led there."""
        led = "" if self.revision == self.commit else f" ({self.revision})"
        return f"{self.repo}@{self.commit}{led}"


def client_cache(environ: Mapping[str, str]) -> Path:
    """Return the directory the client caches releases in: ``KERNELS_CACHE``, else the cache of the Hub client."""
    if given := environ.get("KERNELS_CACHE"):
        return Path(given).absolute()
    constants = importlib.import_module("huggingface_hub.constants")
    return Path(constants.HF_HUB_CACHE)


def local_kernels(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the repo ids that ``LOCAL_KERNELS`` (``repo=path:repo2=path2``) takes from local folders."""
    entries = environ.get("LOCAL_KERNELS", "").split(":")
    return tuple(repo for repo, equals, _ in (entry.partition("=") for entry in entries) if equals)


def split_name(word: str) -> tuple[str, str] | None:
    """Return repo and revision of ``owner/name@revision``; None for any other text."""
    repo, at, revision = word.partition("@")
    return (repo, revision) if at and revision and REPO.fullmatch(repo) else None


def cached_repos(cache: Path) -> tuple[str, ...]:
    """Return the ids of the kernel repos a cache holds, sorted."""
    folders = (path.name for path in cache.glob(f"{KINDS[0]}--*--*") if path.is_dir())
    return tuple(sorted("/".join(name.split("--", 2)[1:]) for name in folders))


def find_release(cache: Path, repo: str, revision: str) -> Release:
    """Find a release by commit, tag or branch.

    Raises:
        UsageFault: the repo is not in the cache, has no such revision, or the branch moved to a commit that is not.
    """
    if not REPO.fullmatch(repo) or not _REVISION.fullmatch(revision):
        raise UsageFault(f"{repo}@{revision} is no release", hint="write owner/name@commit, or @tag, or @v1")
    home = _home(cache, repo)
    held = tuple(sorted(path.name for path in (home / "snapshots").glob("*") if COMMIT.fullmatch(path.name)))
    commit = revision if COMMIT.fullmatch(revision) else _named(home, repo, revision, held)
    if commit in held:
        return Release(repo, revision, commit, home / "snapshots" / commit)
    cached = ", ".join(held) or "none"
    if revision == commit:
        raise UsageFault(
            f"commit {commit} of {repo} is not in {cache}; cached: {cached}", hint=_fetch(cache, repo, revision)
        )
    raise UsageFault(
        f"{revision} of {repo} moved to commit {commit}, which is not in {cache}; cached: {cached}",
        hint=f"{_fetch(cache, repo, revision)}; or name a cached commit: {repo}@COMMIT",
    )


def _home(cache: Path, repo: str) -> Path:
    for kind in KINDS:
        home = cache / "--".join((kind, *repo.split("/")))
        if home.is_dir():
            return home
    near = get_close_matches(repo, cached_repos(cache), n=1)
    hint = f"did you mean {near[0]}? else " if near else ""
    raise UsageFault(f"kernel repo {repo} is not in {cache}", hint=hint + _fetch(cache, repo, "REVISION"))


def _named(home: Path, repo: str, revision: str, held: tuple[str, ...]) -> str:
    refs = home / "refs"
    file = refs / revision
    if not file.is_file():
        known = sorted(path.relative_to(refs).as_posix() for path in refs.rglob("*") if path.is_file())
        near = get_close_matches(revision, [*known, *held], n=1)
        hint = f"did you mean {near[0]}?" if near else f"cached: {', '.join([*known, *held])}"
        raise UsageFault(f"{repo} has no branch, tag or commit {revision} in the cache", hint=hint)
    commit = file.read_bytes()[: _SHA1_DIGITS + 1].decode("ascii", "replace").strip()
    if not COMMIT.fullmatch(commit):
        raise UsageFault(f"{file} holds {commit!r}, a commit has 40 hex digits", hint=f"fetch {repo} again")
    return commit


def _fetch(cache: Path, repo: str, revision: str) -> str:
    call = f"from kernels import install_kernel; install_kernel('{repo}', revision='{revision}')"
    return f'fetch it while online: KERNELS_CACHE={cache} python -c "{call}"'


def copy_out(release: Release, variant: Path, into: Path, *, fetched: bool = True) -> Path:
    """Copy one variant folder of a snapshot, links replaced by what they point to, and return the copy.

    The copy lies at ``into/<tree digest>/<variant>`` and is made once. Bytecode is left behind.

    Args:
        release: The release.
        variant: Its variant folder.
        into: Folder of copies.
        fetched: Compare files with the digests their blobs are named by. Not needed where a certificate binds the copy.

    Raises:
        KernelMismatch: a file is not the blob its link names, a link leaves the repo, or an earlier copy was changed.
        TreeInvalid: a name is not plain, or a file is none.
        OSError: something cannot be read or written.
    """
    home = release.folder.parents[1].resolve()
    into.mkdir(parents=True, exist_ok=True)
    with ExitStack() as undo:
        fresh = Path(undo.enter_context(tempfile.TemporaryDirectory(dir=into, prefix=".part-"))) / variant.name
        fresh.mkdir()
        for file in _files(variant):
            name = file.relative_to(variant).as_posix()
            check_name(name)
            _copy(file, fresh / name, home, fetched=fetched)
        digest = tree_digest(tree_files(fresh))
        kept = into / digest / variant.name
        if not kept.exists():
            kept.parent.mkdir(exist_ok=True)
            _move(fresh, kept)
    if (found := tree_digest(tree_files(kept))) != digest:
        raise KernelMismatch(f"{kept} has tree digest {found}: somebody changed the copy", hint=f"delete {kept.parent}")
    return kept


def _move(fresh: Path, kept: Path) -> None:
    try:
        fresh.rename(kept)
    except OSError:
        if not kept.is_dir():  # else another process made the same copy first
            raise


def _files(folder: Path) -> Iterator[Path]:
    for current, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if name != BYTECODE_FOLDER)
        yield from (Path(current, name) for name in sorted(names) if not name.endswith(BYTECODE_SUFFIXES))
        yield from (Path(current, name) for name in folders if Path(current, name).is_symlink())


def _copy(file: Path, target: Path, home: Path, *, fetched: bool) -> None:
    real = file.resolve()
    if not real.is_relative_to(home) or not real.is_file():
        raise KernelMismatch(f"{file} leads to {real}, no file of {home}", hint="fetch the release again")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(real, target)
    named = fetched and file.is_symlink() and _BLOB.fullmatch(real.name) is not None
    if named and (found := _blob_digest(target, real.name)) != real.name:
        raise KernelMismatch(
            f"{file} is not what was fetched: its bytes have digest {found}, its blob is named {real.name}",
            hint=f"delete {real} and fetch the release again",
        )


def _blob_digest(file: Path, name: str) -> str:
    data = file.read_bytes()
    if len(name) == _SHA1_DIGITS:
        return hashlib.sha1(b"blob %d\0%b" % (len(data), data), usedforsecurity=False).hexdigest()
    return hashlib.sha256(data).hexdigest()
