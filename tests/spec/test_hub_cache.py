"""The client's cache, read offline: which commit a name means now, and a copy whose bytes are what was fetched."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.errors import KernelMismatch, UsageFault
from pytest_frt.spec import hub_cache
from pytest_frt.spec.tree import tree_digest, tree_files
from tests.hub import REPO, VARIANT, Hub, kernel_files, write_build


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    return Hub(tmp_path / "cache")


@pytest.fixture
def commits(hub: Hub) -> tuple[str, str]:
    """Two revisions; the version branch moved from the first to the second, the tag stayed."""
    first = hub.release(kernel_files(1), "v1", "1.0")
    return first, hub.release(kernel_files(2), "v1")


def test_branch_tag_and_commit_name_a_commit(hub: Hub, commits: tuple[str, str]) -> None:
    found = {name: hub_cache.find_release(hub.cache, REPO, name) for name in ("v1", "1.0", commits[0])}
    assert {name: one.commit for name, one in found.items()} == {
        "v1": commits[1],
        "1.0": commits[0],
        commits[0]: commits[0],
    }
    assert found["v1"].name == f"{REPO}@{commits[1]} (v1)"
    assert found[commits[0]].name == f"{REPO}@{commits[0]}"


ABSENT: dict[str, tuple[str, str, str, str]] = {
    "repo": ("acme/tyo", "v1", "acme/tyo is not in", "did you mean acme/toy"),
    "far_repo": ("zeta/none", "v1", "zeta/none is not in", "install_kernel('zeta/none'"),
    "branch": (REPO, "v2", "no branch, tag or commit v2", "cached: 1.0"),
    "commit": (REPO, "f" * 40, "commit ffff", "fetch it while online"),
    "moved_branch": (REPO, "v9", "v9 of acme/toy moved to commit eeee", "name a cached commit"),
    "torn_ref": (REPO, "torn", "40 hex digits", "again"),
    "climbing": (REPO, "../v1", "is no release", "owner/name@commit"),
    "climbing_repo": ("../toy", "v1", "is no release", "owner/name@commit"),
}


@pytest.mark.parametrize(("repo", "revision", "message", "hint"), ABSENT.values(), ids=ABSENT)
def test_what_is_not_cached_says_what_is(
    hub: Hub, commits: tuple[str, str], repo: str, revision: str, message: str, hint: str
) -> None:
    hub.point("v9", "e" * 40)
    hub.point("torn", commits[0][:12])
    with pytest.raises(UsageFault, match=message) as caught:
        hub_cache.find_release(hub.cache, repo, revision)
    assert hint in caught.value.hint


def test_older_layout_is_read(hub: Hub, commits: tuple[str, str]) -> None:
    hub.home().rename(hub.cache / "models--acme--toy")
    assert hub_cache.find_release(hub.cache, REPO, "v1").commit == commits[1]


def copied(hub: Hub, commit: str) -> Path:
    release = hub_cache.find_release(hub.cache, REPO, commit)
    return hub_cache.copy_out(release, release.folder / "build" / VARIANT, hub.cache.parent / "copies")


def test_copy_has_no_links_and_the_digest_of_a_local_build(hub: Hub, tmp_path: Path) -> None:
    commit = hub.release(kernel_files())
    copy = copied(hub, commit)
    local = tree_digest(tree_files(write_build(tmp_path / "local", kernel_files())))
    assert tree_digest(tree_files(copy)) == local == copy.parent.name
    assert copied(hub, commit) == copy
    assert sorted(path.name for path in copy.parents[1].iterdir()) == [local]


def test_bytecode_of_the_cache_is_left_behind(hub: Hub) -> None:
    commit = hub.release(kernel_files())
    variant = hub.snapshot(commit) / "build" / VARIANT
    (variant / "__pycache__").mkdir()
    (variant / "stray.pyc").write_bytes(b"")
    assert {path.name for path in copied(hub, commit).iterdir()} == set(kernel_files())


def rewrite_blob(_hub: Hub, variant: Path) -> None:
    (variant / "inner.py").resolve().write_bytes(b"VALUE = 3\n")


def link_outside(hub: Hub, variant: Path) -> None:
    (hub.cache / "evil.py").write_bytes(b"VALUE = 3\n")
    (variant / "inner.py").unlink()
    (variant / "inner.py").symlink_to(hub.cache / "evil.py")


def link_folder(hub: Hub, variant: Path) -> None:
    (hub.cache / "evil").mkdir()
    (variant / "more").symlink_to(hub.cache / "evil", target_is_directory=True)


def dangle(_hub: Hub, variant: Path) -> None:
    (variant / "inner.py").resolve().unlink()


@pytest.mark.parametrize("spoil", [rewrite_blob, link_outside, link_folder, dangle], ids=lambda one: one.__name__)
def test_tampered_cache_is_refused(hub: Hub, spoil: Callable[[Hub, Path], None]) -> None:
    commit = hub.release(kernel_files())
    spoil(hub, hub.snapshot(commit) / "build" / VARIANT)
    with pytest.raises(KernelMismatch, match=r"what was fetched|no file of"):
        copied(hub, commit)
    assert not list((hub.cache.parent / "copies").iterdir())


def test_large_files_are_blobs_named_by_sha256(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hub, "blob", staticmethod(lambda data: hub_cache.hashlib.sha256(data).hexdigest()))
    commit = hub.release(kernel_files())
    assert copied(hub, commit).is_dir()
    rewrite_blob(hub, hub.snapshot(commit) / "build" / VARIANT)
    with pytest.raises(KernelMismatch, match="is not what was fetched"):
        copied(hub, commit)


def test_changed_copy_is_refused(hub: Hub) -> None:
    commit = hub.release(kernel_files())
    (copied(hub, commit) / "inner.py").write_bytes(b"VALUE = 3\n")
    with pytest.raises(KernelMismatch, match="somebody changed the copy"):
        copied(hub, commit)


def test_client_reads_the_stand_in_as_we_do(
    hub: Hub, commits: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = importlib.import_module("kernels")
    for module in ("install", "resolver", "hf_hub"):
        monkeypatch.setattr(importlib.import_module(f"kernels.{module}"), "CACHE_DIR", str(hub.cache))
    monkeypatch.setenv("KERNELS_CACHE", str(hub.cache))
    found = kernels.install_kernel(REPO, version=1, backend="cpu", local_files_only=True, trust_remote_code=True)
    assert found == hub.snapshot(commits[1]) / "build" / VARIANT


@pytest.mark.parametrize(
    ("environ", "repos"),
    [({}, ()), ({"LOCAL_KERNELS": "a/b=x:c/d=/y=z"}, ("a/b", "c/d")), ({"LOCAL_KERNELS": "nonsense"}, ())],
    ids=["unset", "two", "malformed"],
)
def test_local_kernels_names_repos(environ: dict[str, str], repos: tuple[str, ...]) -> None:
    assert hub_cache.local_kernels(environ) == repos


def test_cache_is_the_one_the_client_takes(tmp_path: Path) -> None:
    assert hub_cache.client_cache({"KERNELS_CACHE": str(tmp_path)}) == tmp_path
    constants = importlib.import_module("huggingface_hub.constants")
    assert hub_cache.client_cache({}) == Path(constants.HF_HUB_CACHE)
