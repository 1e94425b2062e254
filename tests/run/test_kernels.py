"""``--frt-kernel``: which build takes whose place, what the record will state of it, and what is a usage fault."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.devices.probe import present_facts
from pytest_frt.errors import KernelMismatch, UsageFault
from pytest_frt.lab.units import load_unit
from pytest_frt.registry import Registry
from pytest_frt.run.config import RunConfig, Selection
from pytest_frt.run.kernel_words import CachedRelease, KernelWord, LocalBuild, parse_kernel
from pytest_frt.run.kernels import Kernels, check_stated
from pytest_frt.run.plan import RunPlan, plan_run
from pytest_frt.seat.kernel_build import KernelBuild, read_build
from tests.hub import REPO, VARIANT, Hub, kernel_files, write_build

OWN = "pytest-frt/frt-cpu"
CPU: DeviceFacts = present_facts("cpu")


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    return Hub(tmp_path / "cache")


def kernels(hub: Hub, *asked: KernelWord, used: tuple[str, ...] = (REPO,), overridden: tuple[str, ...] = ()) -> Kernels:
    return Kernels(asked, used=used, cache=hub.cache, copies=hub.cache.parent / "copies", overridden=overridden)


def found(hub: Hub, *asked: KernelWord) -> KernelBuild:
    build = kernels(hub, *asked).of(REPO, "cpu")
    assert isinstance(build, KernelBuild), build
    return build


@pytest.mark.parametrize(
    ("word", "parsed"),
    [
        ("here", LocalBuild("{base}/here")),
        ("acme/toy=here", LocalBuild("{base}/here", REPO)),
        ("acme/toy@v1", CachedRelease(REPO, "v1")),
        ("acme/at@home", LocalBuild("{base}/acme/at@home")),
    ],
    ids=["path", "named_path", "release", "path_with_an_at"],
)
def test_words_are_read_and_written_alike(tmp_path: Path, word: str, parsed: KernelWord) -> None:
    for name in ("here", "acme/at@home"):
        (tmp_path / name).mkdir(parents=True)
    made = parse_kernel(word, tmp_path, "command line")
    expected = replace(parsed, path=parsed.path.format(base=tmp_path)) if isinstance(parsed, LocalBuild) else parsed
    assert made == expected
    assert parse_kernel(made.word, Path("/elsewhere"), "") == made


@pytest.mark.parametrize("word", ["", " "], ids=["empty", "blank"])
def test_an_empty_word_is_not_the_working_directory(tmp_path: Path, word: str) -> None:
    with pytest.raises(UsageFault, match="command line is empty"):
        parse_kernel(word, tmp_path, "command line")


def test_release_is_stated_by_its_commit_whatever_named_it(hub: Hub) -> None:
    first = hub.release(kernel_files(1), "v1", "1.0")
    second = hub.release(kernel_files(2), "v1")
    by_name = {name: found(hub, CachedRelease(REPO, name)) for name in ("v1", "1.0", first)}
    assert {name: build.facts.revision for name, build in by_name.items()} == {"v1": second, "1.0": first, first: first}
    assert by_name["1.0"].facts == by_name[first].facts
    assert by_name["v1"].facts.tree_digest != by_name[first].facts.tree_digest
    assert (by_name["v1"].facts.repo, by_name["v1"].facts.variant) == (REPO, VARIANT)


@pytest.mark.parametrize("inside", ["", "build", f"build/{VARIANT}"], ids=["project", "build", "variant"])
def test_local_build_takes_the_place_of_the_kernel_of_its_name(hub: Hub, tmp_path: Path, inside: str) -> None:
    write_build(tmp_path / "mine", kernel_files())
    chosen = kernels(hub, LocalBuild(str(tmp_path / "mine" / inside)), used=(REPO, "acme/other"))
    assert (chosen.selects(REPO), chosen.selects("acme/other")) == (True, False)
    build = chosen.of(REPO, "cpu")
    assert isinstance(build, KernelBuild)
    assert (build.facts.repo, build.facts.revision) == (REPO, build.facts.tree_digest)


def test_build_toml_outranks_the_name_of_the_build(hub: Hub, tmp_path: Path) -> None:
    write_build(tmp_path / "mine", kernel_files(name="toy"))
    (tmp_path / "mine/build.toml").write_text('[general]\nname = "toy"\n[general.hub]\nrepo-id = "acme/other"\n')
    chosen = kernels(hub, LocalBuild(str(tmp_path / "mine/build")), used=(REPO, "acme/other"))
    assert (chosen.selects(REPO), chosen.selects("acme/other")) == (False, True)


def project(root: Path, name: str = "toy", variant: str = VARIANT) -> LocalBuild:
    write_build(root / "mine", kernel_files(name=name), variant)
    return LocalBuild(str(root / "mine"))


Ask = Callable[[Hub, Path], Kernels]
FAULTS: dict[str, tuple[Ask, str, str]] = {
    "no_project": (
        lambda hub, root: kernels(hub, LocalBuild(str(root))),
        "is no kernel project",
        "holds build/",
    ),
    "unknown_name": (lambda hub, root: kernels(hub, project(root, "tyo")), "no impl uses a kernel", "REPO="),
    "typo_in_repo": (
        lambda hub, _: kernels(hub, CachedRelease("acme/tyo", "v1")),
        "no impl uses acme/tyo",
        "did you mean acme/toy",
    ),
    "ambiguous_name": (
        lambda hub, root: kernels(hub, project(root), used=(REPO, "zeta/toy")),
        "acme/toy, zeta/toy have the name",
        "REPO=",
    ),
    "twice": (
        lambda hub, root: kernels(hub, project(root), CachedRelease(REPO, "v1")),
        "two builds of acme/toy",
        "run of its own",
    ),
    "overridden": (
        lambda hub, root: kernels(hub, project(root), overridden=(REPO,)),
        "LOCAL_KERNELS overrides acme/toy",
        "unset LOCAL_KERNELS",
    ),
}


@pytest.mark.parametrize(("ask", "message", "hint"), FAULTS.values(), ids=FAULTS)
def test_what_cannot_be_meant_is_a_usage_fault(hub: Hub, tmp_path: Path, ask: Ask, message: str, hint: str) -> None:
    with pytest.raises(UsageFault, match=message) as caught:
        ask(hub, tmp_path)
    assert hint in caught.value.hint


def test_other_override_is_none_of_our_business(hub: Hub, tmp_path: Path) -> None:
    assert kernels(hub, project(tmp_path), overridden=("acme/other",)).selects(REPO)


def test_moved_branch_names_what_is_cached(hub: Hub) -> None:
    held = hub.release(kernel_files(), "v1")
    hub.point("v1", "e" * 40)
    with pytest.raises(UsageFault, match=f"v1 of {REPO} moved to commit eeee.*cached: {held}"):
        kernels(hub, CachedRelease(REPO, "v1")).of(REPO, "cpu")
    assert found(hub, CachedRelease(REPO, held)).facts.revision == held


@pytest.mark.parametrize("where", ["local", "release"])
def test_absent_variant_lists_those_there(hub: Hub, tmp_path: Path, where: str) -> None:
    hub.release(kernel_files(), "v1", variant="torch-cuda")
    asked = project(tmp_path, variant="torch-cuda") if where == "local" else CachedRelease(REPO, "v1")
    chosen = kernels(hub, asked)
    assert chosen.selects(REPO)
    chosen.of(REPO, "cpu")
    with pytest.raises(UsageFault, match="serves this machine") as caught:
        chosen.check_served()
    assert caught.value.hint.startswith("variants there: torch-cuda;")


def test_kernel_of_no_selected_impl_is_a_usage_fault(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="no selected impl uses acme/toy"):
        kernels(hub, project(tmp_path)).check_served()


def test_tampered_release_is_refused(hub: Hub) -> None:
    commit = hub.release(kernel_files(), "v1")
    (hub.snapshot(commit) / f"build/{VARIANT}/inner.py").resolve().write_bytes(b"VALUE = 3\n")
    with pytest.raises(KernelMismatch, match=r"inner\.py is not what was fetched"):
        kernels(hub, CachedRelease(REPO, "v1")).of(REPO, "cpu")


def stated(folder: Path, algorithm: str = "sha256", **spoil: str | None) -> Path:
    """Add the digests of a build to its metadata, as its builder does, and spoil some."""
    names = [name for name in kernel_files() if name != "metadata.json"]
    files = {
        name: base64.b64encode(hashlib.new(algorithm, (folder / name).read_bytes()).digest()).decode() for name in names
    } | {name.replace("_py", ".py"): value for name, value in spoil.items()}
    file = folder / "metadata.json"
    digest = {"algorithm": algorithm, "files": {name: value for name, value in files.items() if value is not None}}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"digest": digest}))
    return folder


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_build_that_is_what_its_metadata_states_passes(tmp_path: Path, algorithm: str) -> None:
    check_stated(read_build(REPO, stated(write_build(tmp_path, kernel_files()), algorithm), backend="cpu"))


def test_digests_of_a_weak_kind_are_refused(tmp_path: Path) -> None:
    build = read_build(REPO, stated(write_build(tmp_path, kernel_files()), "sha1"), backend="cpu")
    with pytest.raises(KernelMismatch, match="of a kind that is not known"):
        check_stated(build)


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [({"inner_py": "AAAA"}, "other bytes"), ({"inner_py": None}, "not stated"), ({"gone_py": "AAAA"}, "not there")],
    ids=["changed_file", "planted_file", "missing_file"],
)
def test_build_that_its_metadata_denies_is_refused(
    tmp_path: Path, spoil: dict[str, str | None], message: str, algorithm: str
) -> None:
    build = read_build(REPO, stated(write_build(tmp_path, kernel_files()), algorithm, **spoil), backend="cpu")
    with pytest.raises(KernelMismatch, match=message):
        check_stated(build)


@pytest.fixture
def own(hub: Hub, repository: Path) -> str:
    """A release of our own kernel; return its commit."""
    folder = repository / "csrc/frt_cpu/build/torch-cpu"
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    return hub.release(files, "v1", repo=OWN)


def planned(hub: Hub, *asked: KernelWord, host: str = "qwen3", impl: str = "torch_packed") -> RunPlan:
    only = {"structure": ("decoder_ffn",), "impl": (impl,), "host": (host,), "device": ("cpu",), "phase": ("decode",)}
    config = RunConfig(
        Selection(only), ("eager",), "tiny", None, "/out", str(hub.cache.parent / "own"), 0, None, "self",
        quick=False, timing=True, kernel=asked, json=None, threads=2, comparison=False, kernel_cache=str(hub.cache),
    )  # fmt: skip
    return plan_run(config, Registry.load(), [CPU])


def test_release_of_our_own_kernel_is_planned_and_loaded_with_its_commit(hub: Hub, own: str) -> None:
    plan = planned(hub, CachedRelease(OWN, "v1"))
    units = {record.unit for record in plan.records}
    assert {(unit.kernel_repo, unit.kernel_revision) for unit in units} == {(OWN, own)}
    assert all(Path(unit.kernel_path).is_relative_to(hub.cache.parent / "own") for unit in units)
    facts = load_unit(plan.records[0].unit).facts
    assert (facts.repo, facts.revision, facts.variant) == (OWN, own, "torch-cpu")


def test_local_build_states_no_commit(hub: Hub, repository: Path) -> None:
    plan = planned(hub, LocalBuild(str(repository / "csrc/frt_cpu")))
    assert {record.unit.kernel_revision for record in plan.records} == {""}


@pytest.mark.usefixtures("own")
def test_impls_of_other_kernels_are_left_out(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry.load()
    entry = registry.impl("decoder_ffn", "torch_packed")
    other = replace(entry, impl=replace(entry.impl, kernel="acme/nowhere"))
    changed = replace(registry, impls={**registry.impls, "decoder_ffn/torch_packed": other})
    monkeypatch.setattr(Registry, "load", classmethod(lambda _cls: changed))
    assert planned(hub).not_supported
    plan = planned(hub, CachedRelease(OWN, "v1"), impl="*")
    assert {record.key.cell.impl for record in plan.records}.isdisjoint({"torch_packed"})
    assert "torch_packed" not in {row.cell.impl for row in plan.not_supported}
    with pytest.raises(UsageFault, match=f"no selected impl uses {OWN}"):
        planned(hub, CachedRelease(OWN, "v1"))
