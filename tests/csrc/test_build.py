"""The committed build is what the builder makes of the sources, and every client reads its metadata."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernels.variants import get_variants_local, resolve_variant

from pytest_frt.errors import SpecError
from pytest_frt.seat.noarch import build_noarch, read_project
from pytest_frt.spec.tree import tree_files

PROJECTS = {"frt_cpu": ("cpu",), "frt_scaled": ("cpu", "cuda")}


@pytest.fixture
def folder(repository: Path) -> Path:
    """Return a kernel project."""
    return repository / "csrc" / "frt_cpu"


@pytest.mark.parametrize("name", PROJECTS)
def test_committed_build_is_up_to_date(repository: Path, tmp_path: Path, name: str) -> None:
    project = repository / "csrc" / name
    for fresh in build_noarch(read_project(project), tmp_path):
        committed = project / "build" / fresh.name
        assert tree_files(committed) == tree_files(fresh), f"run: frt build csrc/{name}"


@pytest.mark.parametrize(("name", "backends"), PROJECTS.items())
def test_build_serves_each_backend_that_it_names(repository: Path, name: str, backends: tuple[str, ...]) -> None:
    variants = get_variants_local(repository / "csrc" / name / "build")
    assert {variant.variant_str for variant in variants} == {f"torch-{backend}" for backend in backends}
    found, _ = resolve_variant(variants, "cpu")
    assert found.variant_str == "torch-cpu"


def test_changed_source_changes_the_id(folder: Path, tmp_path: Path) -> None:
    project = read_project(folder)
    copy = tmp_path / "frt_cpu"
    sources = copy / "torch-ext" / "frt_cpu"
    sources.mkdir(parents=True)
    (copy / "build.toml").write_bytes((folder / "build.toml").read_bytes())
    (sources / "__init__.py").write_text("")
    before = (build_noarch(project, tmp_path / "a")[0] / "metadata.json").read_text()
    assert (build_noarch(read_project(copy), tmp_path / "b")[0] / "metadata.json").read_text() != before


@pytest.mark.parametrize("name", ["_ops.py", "metadata.json"])
def test_source_that_the_builder_writes_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    sources = tmp_path / "torch-ext" / "frt_cpu"
    sources.mkdir(parents=True)
    (tmp_path / "build.toml").write_bytes((folder / "build.toml").read_bytes())
    (sources / name).write_text("")
    with pytest.raises(SpecError, match="is written by the builder"):
        build_noarch(read_project(tmp_path), tmp_path / "out")


@pytest.mark.parametrize(
    "text",
    ["", "not toml", "[general]\nname = 'x'\n", "[general]\nname='x'\nversion=1\nlicense='MIT'\nbackends=['cpu']\n"],
    ids=["empty", "no_toml", "no_version", "no_repo"],
)
def test_unreadable_project_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "build.toml").write_text(text)
    with pytest.raises(SpecError, match=r"build\.toml"):
        read_project(tmp_path)
