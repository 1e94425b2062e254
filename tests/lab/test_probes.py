"""Controls and probes of the witness, on a host small enough to count by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.contracts.seat import ModuleSeat, SeatFacts
from pytest_frt.errors import EvidenceError
from pytest_frt.lab.hosting import Hosting, Split
from pytest_frt.lab.probes import OTHER_SEED, probes, reseeded
from pytest_frt.lab.taps import frozen
from pytest_frt.lab.witness import _controls

SEAT = SeatFacts("toy", ModuleSeat("proj"), {}, {"D": 4}, {}, {}, "float32", {})


class Toy(nn.Module):
    def __init__(self, *, dead: bool) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 4, bias=False)
        nn.init.eye_(self.proj.weight)
        self.dead = dead

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.0 * self.proj(x) if self.dead else self.proj(x)


@dataclass
class Program:
    """A host of one linear layer whose samples carry a random window.

    Attributes:
        seeds: What ``reseeded`` was asked for.
    """

    seeds: list[int] = field(default_factory=list)

    def score(self, model: nn.Module, samples: list[dict[str, Tensor]], phase: str) -> list[Tensor]:  # noqa: ARG002
        return [model(sample["x"] + sample["noise"]) for sample in samples]

    def shorter(self, sample: dict[str, Tensor], phase: str) -> dict[str, Tensor]:  # noqa: ARG002
        return {name: tensor[:2] for name, tensor in sample.items()}

    def reseeded(self, sample: dict[str, Tensor], seed: int) -> dict[str, Tensor]:
        self.seeds.append(seed)
        return {"x": sample["x"], "noise": 0.1 * torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))}


def sample(seed: int) -> dict[str, Tensor]:
    drawn = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(seed))
    return {"x": drawn[0], "noise": 0.1 * drawn[1]}


def hosted(*, multimodal: bool = False, dead: bool = False, program: Any = None) -> Hosting:
    spec: Any = SimpleNamespace(name="toy", output="values", multimodal=multimodal)
    return Hosting(spec, program or Program(), Toy(dead=dead).eval())


DRAWN = Split([sample(seed) for seed in range(3)], [sample(seed) for seed in range(10, 13)], [])


@torch.no_grad()
def test_a_frozen_seat_repeats_its_first_answer_of_each_shape() -> None:
    model = Toy(dead=False)
    with frozen(model, [SEAT]):
        first = model(torch.ones(1, 4))
        first += 1.0  # a host writes into what it is given
        assert torch.equal(model(torch.zeros(1, 4)), torch.ones(1, 4))
        assert torch.equal(model(torch.zeros(2, 4)), torch.zeros(2, 4))
    assert torch.equal(model(torch.zeros(1, 4)), torch.zeros(1, 4))


def test_probes_are_shorter_calibration_samples() -> None:
    found = probes(hosted(), DRAWN, "decode")
    assert [tuple(one["x"].shape) for one in found] == [(2, 4), (2, 4)]
    assert torch.equal(found[1]["x"], DRAWN.calibration[1]["x"][:2])
    plain: Any = SimpleNamespace()
    assert probes(hosted(program=plain), DRAWN, "decode") == DRAWN.calibration[:2]


@torch.no_grad()
def controls(host: Hosting, folder: Any) -> Any:
    job: Any = SimpleNamespace(out=str(folder), host=SimpleNamespace(request=SimpleNamespace(seed=5)))
    scores = host.program.score(host.model, DRAWN.heldout, "decode")
    return _controls(host, [SEAT], DRAWN, "decode", scores, job)


def test_live_seats_fall_in_both_controls(tmp_path: Any) -> None:
    found = controls(hosted(), tmp_path)
    (zero,), (still,) = found.zeroed["decode/toy"], found.frozen["decode/toy"]
    assert zero.cosine == 0.0
    assert still.cosine < 0.9
    assert still.sample == 1
    assert found.spread == ()
    assert (tmp_path / "probes.decode.safetensors").exists()


def test_dead_seats_show_in_both_controls(tmp_path: Any) -> None:
    found = controls(hosted(dead=True), tmp_path)
    assert [one.cosine for one in (*found.zeroed["decode/toy"], *found.frozen["decode/toy"])] == pytest.approx([1, 1])


def test_a_multimodal_host_is_compared_with_itself_under_another_seed(tmp_path: Any) -> None:
    host = hosted(multimodal=True)
    spread = controls(host, tmp_path).spread
    assert len(spread) == len(DRAWN.heldout)
    assert all(0.9 < one.cosine < 1.0 for one in spread)
    assert host.program.seeds == [5 + OTHER_SEED] * 3  # type: ignore[attr-defined]


def test_a_multimodal_host_without_a_second_seed_is_an_error() -> None:
    with pytest.raises(EvidenceError, match="reseeded"):
        reseeded(hosted(program=SimpleNamespace()), DRAWN.heldout, 0)
