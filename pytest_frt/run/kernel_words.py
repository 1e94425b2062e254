"""What ``--frt-kernel`` may say: a local build, or a release in the client's cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pytest_frt.errors import UsageFault
from pytest_frt.spec.hub_cache import REPO, split_name


@dataclass(frozen=True, slots=True)
class LocalBuild:
    """A build on disk.

    Attributes:
        path: Absolute kernel project, ``build`` folder or variant folder.
        repo: Repo id whose impls run it; empty to read it from the build.
    """

    path: str
    repo: str = ""

    @property
    def word(self) -> str:
        """The option's value."""
        return f"{self.repo}={self.path}" if self.repo else self.path


@dataclass(frozen=True, slots=True)
class CachedRelease:
    """A release in the cache: ``revision`` is a commit of 40 hex digits, a tag or a version branch."""

    repo: str
    revision: str

    @property
    def word(self) -> str:
        """The option's value."""
        return f"{self.repo}@{self.revision}"


KernelWord: TypeAlias = LocalBuild | CachedRelease


def parse_kernel(word: str, base: Path, origin: str) -> KernelWord:
    """Read ``[REPO=]PATH`` or ``REPO@REVISION``; what lies on disk under the whole text is a path.

    Args:
        word: The value.
        base: Directory that a relative path starts from.
        origin: Where the value came from.

    Raises:
        UsageFault: it is empty, or neither a directory nor a release.
    """
    if not word.strip():  # the empty path is the working directory
        raise UsageFault(f"kernel from {origin} is empty", hint="give a kernel project, or leave --frt-kernel out")
    whole = base / Path(word).expanduser()
    if whole.is_dir():
        return LocalBuild(str(whole))
    if (release := split_name(word)) is not None:
        return CachedRelease(*release)
    repo, _, rest = word.partition("=")
    if rest and REPO.fullmatch(repo):
        path = base / Path(rest).expanduser()
        if path.is_dir():
            return LocalBuild(str(path), repo)
        whole = path
    raise UsageFault(
        f"kernel = {whole} from {origin} is no directory",
        hint="give a kernel project, REPO=PATH, or a cached release as owner/name@revision",
    )
