"""Attach activates what certificates prove; whatever differs is refused by name and leaves the model bit-identical."""

from __future__ import annotations

import py_compile
import shutil
import sys
import types
from collections.abc import Callable
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


def edit(name: str, old: str, new: str) -> Callable[[World], object]:
    def spoil(world: World) -> None:
        path = world.root / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return spoil


def extra_file(name: str) -> Callable[[World], object]:
    return lambda world: (world.root / name).write_text("x = 1\n")


def other_weight(world: World) -> None:
    world.model.blocks[1].down.weight[0, 0] += 1e-3


def other_scale(world: World) -> None:
    (artefact,) = world.out.rglob("*.safetensors")
    data = bytearray(artefact.read_bytes())
    data[-1] ^= 1
    artefact.write_bytes(data)


def no_scales(world: World) -> None:
    for artefact in world.out.rglob("*.safetensors"):
        artefact.unlink()


def other_certificate(world: World) -> None:
    for path in world.out.rglob("*toy_ffn*.jsonl"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)


def linked_kernel(world: World) -> None:
    (world.kernel / "more.py").symlink_to(world.kernel / "inner.py")


DISK: dict[str, tuple[Callable[[World], object], str, str]] = {
    "impl": (edit("impls/toy_ffn/toy.py", "x", "X"), "ROLE_FILE", "toy_ffn/toy.py has sha256"),
    "impl_shared": (edit("impls/_shared/more.py", "2.0", "3.0"), "ROLE_FILE", "_shared/more.py has sha256"),
    "impl_package": (edit("impls/__init__.py", "Toy", "TOY"), "ROLE_FILE", "__init__.py has sha256"),
    "structure": (edit("catalog/toy_ffn/structure.yaml", "Two", "2"), "ROLE_FILE", "structure.yaml has sha256"),
    "reference": (edit("catalog/toy_ffn/reference.py", "relu", "tanh"), "ROLE_FILE", "reference.py has sha256"),
    "cases": (edit("catalog/toy_ffn/cases.py", "iter", "list"), "ROLE_FILE", "cases.py has sha256"),
    "scheme": (edit("schemes/toy.py", "Toy", "TOY"), "ROLE_FILE", "toy.py has sha256"),
    "host": (edit("hosts/toy/host.py", "model.config", "model. config"), "ROLE_FILE", "toy/host.py has sha256"),
    "host_shared": (edit("hosts/_shared/settings.py", "'hidden'", "'width'"), "ROLE_FILE", "settings.py has sha256"),
    "kernel": (edit("kernel/build/torch-cpu/inner.py", "0", "1"), "KERNEL_TREE", "inner.py has sha256"),
    "kernel_metadata": (edit("kernel/build/torch-cpu/metadata.json", "MIT", "BSD"), "KERNEL_TREE", "metadata.json"),
    "kernel_extra": (extra_file("kernel/build/torch-cpu/new.py"), "KERNEL_TREE", "new.py, which is not certified"),
    "kernel_link": (linked_kernel, "TREE", "more.py is a symbolic link"),
    "weight": (other_weight, "WEIGHTS", "weights are certified with digest"),
    "scales": (other_scale, "ARTEFACT", "certified is"),
    "no_scales": (no_scales, "ARTEFACT", "is nowhere as"),
    "config": (lambda world: setattr(world.model.config, "hidden", 13), "HOST", "host configuration is certified"),
    "no_config": (lambda world: delattr(world.model, "config"), "HOST", "cannot be read"),
    "no_kernel": (lambda world: shutil.rmtree(world.root / "kernel"), "KERNEL_UNAVAILABLE", "no build in"),
    "no_impl": (lambda world: (world.root / "impls/toy_ffn/toy.py").unlink(), "USAGE", "no impls entry is called"),
    "no_place": (lambda world: world.model.blocks.pop(1), "SEAT", "the model has no module blocks.1"),
}


def touched(world: World) -> bool:
    """Whether anything but the spoiled weight or configuration differs."""
    return any(type(module).__module__.startswith("pytest_frt") for module in world.model.modules())


@pytest.mark.parametrize("spoil", DISK)
def test_one_difference_refuses_names_it_and_touches_nothing(world: World, spoil: str) -> None:
    change, code, words = DISK[spoil]
    world.certify()
    with torch.no_grad():
        change(world)
    before = copy_of(world)
    handle = world.attach()
    assert not handle.active
    reasons = {one.code: one.reason for one in handle.seats if one.code != "NOT_CERTIFIED"}
    assert code in reasons, handle.explain()
    assert words in handle.explain()
    assert not touched(world)
    assert copy_of(world) == before


def copy_of(world: World) -> dict[str, tuple[int, bytes]]:
    state = world.model.state_dict(keep_vars=True)
    return {name: (id(one), one.detach().numpy().tobytes()) for name, one in state.items()}


def test_changed_certificate_is_refused_before_it_is_parsed(world: World) -> None:
    world.certify()
    other_certificate(world)
    handle = world.attach()
    assert not handle.active
    assert handle.seats == ()
    assert {one.code for one in handle.refused} <= {
        "SIG_NONE",
        "B64",
        "JSON_SYNTAX",
        "JSON_UTF8",
        "PLAN_MEMBER",
        "ENVELOPE",
    }
    assert world.is_untouched()


CLAIMS: dict[str, tuple[dict[str, object], str, str]] = {
    "impl_version": ({"impl_version": 4}, "CELL_IMPL", "toy is certified in version 4, installed is 3"),
    "structure_version": ({"structure_version": 2}, "CELL_STRUCTURE", "certified in version 2"),
    "rows": ({"rows": (1, 9)}, "BIND", "rows: rows 1 to 9 are asked for, toy takes 1 to 8"),
    "no_artefact": ({"calibration": None}, "BIND", "scale: there is no scale for point x"),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_claim_that_does_not_hold_here_is_refused(world: World, claim: str) -> None:
    world.claims, code, words = CLAIMS[claim]
    handle = world.certify().attach()
    assert {one.code for one in handle.seats} == {code, "NOT_CERTIFIED"}, handle.explain()
    assert words in handle.explain()
    assert world.is_untouched()


def test_certified_sizes_are_compared_with_the_tensors(world: World) -> None:
    record = world.record()
    first, *rest = record.seats
    wrong = replace(first, facts=replace(first.facts, dims={"D": 8, "F": 16}))
    handle = world.certify(replace(record, seats=(wrong, *rest))).attach()
    assert "[DIMS] seat blocks.0 is certified with F=16, the model has D=8, F=12" in handle.explain()


def spoiled_impl(old: str, new: str) -> Callable[[World], object]:
    return edit("impls/toy_ffn/toy.py", old, new)


BROKEN = {
    "nan": (spoiled_impl("return self.kernel.same(", "return float('nan') * ("), "SMOKE", "NaN or an infinity"),
    "shape": (spoiled_impl("self.scale))", "self.scale))[:, :3]"), "SMOKE", r"returned [((1, 3), torch.float32)]"),
    "dtype": (spoiled_impl("self.scale))", "self.scale)).double()"), "SMOKE", "torch.float64"),
    "two": (spoiled_impl("return self.kernel.same(", "return x, ("), "SMOKE", "returned"),
    "declares_another": (
        spoiled_impl("class Bound", "globals()['IMPL'] = None\nclass Bound"),
        "ROLE_FILE",
        "IMPL at run time is None",
    ),
    "hidden_import": (
        spoiled_impl("def bind", "__import__('toy_world_impls.other')\ndef bind"),
        "ROLE_FILE",
        "toy_world_impls.other would be imported, and is not among the certified files",
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_certified_impl_that_misbehaves_is_refused(world: World, broken: str) -> None:
    change, code, words = BROKEN[broken]
    change(world)
    handle = world.certify().attach()
    assert code in {one.code for one in handle.seats}, handle.explain()
    assert words in handle.explain()
    assert world.is_untouched()


def test_impl_that_writes_to_the_model_is_an_error(world: World) -> None:
    spoiled_impl("return Bound", "seat.weights['w_up'].zero_(); return Bound")(world)
    with pytest.raises(SwapRefused, match=r"wrote to w_up of seat blocks\.0"):
        world.certify().attach()


def test_nothing_is_executed_before_acceptance(world: World) -> None:
    for name in ("impls/toy_ffn/toy.py", "hosts/toy/host.py"):
        path = world.root / name
        path.write_text(path.read_text() + f"\nopen({str(world.root / 'ran')!r}, 'a').write('x')\n")
    world.claims = {"software": {"torch": "0.0"}}
    assert not world.certify().attach().active
    assert not (world.root / "ran").exists()


def test_planted_bytecode_is_not_executed(world: World) -> None:
    world.certify()
    good = world.root / "impls/_shared/more.py"
    evil = world.root / "evil.py"
    evil.write_text("GAIN = 100.0\n")
    for folder in (good.parent, world.root / "impls"):
        cached = folder / "__pycache__" / f"more.{sys.implementation.cache_tag}.pyc"
        cached.parent.mkdir(exist_ok=True)
        py_compile.compile(
            str(evil), cfile=str(cached), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )
    handle = world.attach()
    assert handle.active
    x = torch.ones(1, 8)
    assert torch.allclose(world.model.blocks[0](x), 2 * world.twin.blocks[0](x), atol=1e-6)


def test_installed_module_of_the_same_name_is_neither_used_nor_replaced(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = types.ModuleType("toy_world_impls._shared.maths")
    fake.ffn = lambda *_: torch.full((1, 8), float("nan"))
    monkeypatch.setitem(sys.modules, "toy_world_impls", types.ModuleType("toy_world_impls"))
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    assert world.certify().attach().active
    assert sys.modules[fake.__name__] is fake


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
