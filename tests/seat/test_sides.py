"""Seats that take more than one tensor: a condition of the whole call comes with the rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.errors import SpecError
from pytest_frt.lab.taps import GROUPS, frozen, tapping, zeroed
from pytest_frt.sdk import Impl
from pytest_frt.seat import lifecycle, swap
from pytest_frt.seat.bind import BoundSeat, bind_unit
from pytest_frt.seat.discover import discover
from pytest_frt.seat.guard import SeatWarning
from pytest_frt.seat.observe import observe
from pytest_frt.spec.load import load_structure

from .modulated import ModulatedNorm

STRUCTURE = load_structure(Path(__file__).parents[2] / "catalog" / "adaln_producer")
D, C, ROWS = 16, 8, (2, 12)
DECLARED = Impl(
    name="toy", structure="adaln_producer", version=1, schemes=("none",), kernel="a/b", rows={"none": ROWS}, dims={}
)
ADMITTED = {"served": 1}


class AdaRms(nn.Module):
    """RMS norm with projected scale, shift and gate."""

    def __init__(self) -> None:
        super().__init__()
        self.eps = 1e-5
        self.dense = nn.Linear(C, 3 * D)

    def forward(self, x: Tensor, cond: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)
        if cond is None:
            return normed, None
        scale, shift, gate = self.dense(cond).unsqueeze(1).chunk(3, -1)
        return normed * (1 + scale) + shift, gate


class Policy(nn.Module):
    """Two conditioned norms, each around a linear, run once per condition."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.between = AdaRms(), ModulatedNorm(D, C), nn.Linear(D, D)

    def forward(self, x: Tensor, conds: Tensor) -> Tensor:
        for cond in conds.split(1):
            h, gate = self.first(x, cond=cond)
            x = x + self.second(self.between(h), cond) * gate
        return x


@dataclass
class Scene:
    """A model, its seats, and an honest part for each."""

    model: Policy
    seats: tuple[SeatFacts, ...]
    x: Tensor
    conds: Tensor

    def run(self) -> Tensor:
        with torch.no_grad():
            out: Tensor = self.model(self.x, self.conds)
            return out

    def bound(self) -> tuple[BoundSeat, ...]:
        """Bind twins of the host's own modules."""
        twins = {"first": AdaRms(), "second": ModulatedNorm(D, C)}
        for name, twin in twins.items():
            twin.load_state_dict(getattr(self.model, name).state_dict())
        found = []
        for facts in self.seats:
            part = Free(twins[facts.id])
            impl = cast("ModuleType", SimpleNamespace(IMPL=DECLARED, bind=lambda *_, part=part: part))
            (one,), refused = bind_unit(
                self.model, [facts], structure=STRUCTURE, impl=impl, scheme="none", scales={}, kernel=impl, rows=ROWS
            )
            assert refused == ()
            found.append(one)
        return tuple(found)


class Free(nn.Module):
    """A part that owns no module: its twin is not in the tree."""

    def __init__(self, twin: nn.Module) -> None:
        super().__init__()
        self.__dict__["twin"] = twin.eval().requires_grad_(requires_grad=False)

    def forward(self, x: Tensor, cond: Tensor) -> Any:
        return cast("nn.Module", self.twin)(x if x.dim() > 2 else x[None], cond)


@pytest.fixture
def scene() -> Scene:
    torch.manual_seed(0)
    model = Policy().eval()
    seats, _ = discover(model, [STRUCTURE])
    return Scene(model, seats, torch.randn(1, 5, D), torch.randn(3, C))


def test_both_forms_are_found_with_their_sizes(scene: Scene) -> None:
    found = {one.id: (one.variant["norm"], one.variant["style"], one.dims) for one in scene.seats}
    assert found == {
        "first": ("rms", "scale_shift_gate", {"C": C, "S": 3 * D, "D": D}),
        "second": ("layer", "scale_shift", {"C": C, "S": 2 * D, "D": D}),
    }


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("first", lambda norm: delattr(norm, "eps")),
        ("second", lambda norm: setattr(norm, "norm", nn.LayerNorm(D, eps=1e-5))),
        ("first", lambda norm: setattr(norm, "dense", nn.Linear(C, 3 * D + 1))),
        ("first", lambda norm: setattr(norm, "dense", nn.Linear(C, 3 * D, bias=False))),
    ],
    ids=["no_eps", "affine_norm", "no_multiple_of_three", "no_bias"],
)
def test_what_is_no_such_norm_is_refused(scene: Scene, name: str, spoil: Callable[[nn.Module], None]) -> None:
    spoil(getattr(scene.model, name))
    seats, _ = discover(scene.model, [STRUCTURE])
    assert name not in {one.id for one in seats}


def test_host_calls_are_observed_with_their_rows(scene: Scene) -> None:
    first, second = observe(scene.model, scene.run, scene.seats, [STRUCTURE])
    assert (first.calls, first.rows, first.fault) == (3, (5, 5, 5), "")
    assert (second.calls, second.fault) == (3, "")


def test_condition_per_row_is_a_fault(scene: Scene) -> None:
    def run() -> None:
        scene.model.first(torch.randn(2, 5, D), torch.randn(2, C))

    first, _ = observe(scene.model, run, scene.seats, [STRUCTURE])
    assert "tensors of [(2, 8)], needs 1 of one row" in first.fault


def test_attached_seats_answer_every_call_and_leave_no_trace(scene: Scene) -> None:
    wanted = scene.run()
    with swap.attach(scene.model, scene.bound()) as attachment:
        assert torch.equal(scene.run(), wanted)
        assert [(one.served, one.fallbacks) for one in attachment.ledger.entries()] == [(3, 0), (3, 0)]
    assert torch.equal(scene.run(), wanted)


@pytest.mark.parametrize(
    ("args", "kwargs", "reason"),
    [
        ((torch.ones(1, 5, D),), {}, "call form"),
        ((torch.ones(1, 5, D), torch.ones(2, C)), {}, "call form"),
        ((torch.ones(1, 5, D), None), {}, "call form"),
        ((torch.ones(1, 5, D), torch.ones(1, C + 1)), {}, "width"),
        ((torch.ones(1, 5, D), torch.ones(1, C, dtype=torch.float64)), {}, "dtype"),
        ((), {"x": torch.ones(1, 5, D)}, "call form"),
    ],
    ids=["no_condition", "two_conditions", "none", "wide_condition", "other_dtype", "by_keyword_alone"],
)
def test_calls_outside_the_form_run_the_host(
    scene: Scene, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str
) -> None:
    with torch.no_grad(), swap.attach(scene.model, scene.bound()) as attachment:
        with pytest.warns(SeatWarning), suppress(RuntimeError):  # the host itself cannot take some of them
            scene.model.first(*args, **kwargs)
        entry = attachment.ledger.entries()[0]
    assert (entry.served, entry.reasons) == (0, {reason: 1})


@pytest.mark.parametrize("by_keyword", [0, 1, 2])
def test_inputs_may_come_by_position_or_by_keyword(scene: Scene, by_keyword: int) -> None:
    given = {"x": scene.x, "cond": scene.conds[:1]}
    args = tuple(given.values())[: 2 - by_keyword]
    kwargs = dict(list(given.items())[2 - by_keyword :])
    with torch.no_grad(), swap.attach(scene.model, scene.bound()) as attachment:
        scene.model.first(*args, **kwargs)
        assert attachment.ledger.entries()[0].served == 1


@pytest.mark.parametrize("index", [0, 1], ids=["two_outputs", "one_output"])
def test_contract_battery_holds(scene: Scene, index: int) -> None:
    mine = scene.bound()[index : index + 1]
    found = lifecycle.run_battery(scene.model, lambda: swap.attach(scene.model, mine), scene.run)
    assert [(check.name, check.detail) for check in found if not check.ok] == []


def test_taps_keep_rows_with_their_own_condition(scene: Scene) -> None:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad(), tapping(scene.model, scene.seats, ROWS, 8, generator, {"adaln_producer": 2}) as taps:
        for _ in range(GROUPS):
            scene.run()
    groups = taps["first"].groups(64, generator)
    assert [tuple(one.x.shape) for one in groups] == [(5, D)] * GROUPS
    assert {tuple(one.sides[0].flatten().tolist()) for one in groups} <= {tuple(c.tolist()) for c in scene.conds}


def test_a_wide_seat_keeps_fewer_calls_and_no_shorter_ones(scene: Scene) -> None:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad(), tapping(scene.model, scene.seats, ROWS, 8, generator, {"adaln_producer": 2}) as taps:
        scene.run()
    assert [one.rows for one in taps["first"].groups(11, generator)] == [5, 5]
    assert [one.rows for one in taps["first"].groups(3, generator)] == [5]


def test_one_tensor_alone_is_not_admitted_after_it_was_served_with_its_condition(scene: Scene) -> None:
    with torch.no_grad(), swap.attach(scene.model, scene.bound()) as attachment:
        scene.run()
        with pytest.warns(SeatWarning, match=r"admitted is .* and \[1, 8\]"):
            scene.model.first(scene.x)
        assert attachment.ledger.entries()[0].reasons == {"call form": 1}


@pytest.mark.parametrize("spoil", [zeroed, frozen], ids=["zeroed", "frozen"])
def test_controls_spoil_every_output(scene: Scene, spoil: Callable[..., Any]) -> None:
    wanted = scene.run()
    with spoil(scene.model, scene.seats):
        scene.run()
        assert not torch.allclose(scene.run(), wanted)


def test_rows_are_counted_on_the_first_input(tmp_path: Path) -> None:
    folder = tmp_path / "adaln_producer"
    folder.mkdir()
    source = Path(STRUCTURE.folder)
    for name in ("reference.py", "cases.py"):
        (folder / name).write_text((source / name).read_text())
    text = (source / "structure.yaml").read_text()
    (folder / "structure.yaml").write_text(text.replace('shape: ["1", C]', "shape: [M, C]"))
    with pytest.raises(SpecError, match="every other input has the first axis '1'"):
        load_structure(folder)


@pytest.mark.parametrize("where", ["{style: none_such}", "{no_axis: rms}"])
def test_output_of_an_unknown_variant_is_refused(tmp_path: Path, where: str) -> None:
    folder = tmp_path / "adaln_producer"
    folder.mkdir()
    source = Path(STRUCTURE.folder)
    for name in ("reference.py", "cases.py"):
        (folder / name).write_text((source / name).read_text())
    text = (source / "structure.yaml").read_text()
    (folder / "structure.yaml").write_text(text.replace("{style: scale_shift_gate}}", f"{where}}}"))
    with pytest.raises(SpecError, match="is no variant"):
        load_structure(folder)
