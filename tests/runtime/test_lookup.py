"""Attach finds certificates, and the builds beside them, in a kernel repo or a cached release; bytes decide."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import publish
from pytest_frt.errors import KernelMismatch, StorageFault, UsageFault
from pytest_frt.runtime.handle import Handle
from pytest_frt.spec import hub_cache
from tests.certs.releases import listing
from tests.hub import REPO, Hub

if TYPE_CHECKING:
    from tests.runtime.conftest import World

BUILD = "build/torch-cpu"


@pytest.fixture
def repo(world: World) -> Path:
    """The world's kernel project with its certificates published beside the build."""
    world.certify()
    project = world.root / "kernel"
    publish.write_shipment(project, publish.plan_shipment(project, [world.out]))
    return project


@pytest.fixture
def hub(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A cache in which ``v1`` is the published project."""
    made = Hub(tmp_path / "cache")
    made.commit(listing(repo), "v1")
    monkeypatch.setenv("KERNELS_CACHE", str(made.cache))
    return made


def attached(world: World, where: str | Path) -> Handle:
    return world.attach(certificates=where, kernels=None)


def codes(handle: Handle) -> set[str]:
    return {one.code for one in handle.seats if one.code != "NOT_CERTIFIED"}


def test_kernel_repo_serves_its_build_too(world: World, repo: Path) -> None:
    with attached(world, repo) as handle:
        assert handle.active


def test_release_serves_its_build_too(world: World, hub: Hub) -> None:
    with attached(world, f"{REPO}@v1") as handle:
        assert handle.active, handle.explain()
    commit = (hub.home() / "refs/v1").read_text()
    assert handle.explain().endswith(f"\n  found in   release {REPO}@{commit} (v1)")
    with world.attach() as plain:
        assert plain.places == ()


def test_moved_branch_brings_other_bytes(world: World, hub: Hub, repo: Path) -> None:
    first = (hub.home() / "refs/v1").read_text()
    hub.commit({**listing(repo), f"{BUILD}/inner.py": b"# rebuilt\n"}, "v1")
    handle = attached(world, f"{REPO}@v1")
    assert (handle.active, codes(handle)) == (False, {"KERNEL_TREE"})
    assert world.is_untouched()
    with attached(world, f"{REPO}@{first}") as pinned:
        assert pinned.active


def test_branch_that_was_not_fetched_is_a_usage_fault(world: World, hub: Hub) -> None:
    hub.point("v1", "e" * 40)
    with pytest.raises(UsageFault, match=f"v1 of {REPO} moved"):
        attached(world, f"{REPO}@v1")


def test_tampered_file_is_refused(world: World, hub: Hub) -> None:
    commit = (hub.home() / "refs/v1").read_text()
    (hub.snapshot(commit) / BUILD / "inner.py").resolve().write_bytes(b"# tampered\n")
    handle = attached(world, f"{REPO}@v1")
    assert (handle.active, codes(handle)) == (False, {"KERNEL_TREE"})


def test_link_out_of_the_release_is_refused(world: World, hub: Hub, tmp_path: Path) -> None:
    link = hub.snapshot((hub.home() / "refs/v1").read_text()) / BUILD / "inner.py"
    (tmp_path / "evil.py").write_bytes(link.read_bytes())
    link.unlink()
    link.symlink_to(tmp_path / "evil.py")
    with pytest.raises(KernelMismatch, match="leads to"):
        attached(world, f"{REPO}@v1")
    assert world.is_untouched()


@pytest.mark.usefixtures("hub")
def test_full_disk_is_a_fault_of_storage(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(hub_cache, "_copy", full)
    with pytest.raises(StorageFault, match="No space left"):
        attached(world, f"{REPO}@v1")
    assert world.is_untouched()


def test_absent_variant_says_which_are_there(world: World, hub: Hub, repo: Path) -> None:
    tree = {name.replace(BUILD, "build/torch-cuda"): data for name, data in listing(repo).items()}
    hub.commit(tree, "v2")
    handle = attached(world, f"{REPO}@v2")
    assert (handle.active, codes(handle)) == (False, {"KERNEL_UNAVAILABLE"})
    assert "torch-cuda" in handle.explain()


def test_build_that_is_given_outranks_the_one_beside(world: World, repo: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / BUILD
    other.mkdir(parents=True)
    for name, data in listing(repo / BUILD).items():
        (other / name).write_bytes(data + b"\n")
    handle = world.attach(certificates=repo, kernels={REPO: tmp_path / "other"})
    assert (handle.active, codes(handle)) == (False, {"KERNEL_TREE"})
