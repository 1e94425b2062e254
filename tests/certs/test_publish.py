"""``frt publish``: certificates beside their builds, all or none, and a repo that its client still loads."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_frt.certs import publish, store, verify
from pytest_frt.cli import main
from pytest_frt.errors import CertificateRefused, FrtError, StorageFault, UsageFault
from tests.certs.conftest import World
from tests.certs.releases import SCALES, Publisher, listing
from tests.hub import REPO, VARIANT, Hub

ARTEFACT = f"decoder_ffn/{hashlib.sha256(SCALES).hexdigest()}.safetensors"


@pytest.fixture
def mine(world: World, tmp_path: Path) -> Publisher:
    return Publisher(world, tmp_path)


def lay(mine: Publisher) -> tuple[str, ...]:
    return publish.write_shipment(mine.project, publish.plan_shipment(mine.project, [mine.out]))


def test_certificate_artefact_plan_and_index_lie_in_their_places(mine: Publisher) -> None:
    build = mine.build()
    cell, plan = mine.certify(build), mine.plan(build)
    mine.index(1, cell, plan)
    before = listing(mine.project)
    places = [
        ARTEFACT,
        f"decoder_ffn/{cell[:16]}.frt.intoto.jsonl",
        f"plans/{plan[:16]}.frt.intoto.jsonl",
        "index.intoto.jsonl",
    ]
    assert list(lay(mine)) == places
    found = listing(mine.project)
    assert found.keys() - before.keys() == {f"certificates/{name}" for name in places}
    assert found[f"certificates/{ARTEFACT}"] == SCALES
    outcomes = verify.verify_paths([mine.project / "certificates"], mine.world.policy(), mine.world.now)
    assert {one.name for one in outcomes if isinstance(one, verify.Accepted)} == {cell, plan}


def test_second_call_writes_nothing(mine: Publisher) -> None:
    mine.certify(mine.build())
    lay(mine)
    before = listing(mine.project)
    assert lay(mine) == ()
    assert listing(mine.project) == before


def test_signers_of_one_certificate_add_up(mine: Publisher) -> None:
    name = mine.certify(mine.build())
    lay(mine)
    place = mine.project / f"certificates/decoder_ffn/{name[:16]}.frt.intoto.jsonl"
    payload = base64.b64decode(json.loads(place.read_bytes())["payload"])
    for file in mine.out.rglob("*.jsonl"):
        file.write_bytes(mine.world.line(payload, mine.world.bob) + b"\n")
    lay(mine)
    keyids = [json.loads(line)["signatures"][0]["keyid"] for line in place.read_bytes().splitlines()]
    assert keyids == [mine.world.alice.public.keyid, mine.world.bob.public.keyid]


def other_build(mine: Publisher) -> None:
    (mine.project / "build" / VARIANT / "inner.py").write_bytes(b"VALUE = 9\n")


def no_build(mine: Publisher) -> None:
    (mine.project / "build").rename(mine.project / "gone")


def bytecode(mine: Publisher) -> None:
    (mine.project / "build" / VARIANT / "__pycache__").mkdir()


def artefact_gone(mine: Publisher) -> None:
    next(mine.out.rglob("*.safetensors")).unlink()


def artefact_changed(mine: Publisher) -> None:
    next(mine.out.rglob("*.safetensors")).write_bytes(b"other")


def torn_line(mine: Publisher) -> None:
    next(mine.out.rglob("*.jsonl")).write_bytes(b'{"payload"\n')


def looser_gate(mine: Publisher) -> None:
    build = mine.project / "build" / VARIANT
    payload = mine.world.spoiled(lambda found: found["predicate"].update(result="FAILED"), _payload(mine, build))
    next(mine.out.rglob("*.jsonl")).write_bytes(mine.world.line(payload) + b"\n")


def lone_plan(mine: Publisher) -> None:
    mine.plan(mine.project / "build" / VARIANT)
    next(file for file in mine.out.rglob("*.jsonl") if not file.name.startswith("plan-")).unlink()


def linked_folder(mine: Publisher) -> None:
    (mine.root / "elsewhere").mkdir()
    (mine.project / "certificates").symlink_to(mine.root / "elsewhere", target_is_directory=True)


def no_certificate(mine: Publisher) -> None:
    for file in mine.out.rglob("*.jsonl"):
        file.unlink()


def _payload(mine: Publisher, build: Path) -> bytes:
    name = mine.certify(build)
    file = next(path for path in mine.out.rglob("*.jsonl") if name[:12] in path.name)
    return base64.b64decode(json.loads(file.read_bytes())["payload"])


SPOILED: dict[Callable[[Publisher], None], str] = {
    other_build: "KERNEL_TREE",
    no_build: "USAGE",
    bytecode: "TREE_BYTECODE",
    artefact_gone: "ARTEFACT",
    artefact_changed: "ARTEFACT",
    torn_line: "JSON_SYNTAX",
    looser_gate: "RESULT",
    lone_plan: "PLAN_MEMBER",
    linked_folder: "TREE_SYMLINK",
    no_certificate: "USAGE",
}


@pytest.mark.parametrize(("spoil", "code"), SPOILED.items(), ids=[one.__name__ for one in SPOILED])
def test_what_must_not_be_published_writes_nothing(
    mine: Publisher, spoil: Callable[[Publisher], None], code: str
) -> None:
    mine.certify(mine.build())
    spoil(mine)
    before = listing(mine.project)
    with pytest.raises(FrtError) as caught:
        lay(mine)
    assert getattr(caught.value, "refusal_code", caught.value.code) == code
    assert listing(mine.project) == before


def test_refusal_names_both_digests(mine: Publisher) -> None:
    build = mine.build()
    mine.certify(build)
    was = publish.variants(mine.project)[VARIANT]
    other_build(mine)
    now = publish.variants(mine.project)[VARIANT]
    with pytest.raises(CertificateRefused, match=f"with tree digest {was}, here lie {VARIANT} with {now}"):
        lay(mine)


def test_any_of_several_variants_may_be_the_certified_one(mine: Publisher) -> None:
    mine.build(2, "torch-cuda")
    mine.certify(mine.build(1))
    assert len(lay(mine)) == 2


def test_certificate_of_an_earlier_build_is_called_stale(mine: Publisher) -> None:
    name = mine.certify(mine.build(1))
    lay(mine)
    for file in mine.out.rglob("*.jsonl"):
        file.unlink()
    mine.certify(mine.build(2))
    shipment = publish.plan_shipment(mine.project, [mine.out])
    assert shipment.stale == (f"decoder_ffn/{name[:16]}.frt.intoto.jsonl",)


def test_plan_of_cells_published_before_is_taken(mine: Publisher) -> None:
    build = mine.build()
    mine.certify(build)
    lay(mine)
    lone_plan(mine)
    assert [name.split("/")[0] for name in lay(mine)] == ["plans"]


def test_newer_index_replaces_and_older_is_refused(mine: Publisher) -> None:
    name = mine.certify(mine.build())
    mine.index(2, name)
    lay(mine)
    mine.index(3, name)
    assert lay(mine) == ("index.intoto.jsonl",)
    assert len((mine.project / "certificates/index.intoto.jsonl").read_bytes().splitlines()) == 1
    mine.index(2, name)
    with pytest.raises(CertificateRefused, match="holds version 3"):
        lay(mine)


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_full_disk_leaves_everything_as_it_was(mine: Publisher, monkeypatch: pytest.MonkeyPatch, fails_at: int) -> None:
    cell = mine.certify(mine.build())
    mine.index(1, cell)
    before, seen = sorted(mine.project.rglob("*")), iter(range(9))
    real = publish.write_atomic

    def write(path: Path, data: bytes) -> None:
        if next(seen) == fails_at:
            raise StorageFault("disk full")
        real(path, data)

    monkeypatch.setattr(publish, "write_atomic", write)
    with pytest.raises(StorageFault):
        lay(mine)
    assert sorted(mine.project.rglob("*")) == before


def test_command_says_what_it_did(
    mine: Publisher, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mine.certify(mine.build())
    monkeypatch.chdir(mine.root)
    assert main(["publish", "mine", "--dry-run"]) == 0
    assert not (mine.project / "certificates").exists()
    assert main(["publish", "mine"]) == main(["publish", "mine", "--certificates", "frt-certs"]) == 0
    words = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "published" not in line]
    assert [word for word in words if "/" not in word] == ["checked", "written", "kept"]
    assert main(["publish", "absent"]) == UsageFault.exit_code


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Take the kernels a test loads out of ``sys.modules`` again."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("acme_toy"):
            del sys.modules[name]


@pytest.mark.usefixtures("forgotten")
def test_client_still_loads_and_verifies_the_project(mine: Publisher) -> None:
    kernels, rust = importlib.import_module("kernels"), importlib.import_module("kernels._rust")
    build = mine.build()
    stated = rust.Digest.hash_variant(rust.DigestAlgorithm.SHA256, build)
    mine.certify(build)
    lay(mine)
    rust.Digest.hash_variant(rust.DigestAlgorithm.SHA256, build).validate(stated)
    assert kernels.get_local_kernel(mine.project).VALUE == 1


@pytest.mark.usefixtures("forgotten")
def test_client_loads_the_release_with_certificates_offline(mine: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, hub = importlib.import_module("kernels"), Hub(mine.root / "cache")
    mine.certify(mine.build())
    lay(mine)
    commit = hub.commit(listing(mine.project), "v1")
    for module in ("install", "resolver", "hf_hub"):
        monkeypatch.setattr(importlib.import_module(f"kernels.{module}"), "CACHE_DIR", str(hub.cache))
    monkeypatch.setenv("KERNELS_CACHE", str(hub.cache))
    for named in ({"version": 1}, {"revision": commit}):
        loaded = kernels.get_kernel(REPO, backend="cpu", trust_remote_code=True, **named)
        assert loaded.VALUE == 1
        assert Path(loaded.__file__).is_relative_to(hub.snapshot(commit))


def test_index_name_is_no_certificate_name() -> None:
    assert not store.INDEX_NAME.endswith(store.CERTIFICATE_SUFFIX)
