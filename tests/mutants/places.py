"""Where mutants are judged: seats of hosts on seeded random weights, and the same seats on trained weights.

Rows of trained seats are the activations of one-token windows: attention passes the value of its only token, so they
follow exactly from the embeddings and the first layer, and no model has to be built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional as F

from pytest_frt.contracts.host import BuildRequest
from pytest_frt.contracts.job import HostRef
from pytest_frt.contracts.seat import ModuleSeat, SeatFacts, SlotRef
from pytest_frt.lab import hosting
from pytest_frt.lab.taps import tapping
from pytest_frt.seat.weights import host_tensor
from tests.mutants.plan import rms
from tests.mutants.seats import ATTENTION, BERT, GEMMA, SeatSpec
from tests.trained import HOSTS, weights_file

PLACES: Final = ("tiny", "trained")
ROWS: Final = 24
"""Rows judged, and as many others for calibration."""


def facts_of(spec: SeatSpec, model: nn.Module, layouts: Mapping[str, tuple[str, ...]]) -> SeatFacts:
    """Return the facts of a seat; sizes come from its tensors.

    Args:
        spec: The seat.
        model: Holds its tensors.
        layouts: Slot to its symbolic shape.
    """
    transposed = spec.structure != "vision_ffn"
    slots = {slot: SlotRef(name, transpose=transposed and len(layouts[slot]) > 1) for slot, name in spec.slots.items()}
    dims: dict[str, int] = {}
    for slot, ref in slots.items():
        shape = tuple(host_tensor(model, ref.tensor).shape)
        dims |= dict(zip(layouts[slot], reversed(shape) if ref.transpose else shape, strict=True))
    constants = {"eps": spec.eps} if spec.variant.get("norm", "none") != "none" else {}
    return SeatFacts(spec.structure, spec.seat, dict(spec.variant), dims, slots, constants, "float32", {})


@dataclass(frozen=True, slots=True)
class Ground:
    """Tensors of a host, and ``[2 * ROWS, K]`` activations for every seat: the first half is for calibration."""

    model: nn.Module
    rows: Callable[[SeatSpec], Tensor]


@cache
def host(name: str) -> hosting.Hosting:
    """Build a host tiny."""
    return hosting.build(host_ref(name))


def host_ref(name: str) -> HostRef:
    """Return how a host is built tiny."""
    return HostRef(name, str(HOSTS / name), BuildRequest("tiny", 5, None, "cpu", ""), torch.get_num_threads())


def _tiny(name: str) -> Ground:
    made = host(name)
    drawn = hosting.split(made, host_ref(name))
    spec = made.spec

    @cache
    def taken(place: str) -> Tensor:
        facts = SeatFacts("", ModuleSeat(place), {}, {"K": 1}, {}, {}, "float32", {})
        generator = torch.Generator().manual_seed(1)
        halves = []
        for samples in (drawn.calibration, drawn.heldout):
            with torch.no_grad(), tapping(made.model, [facts], (1, 512), ROWS, generator) as taps:
                made.program.score(made.model, samples[:6], spec.phases[0].name)
            halves.append(taps[facts.id].rows(ROWS, generator))
        return torch.cat([half for half in halves if half is not None])

    return Ground(made.model, lambda seat: taken(seat.seat.places[0]))


def _holder(tensors: Mapping[str, Tensor]) -> nn.Module:
    """Return a module tree that holds tensors under their dotted names."""
    root = nn.Module()
    for name, tensor in tensors.items():
        *path, leaf = name.split(".")
        module = root
        for step in path:
            if step not in module._modules:
                module.add_module(step, nn.Module())
            module = module.get_submodule(step)
        module.register_buffer(leaf, tensor)
    return root


def _trained(name: str) -> Ground:
    layers = ("layers.0.", "layers.1.", "layer.0.", "layer.1.", "embeddings.")
    embedding = "model.embed_tokens.weight" if name == "gemma3_270m" else "embeddings.word_embeddings.weight"
    with safe_open(weights_file(name), framework="pt") as reader:
        names = [key for key in reader.keys() if any(part in key for part in layers)]  # noqa: SIM118
        wanted = [key for key in names if key != embedding and not key.endswith("position_ids")]
        tensors = {key: reader.get_tensor(key).float() for key in wanted}
        tokens = reader.get_slice(embedding)[5000 : 5000 + 4 * ROWS : 2].float()
    model = _holder(tensors)
    rows = (_gemma_rows if name == "gemma3_270m" else _bert_rows)(tensors, tokens)
    return Ground(model, lambda seat: rows[seat.reads])


def _gemma_rows(w: Mapping[str, Tensor], tokens: Tensor) -> dict[str, Tensor]:
    layer = {key.removeprefix(f"{GEMMA}."): value for key, value in w.items()}

    def norm(x: Tensor, which: str) -> Tensor:
        return rms(x, 1e-6) * (1.0 + layer[f"{which}_layernorm.weight"])

    x = tokens * tokens.shape[-1] ** 0.5
    entered = norm(x, "input")
    value = F.linear(entered, layer["self_attn.v_proj.weight"])
    out = layer["self_attn.o_proj.weight"]
    mixed = value.repeat(1, out.shape[1] // value.shape[1])
    stream = x + norm(F.linear(mixed, out), "post_attention")
    return {"input": entered, "mixed": mixed, "stream": stream, "normed": norm(stream, "pre_feedforward")}


def _bert_rows(w: Mapping[str, Tensor], tokens: Tensor) -> dict[str, Tensor]:
    def norm(x: Tensor, which: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], w[f"{which}.LayerNorm.weight"], w[f"{which}.LayerNorm.bias"], 1e-12)

    def linear(x: Tensor, which: str) -> Tensor:
        return F.linear(x, w[f"{which}.weight"], w[f"{which}.bias"])

    fixed = w["embeddings.position_embeddings.weight"][0] + w["embeddings.token_type_embeddings.weight"][0]
    x = norm(tokens + fixed, "embeddings")
    mixed = linear(x, f"{ATTENTION}.value")
    attended = norm(linear(mixed, f"{BERT}.attention.output.dense") + x, f"{BERT}.attention.output")
    return {"input": x, "mixed": mixed, "attended": attended}


@cache
def ground(place: str, name: str) -> Ground:
    """Return the tensors and rows of a host on a place."""
    return _tiny(name) if place == "tiny" else _trained(name)
