"""Where certificates are looked for: a path, a project, a kernel repo, a cached release, an installed distribution.

| written | looked at |
|---|---|
| nothing | ``frt-certs`` below the working directory, else ``certificates`` |
| ``FILE`` | the file |
| ``DIR`` with ``frt-certs`` or ``certificates`` in it, a project or a kernel repo | the first of these |
| ``DIR`` | everything below it |
| ``owner/name@revision`` | ``certificates`` of that release in the kernel client's cache |
| ``dist:NAME`` | certificates among the files of an installed distribution |

A location gives no trust: what is found is verified all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import metadata
from pathlib import Path
from typing import Final

from pytest_frt.certs.publish import FOLDER, METADATA
from pytest_frt.certs.store import CERTIFICATE_SUFFIX, INDEX_NAME
from pytest_frt.errors import UsageFault
from pytest_frt.spec.hub_cache import Release, find_release, split_name

PROJECT: Final = ("frt-certs", FOLDER)
DISTRIBUTION: Final = "dist:"


@dataclass(frozen=True, slots=True)
class Found:
    """One place certificates were found in.

    Attributes:
        label: What it is, for people.
        paths: Files and directories that hold them.
        kernel: Kernel project or repo whose builds lie beside them, or None.
        release: The cached release they are part of, or None; its files are links.
        published: They were published there: a kernel repo, a release or a distribution.
    """

    label: str
    paths: tuple[Path, ...]
    kernel: Path | None = None
    release: Release | None = None
    published: bool = False

    def holds(self, source: str) -> bool:
        """Return whether an outcome's source lies here."""
        return any(source == str(path) or source.startswith((f"{path}/", f"{path}:")) for path in self.paths)


def locate(words: Iterable[str | Path], cache: Callable[[], Path]) -> tuple[Found, ...]:
    """Return the places that words name, in their order; without words, the working directory's.

    Args:
        words: See the table above; what exists on disk is a path.
        cache: Returns the kernel client's cache; asked only for a release.

    Raises:
        UsageFault: a place does not exist or holds no certificate.
    """
    given = list(words)
    if not given:
        return (_default(Path()),)
    return tuple(_locate(word, cache) for word in given)


def paths_of(found: Iterable[Found]) -> tuple[Path, ...]:
    """Return the files and directories of several places."""
    return tuple(dict.fromkeys(path for one in found for path in one.paths))


def _default(folder: Path) -> Found:
    for name in PROJECT:
        if (folder / name).is_dir():
            return _project(folder, name)
    raise UsageFault(
        f"neither {' nor '.join(PROJECT)} lies in the working directory", hint="name where the certificates are"
    )


def _locate(word: str | Path, cache: Callable[[], Path]) -> Found:
    path, text = Path(word), str(word)
    if path.is_dir():
        inner = next((name for name in PROJECT if (path / name).is_dir()), None)
        return Found(f"directory {path}", (path,)) if inner is None else _project(path, inner)
    if isinstance(word, str) and not path.exists():
        if text.startswith(DISTRIBUTION):
            return _installed(text.removeprefix(DISTRIBUTION))
        if (release := split_name(text)) is not None:
            return _release(cache(), *release)
    return Found(f"file {path}", (path,))


def _project(folder: Path, inner: str) -> Found:
    built = inner == FOLDER and next((folder / "build").glob(f"*/{METADATA}"), None) is not None
    label = f"{'kernel repo' if built else 'project'} {folder}"
    return Found(label, (folder / inner,), folder if built else None, published=built)


def _release(cache: Path, repo: str, revision: str) -> Found:
    release = find_release(cache, repo, revision)
    folder = release.folder / FOLDER
    if not folder.is_dir():
        call = f"snapshot_download('{repo}', repo_type='kernel', revision='{release.commit}', cache_dir='{cache}')"
        raise UsageFault(
            f"release {release.name} has no {FOLDER}/ in {cache}: the client fetches builds alone",
            hint=f'fetch it whole while online: python -c "from huggingface_hub import snapshot_download; {call}"',
        )
    return Found(f"release {release.name}", (folder,), release.folder, release, published=True)


def _installed(name: str) -> Found:
    try:
        found = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError) as absent:  # ValueError: the name is empty
        known = {one.name for one in metadata.distributions()}
        near = get_close_matches(name, sorted(known), n=1)
        hint = f"did you mean {DISTRIBUTION}{near[0]}?" if near else "install it first"
        raise UsageFault(f"distribution {name!r} is not installed", hint=hint) from absent
    endings = (CERTIFICATE_SUFFIX, f"/{INDEX_NAME}")
    files = [Path(str(file.locate())) for file in found.files or () if str(file).endswith(endings)]
    if not files:
        raise UsageFault(
            f"distribution {found.name} {found.version} lists no certificate (*{CERTIFICATE_SUFFIX}) among its files",
            hint="ship them as package data; an editable installation lists no files: name its folder",
        )
    return Found(f"distribution {found.name} {found.version}", tuple(sorted(files)), published=True)
