"""The contract battery passes on an honest attachment, and each check fails on the sabotage it is there for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

import pytest
from torch import Tensor, nn

from pytest_frt.contracts.evidence import Check
from pytest_frt.seat import attachment, guard, lifecycle, module, swap
from pytest_frt.seat.ledger import Admission

if TYPE_CHECKING:
    from tests.seat.conftest import Toy

ALL = ("ffn", "pack", "split")


def battery(toy: Toy, x: Tensor, *structures: str) -> dict[str, Check]:
    found = lifecycle.run_battery(toy.model, lambda: toy.attach(*structures), lambda: toy.model(x))
    return {check.name: check for check in found}


def test_honest_attachment_passes_every_check(toy: Toy, x: Tensor) -> None:
    found = battery(toy, x, *ALL)
    assert [name for name, check in found.items() if not check.ok] == []
    assert len(found) == len(lifecycle.CHECKS) + 1
    assert toy.is_twin()


def test_seat_that_is_never_called_fails(toy: Toy, x: Tensor) -> None:
    toy.model.blocks[0].forward = toy.model.blocks[1].forward
    found = battery(toy, x, "ffn")
    assert [(check.name, check.ok) for check in found.values()] == [(lifecycle.NEVER_CALLED, False)]
    assert "blocks.0.mlp" in found[lifecycle.NEVER_CALLED].detail


def test_part_that_a_host_keeps_in_evaluation_mode_is_tried_in_training_mode(toy: Toy, x: Tensor) -> None:
    train = nn.Module.train

    def frozen(self: nn.Module, mode: bool = True) -> nn.Module:  # noqa: FBT001, FBT002 (torch's signature)
        train(self, mode)
        toy.model.blocks[0].train(mode=False)
        return self

    toy.model.train = lambda mode=True: frozen(toy.model, mode)  # type: ignore[method-assign]
    found = battery(toy, x, "ffn")
    assert found["training_runs_host"].ok, found["training_runs_host"]


def test_check_that_fails_in_training_mode_leaves_evaluation_mode(
    toy: Toy, x: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard.Guard, "examine", _serves_everything)
    assert not battery(toy, x, "ffn")["training_runs_host"].ok
    assert not any(one.training for one in toy.model.modules())


Patch = tuple[object, str, Callable[..., Any]]


def _serves_everything(self: guard.Guard, x: Tensor, sides: tuple[Tensor, ...] = ()) -> Admission:  # noqa: ARG001
    return Admission.SERVED


def _leaves_attribute(self: attachment.Seated) -> None:
    for place in self.places:
        place.put(place.host)
        setattr(place.parent, f"left_{len(vars(place.parent))}", True)


def _keeps_weights(self: module.SeatModule, *_args: Any, **_kwargs: Any) -> dict[str, Tensor]:  # noqa: ARG001
    return {}


def _copies_itself(self: module.SeatModule, memo: dict[int, Any]) -> nn.Module:
    return module.AnsweringSeat(copy.deepcopy(self._frt_host, memo), self._frt_guard, self._frt_run)


def _calls_host(self: module.SeatModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return self._frt_host(*args, **kwargs)


def _never_gives_back(self: guard.Guard, because: str) -> None: ...


def _counts_nothing(self: guard.Guard, why: Admission, x: object) -> None: ...


def _other_thread_gets_host(self: guard.Guard, x: Tensor, sides: tuple[Tensor, ...] = ()) -> Admission:  # noqa: ARG001
    return Admission.SERVED if current_thread() is main_thread() else Admission.ROWS


def _leaves_last_only(self: attachment.Seated) -> None:
    mine = {place.seat for place in self.places}
    parents = {place.parent for place in self.places}
    if not any(isinstance(one, module.SeatModule) and one not in mine for at in parents for one in at.children()):
        self.put_hosts()


MUTANTS: dict[str, tuple[Patch, str]] = {
    "detach_leaves_an_attribute": ((attachment.Seated, "leave", _leaves_attribute), "detach_is_exact"),
    "state_is_hidden": ((module.SeatModule, "state_dict", _keeps_weights), "state_is_unchanged"),
    "band_is_ignored": ((guard.Guard, "examine", _serves_everything), "out_of_band_runs_host"),
    "autocast_is_ignored": ((guard.Guard, "examine", _serves_everything), "autocast_runs_host"),
    "training_is_ignored": ((guard.Guard, "examine", _serves_everything), "training_runs_host"),
    "threads_differ": ((guard.Guard, "examine", _other_thread_gets_host), "second_thread_agrees"),
    "order_matters": ((attachment.Seated, "leave", _leaves_last_only), "detach_in_any_order"),
    "copy_keeps_the_seat": ((module.SeatModule, "__deepcopy__", _copies_itself), "copies_are_host"),
    "no_lock_above": ((attachment.Seated, "lock", lambda _self: None), "moving_is_refused"),
    "no_lock_on_loading": ((attachment.Seated, "lock", lambda _self: None), "loading_is_refused"),
    "hooks_of_host_again": ((module.SeatModule, "_frt_run_host", _calls_host), "hooks_fire_once"),
    "overlap_is_allowed": (
        (swap, "_host_at", lambda model, path, _seat: model.get_submodule(path)),
        "double_attach_is_refused",
    ),
    "strict_is_ignored": ((guard.Guard, "_raise_if_closed", _counts_nothing), "strict_raises_first"),
    "never_given_back": ((guard.Guard, "restore", _never_gives_back), "misfits_are_given_back"),
    "graph_is_not_counted": ((guard.Guard, "traced", _counts_nothing), "compiles_whole"),
}


def test_every_check_has_a_sabotage() -> None:
    assert {check for _, check in MUTANTS.values()} == {check.__name__ for check in lifecycle.CHECKS}


@pytest.mark.filterwarnings("ignore::pytest_frt.seat.guard.SeatWarning")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_check_fails_on_its_sabotage(toy: Toy, x: Tensor, monkeypatch: pytest.MonkeyPatch, mutant: str) -> None:
    (owner, name, code), check = MUTANTS[mutant]
    monkeypatch.setattr(owner, name, code)
    monkeypatch.setattr(lifecycle, "CHECKS", tuple(one for one in lifecycle.CHECKS if one.__name__ == check))
    found = battery(toy, x, *(("ffn", "split") if mutant == "order_matters" else ("ffn",)))
    assert not found[check].ok, found[check]
