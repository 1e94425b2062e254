"""Attach refuses whatever differs from what was certified, names it, and leaves the model bit-identical."""

from __future__ import annotations

import py_compile
import shutil
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from pytest_frt.errors import SwapRefused

if TYPE_CHECKING:
    from tests.runtime.conftest import World


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
    "impl": (edit("impls/toy_ffn/toy.py", "The toy", "the toy"), "ROLE_FILE", "toy_ffn/toy.py has sha256"),
    "impl_shared": (edit("impls/_shared/more.py", "2.0", "3.0"), "ROLE_FILE", "_shared/more.py has sha256"),
    "impl_package": (edit("impls/__init__.py", "Toy", "TOY"), "ROLE_FILE", "__init__.py has sha256"),
    "structure": (edit("catalog/toy_ffn/structure.yaml", "Two", "2"), "ROLE_FILE", "structure.yaml has sha256"),
    "reference": (edit("catalog/toy_ffn/reference.py", "relu", "tanh"), "ROLE_FILE", "reference.py has sha256"),
    "cases": (edit("catalog/toy_ffn/cases.py", "iter", "list"), "ROLE_FILE", "cases.py has sha256"),
    "scheme": (edit("schemes/toy.py", "Toy.", "TOY."), "ROLE_FILE", "toy.py has sha256"),
    "host": (edit("hosts/toy/host.py", "model.config", "model. config"), "ROLE_FILE", "toy/host.py has sha256"),
    "host_shared": (edit("hosts/_shared/settings.py", '"hidden"', '"width"'), "ROLE_FILE", "settings.py has sha256"),
    "kernel": (edit("kernel/build/torch-cpu/inner.py", "0", "1"), "KERNEL_TREE", "inner.py has sha256"),
    "kernel_metadata": (edit("kernel/build/torch-cpu/metadata.json", "MIT", "BSD"), "KERNEL_TREE", "metadata.json"),
    "kernel_extra": (extra_file("kernel/build/torch-cpu/new.py"), "KERNEL_TREE", "new.py, which is not certified"),
    "kernel_link": (linked_kernel, "TREE_SYMLINK", "more.py is a symbolic link"),
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
    "nan": (spoiled_impl("= self.kernel.same(", "= float('nan') * ("), "SMOKE", "NaN or an infinity"),
    "shape": (spoiled_impl("self.scale))", "self.scale))[:, :3]"), "SMOKE", r"returned [((1, 3), torch.float32)]"),
    "dtype": (spoiled_impl("self.scale))", "self.scale)).double()"), "SMOKE", "torch.float64"),
    "two": (spoiled_impl("= self.kernel.same(", "= x, ("), "SMOKE", "returned"),
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


@pytest.mark.parametrize("file", ["kernel/build/torch-cpu/inner.py", "impls/_shared/more.py"], ids=["kernel", "impl"])
@pytest.mark.parametrize(
    "code", ["import toy_nowhere", "import ctypes; ctypes.CDLL('libtoy_nowhere.so')"], ids=["module", "library"]
)
def test_code_that_lacks_what_it_needs_here_is_refused(world: World, file: str, code: str) -> None:
    path = world.rename_kernel().root / file
    path.write_text(f"{path.read_text()}\n{code}\n")
    handle = world.certify().attach()
    assert {one.code for one in handle.seats} == {"LOAD", "NOT_CERTIFIED"}, handle.explain()
    assert "toy_nowhere" in handle.explain()
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
