"""Where certificates are found: paths, projects, kernel repos, cached releases, wheels; and what is said elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.certs import lookup, publish
from pytest_frt.cli import main
from pytest_frt.errors import UsageFault
from tests.certs.conftest import World
from tests.certs.releases import Publisher, listing
from tests.hub import REPO, Hub

AT = ("--at", "2026-12-01T00:00:00Z")


@pytest.fixture
def mine(world: World, tmp_path: Path) -> Publisher:
    """A project whose certificates were published beside its build."""
    made = Publisher(world, tmp_path)
    made.certify(made.build())
    publish.write_shipment(made.project, publish.plan_shipment(made.project, [made.out]))
    (tmp_path / "trust.toml").write_text(world.policy_text)
    (tmp_path / "trust.toml").chmod(0o600)
    return made


@pytest.fixture
def hub(mine: Publisher) -> Hub:
    """A cache with the whole project as release ``v1``."""
    made = Hub(mine.root / "cache")
    made.commit(listing(mine.project), "v1")
    return made


@pytest.fixture
def wheel(mine: Publisher, monkeypatch: pytest.MonkeyPatch) -> str:
    """An installed distribution with the certificates as package data; return its name."""
    site = mine.root / "site"
    for name, data in listing(mine.project / "certificates").items():
        (site / "acme_certs" / name).parent.mkdir(parents=True, exist_ok=True)
        (site / "acme_certs" / name).write_bytes(data)
    about = site / "acme_certs-1.2.dist-info"
    about.mkdir()
    about.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: acme-certs\nVersion: 1.2\n")
    about.joinpath("RECORD").write_text("".join(f"{name},,\n" for name in listing(site)))
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    return "acme-certs"


def no_cache() -> Path:
    pytest.fail("the cache was asked for")


Where = Callable[[Publisher], str]
PLACES: dict[str, tuple[Where, str]] = {
    "file": (lambda mine: str(next(mine.out.rglob("*.jsonl"))), "file"),
    "directory": (lambda mine: str(mine.out), "directory"),
    "project": (lambda mine: str(mine.root), "project"),
    "kernel_repo": (lambda mine: str(mine.project), "kernel repo"),
}


@pytest.mark.parametrize(("where", "label"), PLACES.values(), ids=PLACES)
def test_path_is_found_and_named(mine: Publisher, where: Where, label: str) -> None:
    (found,) = lookup.locate([where(mine)], no_cache)
    assert found.label.startswith(f"{label} ")
    assert (found.kernel == mine.project) == found.published == (label == "kernel repo")
    assert all(path.exists() for path in found.paths)


def test_kernel_repo_is_one_with_builds_beside_its_certificates(mine: Publisher) -> None:
    mine.out.rename(mine.project / "frt-certs")
    (found,) = lookup.locate([mine.project], no_cache)
    assert found == lookup.Found(f"project {mine.project}", (mine.project / "frt-certs",))
    (mine.project / "frt-certs").rename(mine.out)
    (mine.project / "build").rename(mine.project / "dist")
    (mine.project / "build/lib").mkdir(parents=True)
    (found,) = lookup.locate([mine.project], no_cache)
    assert found == lookup.Found(f"project {mine.project}", (mine.project / "certificates",))


@pytest.mark.parametrize("left", lookup.PROJECT)
def test_working_directory_is_looked_at_in_order(mine: Publisher, monkeypatch: pytest.MonkeyPatch, left: str) -> None:
    monkeypatch.chdir(mine.root)
    (mine.project / "certificates").rename(mine.root / "certificates")
    if left == "certificates":
        mine.out.rename(mine.root / "away")
    (found,) = lookup.locate([], no_cache)
    assert found.paths == (Path(left),)


def test_release_is_named_by_its_commit(hub: Hub) -> None:
    (found,) = lookup.locate([f"{REPO}@v1"], lambda: hub.cache)
    commit = (hub.home() / "refs/v1").read_text()
    assert found.label == f"release {REPO}@{commit} (v1)"
    assert (found.kernel, found.paths) == (hub.snapshot(commit), (hub.snapshot(commit) / "certificates",))
    assert found.published


def test_wheel_is_named_with_its_version(wheel: str) -> None:
    (found,) = lookup.locate([f"dist:{wheel}"], no_cache)
    assert (found.label, found.published, found.kernel) == ("distribution acme-certs 1.2", True, None)
    assert [path.suffix for path in found.paths] == [".jsonl"]


ABSENT: dict[str, tuple[str, str, str]] = {
    "distribution": ("dist:acme-cert", "'acme-cert' is not installed", "did you mean dist:acme-certs"),
    "distribution_without": ("dist:pytest", "lists no certificate", "package data"),
    "nameless": ("dist:", "'' is not installed", "install"),
    "repo": ("acme/tyo@v1", "acme/tyo is not in", "did you mean acme/toy"),
    "moved": (f"{REPO}@v2", "v2 of acme/toy moved", "name a cached commit"),
    "builds_alone": (f"{REPO}@v3", "has no certificates/", "snapshot_download"),
}


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize(("word", "message", "hint"), ABSENT.values(), ids=ABSENT)
def test_absent_place_says_what_to_do(hub: Hub, word: str, message: str, hint: str) -> None:
    hub.point("v2", "e" * 40)
    hub.release({"metadata.json": b"{}"}, "v3")
    with pytest.raises(UsageFault, match=message) as caught:
        lookup.locate([word], lambda: hub.cache)
    assert hint in caught.value.hint


def test_distribution_without_a_list_of_files_lists_no_certificate(mine: Publisher, wheel: str) -> None:
    (mine.root / "site/acme_certs-1.2.dist-info/RECORD").unlink()
    with pytest.raises(UsageFault, match="lists no certificate"):
        lookup.locate([f"dist:{wheel}"], no_cache)


def test_empty_directory_is_a_usage_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageFault, match="neither frt-certs nor certificates"):
        lookup.locate([], no_cache)


def test_name_on_disk_is_a_path(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(hub.cache.parent)
    for name in (f"{REPO}@v1", "dist:here"):
        Path(name).mkdir(parents=True)
        assert lookup.locate([name], no_cache) == (lookup.Found(f"directory {name}", (Path(name),)),)
        Path(name).rmdir()
        Path(name).write_bytes(b"")
        assert lookup.locate([name], no_cache)[0].label == f"file {name}"


@pytest.mark.parametrize("other", ["/a/certs2/x:1", "/a/certs.old:1", "/b/certs/x:1"])
def test_outcome_belongs_to_the_place_that_holds_it(other: str) -> None:
    found = lookup.Found("a", (Path("/a/certs"), Path("/a/more.jsonl")))
    for source in ("/a/certs/x.jsonl:1", "/a/certs:1", "/a/more.jsonl:3", "/a/more.jsonl"):
        assert found.holds(source)
    assert not found.holds(other)


def test_path_object_is_never_a_name(hub: Hub) -> None:
    for name in (f"{REPO}@v1", "dist:pytest"):
        assert lookup.locate([Path(name)], no_cache)[0].label == f"file {name}"
    assert hub.cache.is_dir()


def audit(mine: Publisher, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = main(["verify", *words, "--trust", str(mine.root / "trust.toml"), *AT])
    return status, capsys.readouterr().out


def test_audit_says_where_each_was_found(
    mine: Publisher, hub: Hub, wheel: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KERNELS_CACHE", str(hub.cache))
    for word in (str(mine.project), f"{REPO}@v1", f"dist:{wheel}", str(mine.out)):
        status, out = audit(mine, capsys, word)
        label = lookup.locate([word], lambda: hub.cache)[0].label
        assert (status, out.splitlines()[0]) == (0, f"in {label}: 1 certificates"), word
        assert out.endswith("1 accepted, 0 refused, judged at 2026-12-01T00:00:00Z\n")
    status, out = audit(mine, capsys, f"{REPO}@v1", "--json")
    assert [one["place"].split()[0] for one in json.loads(out)] == ["release"]


def test_location_gives_no_trust(
    mine: Publisher, hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KERNELS_CACHE", str(hub.cache))
    blob = next((hub.snapshot((hub.home() / "refs/v1").read_text()) / "certificates").rglob("*.jsonl")).resolve()
    blob.write_bytes(blob.read_bytes().replace(b'"eyJ', b'"eyK'))
    status, out = audit(mine, capsys, f"{REPO}@v1")
    assert status == 1
    assert "[SIG_NONE]" in out
