"""A toy host with every kind of seat, and an impl that doubles the host's answer so that one sees who answered."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytest_frt.contracts.impl import BindSeat, Impl, Scales
from pytest_frt.contracts.seat import ModuleSeat, PairSeat, PointAt, Seat, SeatFacts, SlotRef
from pytest_frt.contracts.structure import Structure, TensorSpec
from pytest_frt.seat.bind import BoundSeat, bind_unit
from pytest_frt.seat.swap import Attachment, attach

WIDTH, HIDDEN = 8, 12
PROJECTIONS = ("q_proj", "k_proj", "v_proj")


def unchanged(x: Tensor) -> Tensor:
    return x


class Ffn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.up(x)))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name in PROJECTIONS:
            setattr(self, name, nn.Linear(WIDTH, WIDTH, bias=False))
        self.between: Callable[[Tensor], Tensor] = unchanged

    def forward(self, x: Tensor) -> Tensor:
        q = self.q_proj(x)
        y = self.between(x)
        return q + 3 * self.k_proj(y) + 5 * self.v_proj(y)


class First(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(WIDTH, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.dense(x))


class Second(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(HIDDEN, WIDTH)

    def forward(self, hidden: Tensor, residual: Tensor) -> Tensor:
        return self.dense(hidden) + residual


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.mlp = Ffn()
        self.first = First()
        self.second = Second()
        self.between: Callable[[Tensor], Tensor] = unchanged

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x)
        x = x + self.mlp(x)
        return self.second(self.between(self.first(x)), x)


class Host(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return x


def _ffn(seat: BindSeat, gain: float) -> Callable[[Tensor], Tensor]:
    up, down = seat.weights["w_up"].clone(), seat.weights["w_down"].clone()
    return lambda x: gain * (F.silu(x @ up) @ down)


def _pack(seat: BindSeat, gain: float) -> Callable[[Tensor], tuple[Tensor, ...]]:
    weights = [seat.weights[name].clone() for name in ("w_q", "w_k", "w_v")]
    return lambda x: tuple(gain * (x @ weight) for weight in weights)


def _split(seat: BindSeat, gain: float) -> Callable[[Tensor], Tensor]:
    w = {name: tensor.clone() for name, tensor in seat.weights.items()}
    return lambda x: gain * (F.linear(F.gelu(F.linear(x, w["w1"], w["b1"])), w["w2"], w["b2"]) + x)


KINDS: dict[str, Callable[[BindSeat, float], Callable[..., object]]] = {"ffn": _ffn, "pack": _pack, "split": _split}


class Doubled(nn.Module):
    def __init__(self, run: Callable[..., object]) -> None:
        super().__init__()
        self.run = run

    def forward(self, x: Tensor) -> object:
        return self.run(x)


def toy_structure(name: str) -> Structure:
    outputs = ("q", "k", "v") if name == "pack" else ("y",)
    return Structure(
        name=name,
        version=1,
        summary="",
        inputs=(TensorSpec("x", ("M", "D")),),
        outputs=tuple(TensorSpec(out, ("M", "D")) for out in outputs),
        slots=(),
        variants={},
        points=(),
        seams=(),
        limits=(),
        digest="",
        reference_digest="",
        folder="",
    )


def toy_facts(structure: str, block: int = 0) -> SeatFacts:
    at = f"blocks.{block}"
    places: dict[str, Seat] = {
        "ffn": ModuleSeat(f"{at}.mlp"),
        "pack": PairSeat(f"{at}.attention.q_proj", tuple(f"{at}.attention.{one}" for one in PROJECTIONS[1:])),
        "split": PairSeat(f"{at}.first", (f"{at}.second",)),
    }
    slots = {
        "ffn": {"w_up": (f"{at}.mlp.up.weight", True), "w_down": (f"{at}.mlp.down.weight", True)},
        "pack": {f"w_{one[0]}": (f"{at}.attention.{one}.weight", True) for one in PROJECTIONS},
        "split": {
            "w1": (f"{at}.first.dense.weight", False),
            "b1": (f"{at}.first.dense.bias", False),
            "w2": (f"{at}.second.dense.weight", False),
            "b2": (f"{at}.second.dense.bias", False),
        },
    }
    return SeatFacts(
        structure=structure,
        seat=places[structure],
        variant={},
        dims={"D": WIDTH, "F": HIDDEN},
        slots={slot: SlotRef(*ref) for slot, ref in slots[structure].items()},
        constants={},
        dtype="float32",
        points={"x": PointAt(places[structure].places[0])},
    )


def toy_impl(structure: str, gain: float = 2.0) -> ModuleType:
    module = ModuleType(f"toy_{structure}")
    module.IMPL = Impl(  # type: ignore[attr-defined]
        name="toy",
        structure=structure,
        version=1,
        schemes=("none",),
        kernel="toy/kernel",
        rows={"none": (1, 8)},
        devices=("cpu", "cuda"),
    )

    def bind(seat: BindSeat, _scales: Scales, _kernel: ModuleType) -> nn.Module:
        return Doubled(KINDS[structure](seat, gain))

    module.bind = bind  # type: ignore[attr-defined]
    return module


@dataclass
class Toy:
    """A fresh host, its untouched twin, and short ways to bind and attach on it."""

    model: Host
    twin: Host

    def bind(self, *seats: tuple[str, int], rows: tuple[int, int] = (1, 8), gain: float = 2.0) -> list[BoundSeat]:
        out: list[BoundSeat] = []
        for structure, block in seats:
            bound, refused = bind_unit(
                self.model,
                [toy_facts(structure, block)],
                structure=toy_structure(structure),
                impl=toy_impl(structure, gain),
                scheme="none",
                scales={},
                kernel=ModuleType("kernel"),
                rows=rows,
            )
            assert not refused, refused
            out += bound
        return out

    def attach(self, *structures: str, strict: bool = False, gain: float = 2.0) -> Attachment:
        return attach(self.model, self.bind(*((one, 0) for one in structures), gain=gain), strict=strict)

    def is_twin(self) -> bool:
        """Whether the model is the untouched twin again: tree, attributes, tensors and answers."""
        ours, theirs = dict(self.model.named_modules()), dict(self.twin.named_modules())
        same_tree = list(ours) == list(theirs) and all(type(ours[at]) is type(theirs[at]) for at in ours)
        same_keys = all(set(vars(ours[at])) == set(vars(theirs[at])) for at in ours)
        mine, its = self.model.state_dict(), self.twin.state_dict()
        same_state = list(mine) == list(its) and all(torch.equal(mine[key], its[key]) for key in mine)
        x = rows(5)
        with torch.no_grad():
            return same_tree and same_keys and same_state and torch.equal(self.model(x), self.twin(x))


def rows(count: int, **options: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(count)
    return torch.randn(count, WIDTH, generator=generator).to(**options)


@pytest.fixture
def toy() -> Toy:
    torch.manual_seed(0)
    model = Host().eval()
    return Toy(model, copy.deepcopy(model))


@pytest.fixture
def x() -> Tensor:
    return rows(4)
