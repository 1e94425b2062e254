"""A small world on disk: structure, impl, host, scheme, kernel, model, certificates and the policy that trusts them."""

from __future__ import annotations

import copy
import json
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.cell import Cell, RecordKey
from pytest_frt.certs import dsse, keys, statement, store
from pytest_frt.contracts.impl import Scales
from pytest_frt.contracts.record import (
    CalibrationFacts,
    FileDigest,
    KernelFacts,
    PlanRecord,
    Record,
    SeatRecord,
)
from pytest_frt.contracts.seat import ModuleSeat, PointAt, SeatFacts, SlotRef
from pytest_frt.devices.probe import present_facts
from pytest_frt.registry import Registry
from pytest_frt.runtime.attach import attach
from pytest_frt.runtime.handle import Handle
from pytest_frt.seat import jit_caches
from pytest_frt.seat.artefact import save_artefact
from pytest_frt.seat.hostfacts import host_facts
from pytest_frt.seat.kernel_build import read_build
from pytest_frt.seat.weights import weights_digest
from pytest_frt.spec.digest import file_digest
from pytest_frt.spec.entries import Provider
from pytest_frt.spec.modules import load_file
from pytest_frt.spec.subjects import host_subjects, impl_subjects, scheme_subjects, structure_subjects

sample = load_file(Path(__file__).parents[1] / "certs" / "sample.py")
NOW = datetime(2026, 12, 1, tzinfo=UTC)
KEY = keys.generate()
REPO = "acme/toy"
IMPLS, HOSTS = "toy_world_impls", "toy_world_hosts"

FILES = Path(__file__).parent / "world"
"""What a deployer has on disk; copied for every test, so that a test may spoil it."""
POLICY = f"""
schema = "frt-trust/1"
version = 1
expires = "2027-03-01T00:00:00Z"
min_time = "2026-11-20T00:00:00Z"
composition = "plan"
require = {{ software = ["torch"], device = ["arch", "name"], host = ["configDigest"] }}
{sample.key_table("alice", KEY.public)}[[rule]]
issuer = "acme"
signers = ["alice"]
structures = ["*"]
kernels = ["*"]
hosts = ["*"]
devices = ["*"]
schemes = ["*"]
"""


GATES = sample.gates(plan=False)


@dataclass
class World:
    """Everything a deployer has. Tests change one thing in it, before or after it is certified.

    Attributes:
        root: Folder of the world.
        model: The live model.
        twin: An untouched copy of it.
        claims: Changes to the record that is certified.
        terms: Who issues, and for how long.
    """

    root: Path
    model: nn.Module
    twin: nn.Module
    claims: dict[str, Any] = field(default_factory=dict)
    terms: dict[str, Any] = field(
        default_factory=lambda: {
            "issuer": "acme",
            "serial": 1,
            "issued_at": NOW - timedelta(days=2),
            "expires_at": NOW + timedelta(days=90),
        }
    )

    @property
    def registry(self) -> Registry:
        given = {"catalog": "toy_world_catalog", "impls": IMPLS, "hosts": HOSTS, "schemes": "toy_world_schemes"}
        return Registry.of([Provider(group, package, "acme 1", self.root / group) for group, package in given.items()])

    @property
    def out(self) -> Path:
        return self.root / "certs"

    @property
    def kernel(self) -> Path:
        return self.root / "kernel" / "build" / "torch-cpu"

    @property
    def kernel_id(self) -> str:
        return str(json.loads((self.kernel / "metadata.json").read_text())["id"])

    def rename_kernel(self, name: str = "") -> World:
        """Give the kernel an id, by default one that nothing in this process has."""
        document = json.loads((self.kernel / "metadata.json").read_text())
        document["id"] = name or f"toy_world_{secrets.token_hex(6)}"
        (self.kernel / "metadata.json").write_text(json.dumps(document))
        return self

    def facts(self, block: int) -> SeatFacts:
        at = f"blocks.{block}"
        slots = {
            "w_up": SlotRef(f"{at}.up.weight", transpose=True),
            "w_down": SlotRef(f"{at}.down.weight", transpose=True),
        }
        dims, points = {"D": 8, "F": 12}, {"x": PointAt(at)}
        return SeatFacts("toy_ffn", ModuleSeat(at), {"activation": "relu"}, dims, slots, {}, "float32", points)

    def record(self, blocks: Iterable[int] = (0, 1)) -> Record:
        """Return the record of the world as it lies on disk and in memory now."""
        registry, seats = self.registry, [self.facts(block) for block in blocks]
        build = read_build(REPO, self.root / "kernel", backend="cpu")
        named = {
            **impl_subjects(registry.impl("toy_ffn", "toy")),
            **structure_subjects(registry.structure("toy_ffn")),
            **scheme_subjects(registry.scheme("toy")),
            **host_subjects(registry.host("toy")),
        }
        subjects = [FileDigest(f"kernel/{file.name}", file.sha256) for file in build.files]
        subjects += [FileDigest(name, file_digest(path)) for name, path in named.items()]
        host = host_facts(
            self.model,
            name="toy",
            projection={"width": 8, "hidden": 12},
            seats=seats,
            weights="trained",
            checkpoint=f"sha256:{'c' * 64}",
        )
        scales = self.root / "scales.safetensors"
        save_artefact(scales, {seat.id: Scales({"x": 0.25}) for seat in seats})
        store.write_artefact(self.out, "toy", "cpu", scales.read_bytes())
        artefact = FileDigest("scales.safetensors", file_digest(scales))
        return replace(
            Record(
                key=RecordKey(Cell("toy_ffn", "toy", "toy", "toy", "cpu"), "eager", "decode", "tiny"),
                structure_version=1,
                impl_version=3,
                subjects=tuple(subjects),
                kernel=KernelFacts(REPO, build.facts.revision, build.facts.variant, build.facts.tree_digest),
                host=host,
                device=present_facts("cpu"),
                software={"torch": metadata.version("torch")},
                seats=tuple(SeatRecord(seat, weights_digest(self.model, seat), {"x": "0.25"}) for seat in seats),
                refused={"blocks.9": "parity: too far"},
                rows=(1, 8),
                dtype="float32",
                calibration=CalibrationFacts(artefact, "amax", 1, "d" * 64, "e" * 64),
                gates=GATES,
                attempts=1,
                seed=7,
                evidence=(),
                checker=FileDigest("pytest-frt", "f" * 64),
            ),
            **self.claims,
        )

    def certify(self, *records: Record) -> World:
        """Sign the records (or the world's own) and a plan of them all."""
        cells = [statement.build_cell(record, **self.terms) for record in records or (self.record(),)]
        plan = plan_record(*cells)
        for payload in (*cells, statement.build_plan(plan, **self.terms)):
            store.write_certificate(self.out, dsse.sign(payload, KEY))
        return self

    def trust(self, *changes: tuple[str, str]) -> Path:
        text = POLICY
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        path = self.root / "trust.toml"
        path.write_text(text)
        path.chmod(0o600)
        return path

    def attach(self, *changes: tuple[str, str], **options: Any) -> Handle:
        trust = self.trust(*changes)
        builds = {REPO: self.root / "kernel"}
        return attach(self.model, **{"certificates": self.out, "trust": trust, "now": NOW, "kernels": builds} | options)

    def is_untouched(self) -> bool:
        """Whether the model is the untouched twin: tree, attributes, tensors and answers."""
        ours, theirs = dict(self.model.named_modules()), dict(self.twin.named_modules())
        mine, its = self.model.state_dict(), self.twin.state_dict()
        return (
            list(ours) == list(theirs)
            and all(type(ours[at]) is type(theirs[at]) and set(vars(ours[at])) == set(vars(theirs[at])) for at in ours)
            and all(torch.equal(mine[name], its[name]) for name in its)
            and torch.equal(self.model(rows(4)), self.twin(rows(4)))
        )


def plan_record(*cells: bytes, name: str = "toy-cpu@eager.decode.tiny.hot") -> PlanRecord:
    """Return the plan of cells of one process."""
    first = statement.parse_payload(cells[0])
    assert isinstance(first, statement.CellCertificate)
    of = first.record
    where = {"host": of.host, "device": of.device, "software": of.software, "checker": of.checker}
    made: PlanRecord = sample.plan_record(*cells, name=name, **where)
    return made


def rows(count: int) -> Tensor:
    return torch.randn(count, 8, generator=torch.Generator().manual_seed(count))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a world that nobody has certified yet."""
    for variable in (jit_caches.TRITON, jit_caches.EXTENSIONS, jit_caches.INDUCTOR):
        monkeypatch.setenv(variable, str(tmp_path / "jit" / variable.lower()))
    monkeypatch.delenv("LOCAL_KERNELS", raising=False)
    root = shutil.copytree(FILES, tmp_path / "world", ignore=shutil.ignore_patterns("__pycache__"))
    module: ModuleType = load_file(root / "model.py")
    torch.manual_seed(0)
    model = module.Model().eval().requires_grad_(requires_grad=False)
    built = World(root, model, copy.deepcopy(model))
    monkeypatch.setattr(Registry, "load", classmethod(lambda _cls: built.registry))
    return built
