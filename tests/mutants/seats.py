"""The seats that mutants sit on, by the names of one layer of a host. Tiny and trained hosts share the names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pytest_frt.contracts.seat import ModuleSeat, PairSeat, Seat


@dataclass(frozen=True, slots=True)
class SeatSpec:
    """A seat of the first layer.

    Attributes:
        structure: Catalog name.
        host: Host folder.
        seat: Where it sits.
        variant: Axis to value.
        slots: Slot to host tensor; matmul slots of ``[in, out]`` structures are transposed.
        reads: Name of the activation it reads, see ``places``.
        eps: Of its norm.
    """

    structure: str
    host: str
    seat: Seat
    variant: Mapping[str, str]
    slots: Mapping[str, str]
    reads: str
    eps: float = 1e-6


GEMMA, BERT = "model.layers.0", "encoder.layer.0"
_GATED = {f"w_{one}": f"{GEMMA}.mlp.{one}_proj.weight" for one in ("gate", "up", "down")}
_NORMED = {**_GATED, "w_norm": f"{GEMMA}.pre_feedforward_layernorm.weight"}
_DENSE = {
    "w_fc1": f"{BERT}.intermediate.dense.weight",
    "b_fc1": f"{BERT}.intermediate.dense.bias",
    "w_fc2": f"{BERT}.output.dense.weight",
    "b_fc2": f"{BERT}.output.dense.bias",
}
_NORM = {"w_norm": f"{BERT}.output.LayerNorm.weight", "b_norm": f"{BERT}.output.LayerNorm.bias"}
ATTENTION = f"{BERT}.attention.self"
_BEFORE = ModuleSeat(f"{GEMMA}.pre_feedforward_layernorm")


def _ffn(activation: str, norm: str, residual: str) -> dict[str, str]:
    return {"activation": activation, "norm": norm, "residual": residual}


SEATS: Final[Mapping[str, SeatSpec]] = {
    "decoder_ffn": SeatSpec(
        "decoder_ffn", "gemma3_270m", ModuleSeat(f"{GEMMA}.mlp"), _ffn("gelu_tanh", "none", "none"), _GATED, "normed"
    ),
    "decoder_ffn_silu": SeatSpec(
        "decoder_ffn", "gemma3_270m", ModuleSeat(f"{GEMMA}.mlp"), _ffn("silu", "none", "none"), _GATED, "normed"
    ),
    "decoder_ffn_offset": SeatSpec(
        "decoder_ffn", "gemma3_270m", _BEFORE, _ffn("gelu_tanh", "offset", "add"), _NORMED, "stream"
    ),
    "decoder_ffn_direct": SeatSpec(
        "decoder_ffn", "gemma3_270m", _BEFORE, _ffn("silu", "direct", "none"), _NORMED, "stream"
    ),
    "vision_ffn": SeatSpec(
        "vision_ffn",
        "minilm",
        PairSeat(f"{BERT}.intermediate", (f"{BERT}.output",)),
        _ffn("gelu_erf", "post", "add"),
        {**_DENSE, **_NORM},
        "attended",
        1e-12,
    ),
    "vision_ffn_bare": SeatSpec(
        "vision_ffn",
        "minilm",
        ModuleSeat(f"{BERT}.intermediate"),
        _ffn("gelu_tanh", "none", "none"),
        _DENSE,
        "attended",
    ),
    "vision_ffn_pre": SeatSpec(
        "vision_ffn",
        "minilm",
        ModuleSeat(f"{BERT}.intermediate"),
        _ffn("gelu_erf", "pre", "add"),
        {**_DENSE, **_NORM},
        "attended",
    ),
    "linear_proj": SeatSpec(
        "linear_proj",
        "gemma3_270m",
        ModuleSeat(f"{GEMMA}.self_attn.o_proj"),
        {"bias": "none"},
        {"w": f"{GEMMA}.self_attn.o_proj.weight"},
        "mixed",
    ),
    "linear_proj_biased": SeatSpec(
        "linear_proj",
        "minilm",
        ModuleSeat(f"{BERT}.attention.output.dense"),
        {"bias": "add"},
        {"w": f"{BERT}.attention.output.dense.weight", "b": f"{BERT}.attention.output.dense.bias"},
        "mixed",
    ),
    "qkv_pack": SeatSpec(
        "qkv_pack",
        "gemma3_270m",
        PairSeat(f"{GEMMA}.self_attn.q_proj", (f"{GEMMA}.self_attn.k_proj", f"{GEMMA}.self_attn.v_proj")),
        {"bias": "none"},
        {f"w_{one}": f"{GEMMA}.self_attn.{one}_proj.weight" for one in "qkv"},
        "input",
    ),
    "qkv_pack_biased": SeatSpec(
        "qkv_pack",
        "minilm",
        PairSeat(f"{ATTENTION}.query", (f"{ATTENTION}.key", f"{ATTENTION}.value")),
        {"bias": "add"},
        {
            f"{kind}_{one[0]}": f"{ATTENTION}.{one}.{name}"
            for one in ("query", "key", "value")
            for kind, name in (("w", "weight"), ("b", "bias"))
        },
        "input",
    ),
}
