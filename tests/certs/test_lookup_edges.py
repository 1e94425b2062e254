"""Places of certificates at their edges: which folder comes first, what is no build, what a distribution lists."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.certs import lookup
from pytest_frt.certs.lookup import Found
from pytest_frt.errors import UsageFault
from tests.hub import REPO, Hub

Install = Callable[..., None]


def no_cache() -> Path:
    pytest.fail("the cache was asked for")


def folders(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).mkdir(parents=True)
    return root


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a distribution with these files where the interpreter finds it."""
    site = tmp_path / "site"
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])

    def make(name: str, *files: str) -> None:
        about = folders(site, f"{name.replace('-', '_')}-1.2.dist-info") / f"{name.replace('-', '_')}-1.2.dist-info"
        about.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        about.joinpath("RECORD").write_text("".join(f"{file},,\n" for file in files))

    return make


def test_both_names_of_a_folder_are_known_and_the_one_of_a_run_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lookup.PROJECT == ("frt-certs", "certificates")
    both = folders(tmp_path / "both", "frt-certs", "certificates")
    assert lookup.locate([both], no_cache) == (Found(f"project {both}", (both / "frt-certs",)),)
    monkeypatch.chdir(both)
    assert lookup.locate([], no_cache) == (Found("project .", (Path("frt-certs"),)),)
    published = folders(tmp_path / "published", "certificates")
    (published / "frt-certs").touch()
    assert lookup.locate([str(published)], no_cache) == (Found(f"project {published}", (published / "certificates",)),)


@pytest.mark.parametrize(
    ("inner", "build", "repo"),
    [
        ("certificates", "build/torch-cpu/metadata.json", True),
        ("frt-certs", "build/torch-cpu/metadata.json", False),
        ("certificates", "build/metadata.json", False),
        ("certificates", "build/torch-cpu/deep/metadata.json", False),
        ("certificates", "dist/torch-cpu/metadata.json", False),
        ("certificates", "build/torch-cpu/other.json", False),
    ],
)
def test_a_kernel_repo_has_a_build_beside_what_it_published(
    tmp_path: Path, inner: str, build: str, *, repo: bool
) -> None:
    folders(tmp_path, inner, str(Path(build).parent))
    (tmp_path / build).touch()
    label = f"{'kernel repo' if repo else 'project'} {tmp_path}"
    expected = Found(label, (tmp_path / inner,), tmp_path if repo else None, published=repo)
    assert lookup.locate([tmp_path], no_cache) == (expected,)


def test_places_come_in_the_order_of_the_words_and_each_path_once(tmp_path: Path) -> None:
    folders(tmp_path, "b", "a")
    (tmp_path / "x.jsonl").touch()
    words: list[str | Path] = [tmp_path / "b", str(tmp_path / "x.jsonl"), tmp_path / "a", tmp_path / "b"]
    found = lookup.locate(iter(words), no_cache)
    labels = [f"directory {tmp_path}/b", f"file {tmp_path}/x.jsonl", f"directory {tmp_path}/a"]
    assert [one.label for one in found] == [*labels, labels[0]]
    assert lookup.paths_of(found) == (tmp_path / "b", tmp_path / "x.jsonl", tmp_path / "a")
    assert not any(one.published or one.kernel or one.release for one in found)


def test_a_word_that_names_nothing_is_a_file_that_is_not_there(tmp_path: Path) -> None:
    word = str(tmp_path / "nowhere.jsonl")
    assert lookup.locate([word], no_cache) == (Found(f"file {word}", (Path(word),)),)


@pytest.mark.parametrize("source", ["/a/certs", "/a/certs/x", "/a/certs:1", "/b/x.jsonl", "/b/x.jsonl:12"])
def test_an_outcome_lies_where_its_source_begins(source: str) -> None:
    assert Found("a", (Path("/a/certs"), Path("/b/x.jsonl"))).holds(source)
    assert not Found("a", ()).holds(source)
    assert not Found("a", (Path("/c"),)).holds(source)


def test_a_release_is_found_whole_with_its_folder(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "cache")
    commit = hub.commit({"certificates/x.frt.intoto.jsonl": b"{}\n"}, "v1")
    (found,) = lookup.locate([f"{REPO}@v1"], lambda: hub.cache)
    folder = hub.snapshot(commit)
    assert found.release is not None
    assert (found.release.commit, found.release.folder) == (commit, folder)
    assert found == Found(found.label, (folder / "certificates",), folder, found.release, published=True)


def test_a_release_of_builds_alone_says_how_to_fetch_it_whole(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "cache")
    commit = hub.commit({"build/torch-cpu/metadata.json": b"{}"}, "v1")
    with pytest.raises(UsageFault) as caught:
        lookup.locate([f"{REPO}@v1"], lambda: hub.cache)
    call = f"snapshot_download('{REPO}', repo_type='kernel', revision='{commit}', cache_dir='{hub.cache}')"
    assert call in (caught.value.hint or "")
    assert f"has no certificates/ in {hub.cache}" in caught.value.message


def test_a_distribution_gives_its_sets_and_indexes_sorted_and_nothing_else(tmp_path: Path, install: Install) -> None:
    names = ("b.frt.intoto.jsonl", "a/index.intoto.jsonl", "a/old-index.intoto.jsonl", "a/x.frt.intoto.jsonl", "a.py")
    install("acme-certs", *(f"acme/{name}" for name in names))
    (found,) = lookup.locate(["dist:acme-certs"], no_cache)
    site = tmp_path / "site" / "acme"
    paths = (site / "a/index.intoto.jsonl", site / "a/x.frt.intoto.jsonl", site / "b.frt.intoto.jsonl")
    assert found == Found("distribution acme-certs 1.2", paths, published=True)


def test_a_distribution_that_lists_none_is_named_with_its_version(install: Install) -> None:
    install("acme-certs", "acme/a.py", "acme/old-index.intoto.jsonl")
    with pytest.raises(UsageFault) as caught:
        lookup.locate(["dist:acme-certs"], no_cache)
    said = "distribution acme-certs 1.2 lists no certificate (*.frt.intoto.jsonl) among its files"
    assert caught.value.message == said
    assert "ship them as package data" in (caught.value.hint or "")


def test_a_distribution_that_is_absent_is_answered_with_the_nearest_name_or_none(install: Install) -> None:
    install("acme-certs")
    hints = {"acme-cert": "did you mean dist:acme-certs?", "qqqqqqqqqqqqqqqqqq": "install it first"}
    for name, hint in hints.items():
        with pytest.raises(UsageFault) as caught:
            lookup.locate([f"dist:{name}"], no_cache)
        assert (caught.value.message, caught.value.hint) == (f"distribution {name!r} is not installed", hint)


def test_a_folder_without_certificates_says_what_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "frt-certs").touch()
    with pytest.raises(UsageFault) as caught:
        lookup.locate([], no_cache)
    assert caught.value.message == "neither frt-certs nor certificates lies in the working directory"
    assert caught.value.hint == "name where the certificates are"
