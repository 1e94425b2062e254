"""Bug history, running: calls, bands, caches and samples are counted as they happen; nothing is built on the way."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_frt.contracts.evidence import CallFacts
from pytest_frt.contracts.host import BuildRequest
from pytest_frt.contracts.seat import ModuleSeat, PointAt, SeatFacts
from pytest_frt.gates import ledger
from pytest_frt.lab import candidate, hosting
from pytest_frt.lab.units import BoundUnit
from pytest_frt.registry import load_module
from pytest_frt.seat import guard, kernels
from pytest_frt.seat.calibrate import survey
from pytest_frt.seat.ledger import Admission
from tests.impls.conftest import make_unit
from tests.seat.conftest import Host, Toy, rows

from .conftest import REGISTRY, place


@pytest.fixture
def toy() -> Toy:
    torch.manual_seed(0)
    model = Host().eval()
    return Toy(model, copy.deepcopy(model))


def counted_twice(self: guard.Guard, x: object) -> bool:
    self.counts.eager[Admission.SERVED] += 1
    return honest(self, x)


honest = guard.Guard.serves


@torch.no_grad()
@pytest.mark.parametrize("twice", [False, True], ids=["as_it_is", "counted_twice"])
@pytest.mark.parametrize("kind", ["ffn", "pack", "split"])
def test_ledger_holds_the_calls_that_the_host_makes(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, kind: str, *, twice: bool
) -> None:
    attachment = toy.attach(kind)
    facts = attachment.seated[0].bound.facts
    seen: list[int] = []
    toy.twin.get_submodule(facts.seat.places[0]).register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
    if twice:
        monkeypatch.setattr(guard.Guard, "serves", counted_twice)
    for count in (1, 4, 8, 9):
        toy.model(rows(count))
        toy.twin(rows(count))
    heights = {str(count): seen.count(count) for count in set(seen)}
    calls = [CallFacts(facts.id, "decode", len(seen), heights, "float32")]
    verdict = ledger.judge(
        attachment.ledger.entries(), calls, seats=[facts.id], bands={facts.id: (1, 8)}, phase="decode"
    )
    assert [refusal.reason for refusal in verdict.refused] == (["served"] if twice else [])


def exact_rows(self: guard.Guard, x: object, *sides: Any) -> Admission:
    why = examined(self, x, *sides)
    full = isinstance(x, Tensor) and guard.rows_of(x) == self.form.rows[1]
    return Admission.ROWS if why is Admission.SERVED and not full else why


examined = guard.Guard.examine


@torch.no_grad()
@pytest.mark.parametrize(("exact", "reasons"), [(False, []), (True, ["served"])], ids=["as_it_is", "exact_rows"])
def test_band_is_a_capacity_and_not_a_row_count(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, reasons: list[str], *, exact: bool
) -> None:
    if exact:
        monkeypatch.setattr(guard.Guard, "examine", exact_rows)
    attachment = toy.attach("ffn")
    for count in range(1, 9):
        toy.model(rows(count))
    at = "blocks.0.mlp"
    calls = [CallFacts(at, "decode", 8, {str(count): 1 for count in range(1, 9)}, "float32")]
    verdict = ledger.judge(attachment.ledger.entries(), calls, seats=[at], bands={at: (1, 8)}, phase="decode")
    assert [refusal.reason for refusal in verdict.refused] == reasons


class Constructions(TorchDispatchMode):
    """Counts tensors that are built from numbers of the host, and numbers that are read back: no graph holds either."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aten = torch.ops.aten
        self.count += func in (aten.lift_fresh.default, aten._local_scalar_dense.default)
        return func(*args, **(kwargs or {}))


@torch.no_grad()
def constructions(part: Callable[[Tensor], object], x: Tensor) -> int:
    part(x)
    with Constructions() as seen:
        part(x)
    return seen.count


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("linear_proj/torch_packed", "w16a32"),
        ("qkv_pack/torch_int8", "w8a8_dynamic"),
        ("decoder_ffn/torch_fp8", "fp8_static"),
    ],
)
def test_served_call_builds_no_tensor_from_the_host(name: str, scheme: str) -> None:
    unit = make_unit(name, scheme, kernels.load_build(kernels.resolve("pytest-frt/frt-cpu", backend="cpu")))
    part, x = unit.bind(), unit.rows(4)
    assert constructions(part, x) == 0
    assert constructions(lambda x: part(x * torch.tensor(1.0)), x) == 1
    assert constructions(lambda x: part(x * float(x.abs().max())), x) == 1


POINT = SeatFacts("toy", ModuleSeat("embed"), {}, {}, {}, {}, "float32", {"x": PointAt("embed")})


def stated(folder: Path, ran: int) -> int:
    """Calibrate on ``ran`` of the four samples that were drawn; return the count that record and artefact state."""
    host, scheme = Host().eval(), place("linear_proj", scheme="fp8_static").scheme
    drawn = hosting.Split([{"x": rows(1 + index)} for index in range(4)], [{"x": rows(9)}], [])

    def passes() -> Iterator[Callable[[], object]]:
        yield from (lambda sample=sample: host(sample["x"]) for sample in drawn.calibration[:ran])

    found = survey(host, passes(), [POINT], scheme)
    nothing: Any = None
    unit = BoundUnit(nothing, (), (), found.scales, found)
    facts: Any = candidate._calibration(SimpleNamespace(out=str(folder)), [unit], drawn)  # type: ignore[arg-type]
    with safe_open(folder / "scales.safetensors", framework="pt") as reader:
        assert f'"samples":{facts.samples}' in reader.metadata()["frt"].replace(" ", "")
    assert f"across {facts.samples} samples" in facts.method
    return int(facts.samples)


@pytest.mark.parametrize("ran", [4, 3], ids=["whole", "one_left_out"])
def test_sample_count_of_a_calibration_is_that_of_its_runs(tmp_path: Path, ran: int) -> None:
    assert stated(tmp_path, ran) == ran


def stands_still(self: Any, keys: Tensor, values: Tensor, *args: Any, **keywords: Any) -> tuple[Tensor, Tensor]:
    """Write every step over the one before it: the cache holds the prefix and one place more."""
    grown(self, keys, values, *args, **keywords)
    if self.keys.shape[-2] > causal_lm.PREFIX + 1:
        prefix = slice(causal_lm.PREFIX)
        self.keys, self.values = (
            torch.cat((held[..., prefix, :], new), -2) for held, new in ((self.keys, keys), (self.values, values))
        )
    return self.keys, self.values


LAYER: Any = import_module("transformers.cache_utils").DynamicLayer
grown = LAYER.update
causal_lm: Any = import_module("pytest_frt.hosts._shared.causal_lm")


@torch.no_grad()
def test_cache_that_does_not_grow_with_its_steps_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = load_module(Path(REGISTRY.hosts["qwen3"].folder) / "host.py")
    asked = BuildRequest("tiny", 7, None, "cpu", str(tmp_path))
    model, sample = program.build(asked), next(iter(program.samples(asked)))
    (own,) = program.score(model, [sample], "decode")
    last = causal_lm.PREFIX + len(own)
    whole = model(input_ids=sample["input_ids"][:, :last], use_cache=False).logits[0, causal_lm.PREFIX :]
    monkeypatch.setattr(LAYER, "update", stands_still)
    (stuck,) = program.score(model, [sample], "decode")
    torch.testing.assert_close(own, whole, rtol=1e-4, atol=1e-4)
    assert torch.equal(stuck[0], own[0])
    assert not torch.allclose(stuck, whole, rtol=1e-2, atol=1e-2)
