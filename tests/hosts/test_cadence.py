"""Ticks with kept keys and values: the bits of the host for every observation, and one projection of each."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_frt.registry import Registry, load_impl
from pytest_frt.seat import kernels
from pytest_frt.seat.bind import bind_unit
from pytest_frt.seat.swap import attach

pytest.importorskip("lerobot", reason="NOT_SUPPORTED: lerobot is not installed")
pytest.importorskip("diffusers", reason="NOT_SUPPORTED: diffusers is not installed")
# The library calls transformers by names that are going.
pytestmark = pytest.mark.filterwarnings("ignore:.past_key_values. is deprecated:FutureWarning")
REGISTRY = Registry.load()
STRUCTURE = REGISTRY.structures["cadence_static"].spec
IMPL = REGISTRY.impls["cadence_static/torch_kept"]
STEPS = {"groot_n17": 4, "smolvla": 3}


@pytest.mark.parametrize("name", STEPS)
@torch.no_grad()
def test_ticks_have_the_bits_of_the_host(tiny_host: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host = tiny_host(name)
    one, other = host.draw(2)
    ticks = [host.program.prepare(host.model, [sample], "denoise") for sample in (one, other, one)]
    wanted = [host.program.run(host.model, state).clone() for state in ticks]
    kernel = kernels.load_build(kernels.resolve("pytest-frt/frt-cpu", backend="cpu"))
    facts, _ = host.discovered([STRUCTURE])
    bound, refused = bind_unit(
        host.model, facts, structure=STRUCTURE, impl=load_impl(IMPL), scheme="none", scales={}, kernel=kernel,
        rows=IMPL.impl.rows["none"],
    )  # fmt: skip
    assert (len(bound), refused) == (4, ())
    projected: list[int] = []
    twin = kernel.ops.twin
    monkeypatch.setattr(kernel.ops, "twin", lambda x: projected.append(1) or twin(x))
    with attach(host.model, bound, strict=True) as attachment:
        got = [host.program.run(host.model, state).clone() for state in ticks]
        served = [entry.served for entry in attachment.ledger]
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))
    assert not torch.equal(wanted[0], wanted[1])
    assert served == [STEPS[name] * len(ticks)] * len(bound)
    assert len(projected) == len(bound) * len(ticks)
