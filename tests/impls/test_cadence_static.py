"""``cadence_static``: bits of the host's own projection in every call; no memory answers for another input."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from types import ModuleType
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from .conftest import Unit, make_unit

NAME, SCHEME = "cadence_static/torch_kept", "none"
K, N = 64, 48
ROWS = 96
TURNS = 200


@pytest.fixture(params=["none", "add"], ids=["plain", "biased"])
def cross(request: pytest.FixtureRequest, kernel: ModuleType) -> tuple[Unit, nn.Linear]:
    """Return a unit and the host's layer that it stands in for."""
    unit = make_unit(NAME, SCHEME, kernel, {"bias": request.param})
    host = nn.Linear(K, N, bias=request.param == "add")
    state = {"weight": unit.seat.weights["w"].T} | ({"bias": unit.seat.weights["b"]} if host.bias is not None else {})
    host.load_state_dict(state)
    return unit, host


def bound(cross: tuple[Unit, nn.Linear]) -> tuple[nn.Module, nn.Linear]:
    """Bind over the tensors of the host's layer, as a seat does."""
    unit, host = cross
    weights = {"w": host.weight.T} | ({} if host.bias is None else {"b": host.bias})
    return unit.bind(replace(unit.seat, weights=weights)), host


@torch.no_grad()
def test_each_step_of_a_loop_has_the_bits_of_the_host(cross: tuple[Unit, nn.Linear]) -> None:
    part, host = bound(cross)
    for condition in torch.randn(3, 1, ROWS, K):
        for _step in range(4):
            assert torch.equal(part(condition), host(condition))


@torch.no_grad()
def test_input_rewritten_where_it_lies_is_projected_again(cross: tuple[Unit, nn.Linear]) -> None:
    part, host = bound(cross)
    x = torch.randn(1, ROWS, K)
    part(x)
    for at in (0, ROWS * K // 2, ROWS * K - 1):
        x.view(-1)[at] = torch.nextafter(x.view(-1)[at], torch.tensor(torch.inf))
        assert torch.equal(part(x), host(x)), at


@torch.no_grad()
def test_writing_into_an_answer_changes_none_that_follows(cross: tuple[Unit, nn.Linear]) -> None:
    part, host = bound(cross)
    x = torch.randn(1, ROWS, K)
    for _turn in range(3):  # the first answer is computed, the others come from memory
        answer = part(x)
        assert torch.equal(answer, host(x))
        answer.zero_()


@torch.no_grad()
def test_zeros_of_either_sign_have_the_bits_of_the_host(cross: tuple[Unit, nn.Linear]) -> None:
    part, host = bound(cross)
    for x in (torch.zeros(ROWS, K), -torch.zeros(ROWS, K)) * 2:
        assert torch.equal(part(x).view(torch.int32), host(x).view(torch.int32))


@torch.no_grad()
def test_nan_stays_where_the_host_has_it(cross: tuple[Unit, nn.Linear]) -> None:
    part, host = bound(cross)
    for row in (3, 7, 7, 3):
        x = torch.ones(ROWS, K)
        x[row, 5] = torch.nan
        torch.testing.assert_close(part(x), host(x), rtol=0, atol=0, equal_nan=True)


@torch.no_grad()
def test_threads_with_inputs_of_their_own_get_their_own_answers(cross: tuple[Unit, nn.Linear]) -> None:
    part, host = bound(cross)
    inputs = list(torch.randn(2, ROWS, K))
    wanted, start = [host(x) for x in inputs], Barrier(len(inputs))

    def wrong(turn: int) -> int:
        start.wait()
        with torch.no_grad():
            return sum(not torch.equal(part(inputs[turn]), wanted[turn]) for _ in range(TURNS))

    with ThreadPoolExecutor(len(inputs)) as threads:
        assert list(threads.map(wrong, range(len(inputs)))) == [0, 0]


@pytest.mark.parametrize("copying", [copy.deepcopy, pickle.dumps], ids=["deepcopy", "pickle"])
def test_bound_part_is_not_copied(cross: tuple[Unit, nn.Linear], copying: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="packed weights cannot be copied"):
        copying(bound(cross)[0])


def memory(unit: Unit, key: Callable[[Tensor], Hashable]) -> Callable[[Tensor], Tensor]:
    """Return a part that takes inputs with one key for one input: the fault that a memory must not have."""
    part, found = unit.bind(), dict[Hashable, Tensor]()

    def run(x: Tensor) -> Tensor:
        own = key(x)
        if own not in found:
            found.clear()
            found[own] = cast("Tensor", part(x))
        return found[own].clone()

    return run


@pytest.mark.parametrize(
    ("key", "case"),
    [
        (lambda x: x.shape, "one_bit_changed"),
        (lambda x: tuple(x[:1].flatten().tolist()), "one_bit_changed"),
        (lambda x: tuple(x.abs().flatten().tolist()), "one_bit_changed"),
        (lambda x: (x.shape, round(float(x.double().sum()), 6)), "rows_reversed"),
        (lambda x: (x.shape, round(float(x.double().square().sum()), 6)), "one_bit_changed"),
    ],
    ids=["never_refreshed", "first_row", "magnitudes", "sum", "energy"],
)
@torch.no_grad()
def test_memory_that_takes_one_input_for_another_is_refused(
    kernel: ModuleType, key: Callable[[Tensor], Hashable], case: str
) -> None:
    unit = make_unit(NAME, SCHEME, kernel)
    assert f"{case}#0" in unit.faults(memory(unit, key), unit.cases())


def test_memory_by_all_bits_is_sound(kernel: ModuleType) -> None:
    unit = make_unit(NAME, SCHEME, kernel)
    with torch.no_grad():
        assert unit.faults(memory(unit, lambda x: (x.shape, x.numpy().tobytes())), unit.cases()) == {}


@torch.no_grad()
def test_values_in_place_of_keys_are_refused(kernel: ModuleType) -> None:
    unit, other = (make_unit(NAME, SCHEME, kernel) for _ in "kv")
    value = {**other.seat.weights, "w": other.seat.weights["w"].flip(1)}
    assert unit.faults(other.bind(replace(other.seat, weights=value)), {"rows": unit.rows()})
