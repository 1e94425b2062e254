"""Attach activates what certificates prove; whatever differs is refused by name and leaves the model bit-identical."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import torch

from pytest_frt import attach
from pytest_frt.certs import policy
from pytest_frt.contracts.record import FileDigest
from pytest_frt.errors import CertificateRefused, GuardRefused, SwapRefused, UsageFault
from pytest_frt.runtime.imports import PRIVATE_PREFIX
from pytest_frt.spec.digest import file_digest

if TYPE_CHECKING:
    from tests.runtime.conftest import World


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(0))


def test_certified_seats_serve_and_detach_is_exact(world: World, x: torch.Tensor) -> None:
    with world.certify().attach() as handle:
        block, twin = world.model.blocks[0], world.twin.blocks[0]
        assert torch.allclose(block(x), 2 * twin(x), atol=1e-6)
        assert torch.equal(block(x.repeat(3, 1)), twin(x.repeat(3, 1)))
        assert [(one.served, one.band) for one in handle.report()] == [(1, 1), (0, 0)]
        assert {one.seat: one.code for one in handle.seats} == {
            "blocks.0": "",
            "blocks.1": "",
            "blocks.9": "NOT_CERTIFIED",
        }
    assert not handle.active
    handle.detach()
    assert world.is_untouched()


def test_nothing_of_the_entry_stays_importable(world: World) -> None:
    before = set(sys.modules)
    world.certify().attach()
    left = {name.partition(".")[0] for name in set(sys.modules) - before}
    assert all(name.startswith(PRIVATE_PREFIX) for name in left), left


def test_only_plans_are_activated_unless_the_policy_says_cells(world: World) -> None:
    world.certify()
    for plan in world.out.rglob("plan-*"):
        plan.unlink()
    handle = world.attach()
    assert not handle.active
    assert [one.code for one in handle.refused] == ["NO_PLAN"]
    cells = world.attach(('composition = "plan"', 'composition = "cell"'))
    assert cells.active
    assert cells.plan == ""


def test_refused_member_refuses_the_plan_whole(world: World) -> None:
    records = [world.record([0]), replace(world.record([1]), impl_version=4)]
    records[1] = replace(records[1], key=replace(records[1].key, cache="cold"))
    handle = world.certify(*records).attach()
    assert not handle.active
    assert {one.seat: one.code for one in handle.seats if one.seat != "blocks.9"} == {
        "blocks.0": "CELL_IMPL",
        "blocks.1": "CELL_IMPL",
    }
    assert "its plan is refused whole, because of toy_ffn-toy-toy-toy-cpu@eager.decode.tiny.cold" in handle.explain()
    assert world.is_untouched()


def test_cells_are_activated_one_by_one_where_the_policy_says_so(world: World) -> None:
    records = [world.record([0]), replace(world.record([1]), impl_version=4)]
    records[1] = replace(records[1], key=replace(records[1].key, cache="cold"))
    handle = world.certify(*records).attach(('composition = "plan"', 'composition = "cell"'))
    assert {one.seat for one in handle.seats if one.used} == {"blocks.0"}
    handle.detach()
    assert world.is_untouched()


def test_newest_certificate_wins_and_the_older_says_so(world: World) -> None:
    world.certify()
    older = world.terms["issued_at"] - timedelta(days=1)
    world.terms |= {"issued_at": older, "serial": 2}
    world.certify()
    handle = world.attach()
    used = {one.certificate for one in handle.seats if one.used}
    refused = {one.certificate for one in handle.seats if one.code == "OVERLAP"}
    assert (len(used), len(refused), used & refused) == (1, 1, set())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (('status = "active"', 'status = "revoked"'), "SIG_REVOKED"),
        (('structures = ["*"]', 'structures = ["other@1"]'), "NO_RULE"),
        (('expires = "2027-03-01T00:00:00Z"', 'expires = "2026-11-25T00:00:00Z"'), "POLICY_EXPIRED"),
    ],
    ids=["revoked_key", "no_rule", "expired_policy"],
)
def test_policy_refuses_before_anything_is_matched(world: World, change: tuple[str, str], code: str) -> None:
    handle = world.certify().attach(change)
    assert not handle.active
    assert code in {one.code for one in handle.refused}
    assert f"[{code}]" in handle.explain()


def test_expired_certificate_is_refused(world: World) -> None:
    handle = world.certify().attach(now=world.terms["expires_at"] + timedelta(seconds=1), trust=loaded(world))
    assert "EXPIRED" in {one.code for one in handle.refused}


def loaded(world: World) -> policy.Policy:
    found = policy.load(world.trust())
    return replace(found, expires=found.expires + timedelta(days=900))


def test_strict_mode_raises_on_misfits(world: World, x: torch.Tensor) -> None:
    world.certify().attach(strict=True)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(GuardRefused, match=r"blocks\.0 refuses a call"):
        world.model(x)


def test_attaching_twice_is_refused_and_keeps_the_first(world: World) -> None:
    first = world.certify().attach()
    second = world.attach()
    assert not second.active
    assert "[SEATED] seat blocks.0 is attached already" in second.explain()
    assert first.active
    first.detach()
    assert world.is_untouched()


def test_training_mode_is_an_error(world: World) -> None:
    world.certify()
    world.model.train()
    with pytest.raises(SwapRefused, match="training mode"):
        world.attach()


@pytest.mark.parametrize(
    ("options", "error"),
    [({"certificates": "nowhere"}, UsageFault), ({"trust": "nowhere.toml"}, UsageFault)],
    ids=["certificates", "trust"],
)
def test_missing_path_is_a_usage_fault(world: World, options: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error, match="nowhere"):
        world.certify().attach(**options)


def test_open_trust_file_is_refused(world: World) -> None:
    path = world.certify().trust()
    path.chmod(0o666)
    with pytest.raises(CertificateRefused, match="open to others"):
        attach(world.model, certificates=world.out, trust=path)


def test_compiled_wrapper_is_seen_through(world: World, x: torch.Tensor) -> None:
    world.certify()
    plain, world.model = world.model, torch.compile(world.model, backend="eager")
    handle = world.attach()
    world.model(x)
    assert [one.served for one in handle.report()] == [1, 1]
    handle.detach()
    world.model = plain
    assert world.model(x).equal(world.twin(x))


def test_host_that_is_not_installed_is_given_by_folder(world: World) -> None:
    entry = world.root / "hosts" / "toy" / "host.py"
    entry.write_text(
        "def projection(model):\n    return {'width': model.config.width, 'hidden': model.config.hidden}\n"
    )
    folder = world.root / "mine"
    shutil.copytree(world.root / "hosts" / "toy", folder / "toy")
    record = world.record()
    named = {f"host/toy/{name}": folder / "toy" / name for name in ("host.yaml", "host.py")}
    files = tuple(FileDigest(name, file_digest(path)) for name, path in named.items())
    others = tuple(one for one in record.subjects if not one.name.startswith("host/"))
    world.certify(replace(record, subjects=others + files))
    shutil.rmtree(world.root / "hosts" / "toy")
    assert "no hosts entry" in world.attach().explain()
    assert world.attach(host=folder / "toy").active
