"""A record is kept only while everything its certificate binds is the same here; what differs is named."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.certs import dsse, keys, statement, store
from pytest_frt.contracts.record import FileDigest, PlanRecord, Record
from pytest_frt.devices.probe import machine_facts
from pytest_frt.errors import EvidenceError
from pytest_frt.gates import net_win
from pytest_frt.registry import Registry
from pytest_frt.run import evidence, proof
from pytest_frt.run.config import RunConfig, Selection
from pytest_frt.run.plan import RunPlan, plan_run
from pytest_frt.run.resume import resume
from pytest_frt.spec.digest import file_digest
from pytest_frt.spec.modules import load_file
from pytest_frt.spec.subjects import host_subjects, impl_subjects, scheme_subjects, structure_subjects

certified: Any = load_file(Path(__file__).parents[1] / "certs" / "conftest.py")
NOW = datetime.now(UTC).replace(microsecond=0)
TERMS: dict[str, Any] = {"issuer": "acme", "serial": 1, "issued_at": NOW, "expires_at": NOW + timedelta(days=90)}
THREADS = 2
Change = Callable[[Record], Record]


@dataclass
class Before:
    """An output directory with the statement of one record that holds here, and the run that goes on from it."""

    out: Path
    config: RunConfig
    registry: Registry
    plan: RunPlan
    record: Record

    @property
    def name(self) -> str:
        return self.record.key.id

    def state(self, record: Record | None = None, **terms: Any) -> bytes:
        payload = statement.build_cell(record or self.record, **(TERMS | terms))
        store.write_statement(self.out, payload)
        return payload

    def state_plan(self, *payloads: bytes) -> Path:
        stated = [statement.parse_payload(payload) for payload in payloads]
        pairs = sorted((one.payload_sha256, one.title) for one in stated)
        one = self.record
        plan = PlanRecord(
            self.plan.unions[0].name, tuple(n for n, _ in pairs), tuple(k for _, k in pairs), {}, certified.END_TO_END,
            one.host, one.device, one.software, 1, one.seed, one.checker,
        )  # fmt: skip
        return store.write_statement(self.out, statement.build_plan(plan, **TERMS))

    def resumed(self, **changed: Any) -> tuple[list[str], str]:
        """Return the ids that are kept, and why the record is judged again."""
        found = resume(self.plan, replace(self.config, **changed), self.registry).resumed
        assert found is not None
        return [one.plan.id for one in found.kept], (found.again or {}).get(self.name, "")


@pytest.fixture(scope="module")
def world() -> tuple[Registry, RunConfig, RunPlan, Record]:
    """Return a plan of one record on a tiny host, and a record that states exactly this machine and these sources."""
    registry = Registry.load()
    names = {"host": "qwen3", "structure": "decoder_ffn", "impl": "torch_packed", "scheme": "w16a32", "phase": "decode"}
    plain: dict[str, Any] = dict.fromkeys(("checkpoint", "sign_key", "json")) | {"kernel": ()}
    flags: dict[str, Any] = {"quick": False, "timing": True, "comparison": False, "seed": 7, "threads": THREADS}
    selection = Selection({key: (name,) for key, name in names.items()})
    config = RunConfig(selection, ("eager",), "tiny", out="", cache="", issuer="acme", resume=True, **plain, **flags)
    plan = plan_run(config, registry, machine_facts())
    one, cell = plan.records[0], plan.records[0].key.cell
    files = {
        **impl_subjects(registry.impl(cell.structure, cell.impl)),
        **structure_subjects(registry.structure(cell.structure)),
        **scheme_subjects(registry.scheme(cell.scheme)),
        **host_subjects(registry.host(cell.host)),
    }
    subjects = (
        FileDigest("kernel/__init__.py", hashlib.sha256(b"kernel").hexdigest()),
        *(FileDigest(name, file_digest(file)) for name, file in files.items() if file.stat().st_size),
    )
    library = {"transformers": importlib.metadata.version("transformers")}
    host = replace(certified.HOST, name="qwen3", weights="random", checkpoint="synthetic(7, normal)", library=library)
    record = replace(
        certified.RECORD,
        key=one.key,
        subjects=subjects,
        kernel=replace(certified.RECORD.kernel, tree_digest=one.unit.kernel_digest),
        host=host,
        device=proof.device_facts("cpu", THREADS),
        software=proof.software(),
        rows=one.unit.rows,
        checker=proof.checker(),
        seed=7,
    )
    return registry, config, plan, record


@pytest.fixture
def before(world: tuple[Registry, RunConfig, RunPlan, Record], tmp_path: Path, toy: Any) -> Before:
    registry, config, plan, record = world
    timing = toy.timing(1.3)
    kept = evidence.keep(tmp_path, record.key.id, timing, net_win.judge(timing, output="values"), output="values")
    bound = replace(record, evidence=(FileDigest(evidence.BOUND, kept.sha256),))
    return Before(tmp_path, replace(config, out=str(tmp_path), cache=str(tmp_path / "cache")), registry, plan, bound)


def test_record_that_holds_here_is_kept_and_its_union_judged(before: Before) -> None:
    before.state()
    found = resume(before.plan, before.config, before.registry)
    assert (found.records, found.aside) == ((), (before.name,))
    assert found.unions == before.plan.unions
    assert found.kept[0].pairs.subject == before.name


def test_plan_of_kept_records_is_kept(before: Before) -> None:
    path = before.state_plan(before.state())
    found = resume(before.plan, before.config, before.registry)
    assert found.unions == ()
    assert found.resumed is not None
    assert [(one.name, one.source) for one in found.resumed.plans] == [(before.plan.unions[0].name, path)]


def test_plan_of_another_certificate_is_not_kept(before: Before) -> None:
    first = before.state(serial=2)
    before.state_plan(first)
    before.state(issued_at=NOW + timedelta(seconds=5))
    assert resume(before.plan, before.config, before.registry).unions == before.plan.unions


def _digest_of(role: str) -> Change:
    def change(record: Record) -> Record:
        moved = [replace(s, sha256="1" * 64) if s.name.startswith(f"{role}/") else s for s in record.subjects]
        return replace(record, subjects=tuple(moved))

    return change


DIFFERENCES: dict[str, tuple[Change, str]] = {
    "device": (lambda r: replace(r, device=replace(r.device, name="Other CPU")), "device name is certified as Other"),
    "threads": (lambda r: replace(r, device=replace(r.device, threads=7)), "device threads is certified as 7, here"),
    "torch": (lambda r: replace(r, software={**r.software, "torch": "1.0"}), "torch is certified as 1.0, installed is"),
    "library": (
        lambda r: replace(r, host=replace(r.host, library={"transformers": "1.0"})),
        "transformers, which defines the model, is certified as 1.0",
    ),
    "distribution": (
        lambda r: replace(r, subjects=(*r.subjects, FileDigest("dist/numpy-1.0", "1" * 64))),
        "RECORD of numpy-1.0 is certified as",
    ),
    "impl": (_digest_of("impl"), "impl/"),
    "structure": (_digest_of("structure"), "structure/structure.yaml is certified with sha256 111"),
    "reference": (_digest_of("reference"), "reference/"),
    "scheme": (_digest_of("scheme"), "scheme/w16a32.py is certified with sha256 111"),
    "host": (_digest_of("host"), "host/"),
    "kernel": (lambda r: replace(r, kernel=replace(r.kernel, tree_digest="1" * 64)), "kernel tree is certified as 111"),
    "judge": (lambda r: replace(r, checker=FileDigest(r.checker.name, "1" * 64)), "judge is certified as 111"),
    "seed": (lambda r: replace(r, seed=8), "seed is certified as 8, here it is 7"),
    "rows": (lambda r: replace(r, rows=(1, 4)), "row band is certified as (1, 4)"),
    "checkpoint": (
        lambda r: replace(r, host=replace(r.host, checkpoint=f"sha256:{'1' * 64}")),
        "no checkpoint file below",
    ),
    "pairs": (lambda r: replace(r, evidence=(FileDigest(evidence.BOUND, "1" * 64),)), "its timed pairs are not below"),
    "unbound_pairs": (lambda r: replace(r, evidence=()), "its timed pairs are not below"),
}


@pytest.mark.parametrize(("change", "said"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_what_differs_is_judged_again_and_named(before: Before, change: Change, said: str) -> None:
    before.state(change(before.record))
    kept, why = before.resumed()
    assert kept == []
    assert why.startswith(said), why


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"threads": 3}, "device threads is certified as 2, here it is 3"),
        ({"seed": 9}, "seed is certified as 7, here it is 9"),
        ({"issuer": "other"}, "its issuer is acme, this run's is other"),
        ({"family_alpha": 0.001}, "its net win was judged at level of the rule"),
    ],
    ids=["threads", "seed", "issuer", "family"],
)
def test_other_settings_judge_again(before: Before, change: dict[str, Any], said: str) -> None:
    before.state()
    kept, why = before.resumed(**change)
    assert kept == []
    assert why.startswith(said), why


def test_file_that_only_has_the_name_of_a_certificate_is_none(before: Before) -> None:
    payload = before.state()
    (path,) = before.out.rglob(f"*{store.STATEMENT_SUFFIX}")
    document = json.loads(payload)
    document["predicate"]["seed"] = 8
    path.write_bytes(json.dumps(document).encode())
    kept, why = before.resumed()
    assert kept == []
    assert "no certificate of it lies below" in why or "seed is certified as 8" in why


def test_statement_under_another_name_is_found(before: Before) -> None:
    before.state()
    (path,) = before.out.rglob(f"*{store.STATEMENT_SUFFIX}")
    path.rename(before.out / f"anything{store.STATEMENT_SUFFIX}")
    assert before.resumed()[0] == [before.name]


def test_expired_certificate_is_judged_again(before: Before) -> None:
    before.state(issued_at=NOW - timedelta(days=90), expires_at=NOW - timedelta(days=1))
    assert before.resumed()[1].startswith("it expired on ")


def test_certified_checkpoint_is_found_by_content(before: Before) -> None:
    file = before.out / "cache" / "toy" / "weights.safetensors"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"weights")
    before.state(replace(before.record, host=replace(before.record.host, checkpoint=f"sha256:{file_digest(file)}")))
    assert before.resumed()[0] == [before.name]
    file.write_bytes(b"other weights")
    assert "no checkpoint file below" in before.resumed()[1]


@pytest.mark.parametrize("signer", ["this_key", "another_key", "nobody"])
def test_run_that_signs_keeps_what_its_own_key_signed(before: Before, signer: str) -> None:
    key, other = keys.generate(), keys.generate()
    keys.write_private(before.out / "k.pem", key)
    (before.out / "k.pub").write_text(f"{key.public.text}\n")
    payload = statement.build_cell(before.record, **TERMS)
    if signer == "nobody":
        store.write_statement(before.out, payload)
    else:
        store.write_certificate(before.out, dsse.sign(payload, key if signer == "this_key" else other))
    kept, why = before.resumed(sign_key=str(before.out / "k.pem"))
    assert kept == ([before.name] if signer == "this_key" else [])
    assert why.startswith("" if signer == "this_key" else "this run's key did not sign it")


def test_worker_keeps_what_its_controller_keeps_or_says_why_not(before: Before) -> None:
    before.state()
    assert resume(before.plan, before.config, before.registry, only=[]).records == before.plan.records
    assert resume(before.plan, before.config, before.registry, only=[before.name]).records == ()
    with pytest.raises(EvidenceError, match="kept by the controller"):
        resume(before.plan, replace(before.config, seed=9), before.registry, only=[before.name])


def test_emulated_record_is_never_kept(before: Before) -> None:
    before.state()
    plan = replace(before.plan, records=tuple(replace(one, emulated=True) for one in before.plan.records))
    found = resume(plan, before.config, before.registry).resumed
    assert found is not None
    assert (found.kept, found.again) == ((), {before.name: "emulated on cpu: what is stated of cpu holds there"})
    with pytest.raises(EvidenceError, match="kept by the controller"):
        resume(plan, before.config, before.registry, only=[before.name])


def test_empty_directory_judges_everything(before: Before) -> None:
    kept, why = before.resumed(out=str(before.out / "nowhere"))
    assert (kept, why) == ([], f"no certificate of it lies below {before.out / 'nowhere'}")
