"""The ops of published packages that impls call or that a region may hand a residual to: signatures, and their source.

``source`` names the section and row of the kernels reference (``kernels.md``) that states the op. Stand-in and impls
are both held against this table; a package that differs from it is refused at bind.
"""

from __future__ import annotations

from typing import Final, NamedTuple

SWIGLU: Final = "flashrt/flashrt-fp8-swiglu-ffn"
FFN: Final = "flashrt/flashrt-fp8-ffn"
WEIGHT_ONLY: Final = "flashrt/weight-only-ffn"
EPILOGUES: Final = "flashrt/flashrt-gemm-epilogues"
NORM: Final = "flashrt/flashrt-residual-norm-quant"


class Op(NamedTuple):
    """One op as published.

    Attributes:
        package: Repo id.
        name: What the package exports.
        arguments: Leading arguments, which impls pass by place.
        others: Optional ones, by name; ``**`` where the package takes any.
        source: Section and row that state it.
        impls: Who calls it; empty for what is held for its semantics alone.
    """

    package: str
    name: str
    arguments: str
    others: str
    source: str
    impls: tuple[str, ...]


_GATED = "input gate_up_weight down_weight input_scale gate_up_weight_scale hidden_scale down_weight_scale"
_GATED_OTHERS = "input_fp8 gate_up_bf16 hidden_fp8 out pad_to"
_MLP = (
    "input up_weight up_bias down_weight down_bias input_scale up_weight_scale hidden_scale down_weight_scale"
)  # fmt: skip
_MLP_OTHERS = "input_fp8 hidden_bf16 hidden_fp8 out pad_to"
_WEIGHT_ONLY = "x gate_up_weight gate_up_scale down_weight down_scale"
_GATED_ROW = "3.2 bf16_fp8_{swiglu,geglu}_mlp_bf16; 3.3 FP8 gated FFN"
_MLP_ROW = "3.2 fp8_gelu_mlp_bf16(_v2) / bf16_fp8_gelu_mlp_bf16(_v2); 3.3 FP8 GELU MLP"
_WEIGHT_ONLY_ROW = "3.2 w{8,4}a16_{swiglu,geglu}_ffn_bf16; 3.3 W8A16, W4A16"

OPS: Final = (
    Op(SWIGLU, "bf16_fp8_geglu_mlp_bf16", _GATED, _GATED_OTHERS, _GATED_ROW, ("decoder_ffn/hub_fp8",)),
    Op(SWIGLU, "bf16_fp8_swiglu_mlp_bf16", _GATED, _GATED_OTHERS, _GATED_ROW, ("decoder_ffn/hub_fp8",)),
    Op(FFN, "bf16_fp8_gelu_mlp_bf16", _MLP, _MLP_OTHERS, _MLP_ROW, ("vision_ffn/hub_fp8",)),
    Op(FFN, "bf16_fp8_gelu_mlp_v2_bf16", _MLP, _MLP_OTHERS, _MLP_ROW, ("vision_ffn/hub_fp8",)),
    Op(
        FFN,
        "bf16_fp8_linear_bias_bf16",
        "input weight bias input_scale weight_scale",
        "input_fp8 out pad_to",
        "3.2 fp8_linear_bias_bf16 / bf16_fp8_linear_bias_bf16; 3.3 bf16-entry FP8 linear",
        ("linear_proj/hub_fp8", "qkv_pack/hub_fp8"),
    ),
    Op(
        WEIGHT_ONLY,
        "quantize_w8_weight_bf16",
        "weight",
        "",
        "3.2 quantize_w8_weight_bf16 / quantize_w4_weight_bf16",
        ("decoder_ffn/hub_w8a16",),
    ),
    Op(WEIGHT_ONLY, "w8a16_geglu_ffn_bf16", _WEIGHT_ONLY, "**", _WEIGHT_ONLY_ROW, ("decoder_ffn/hub_w8a16",)),
    Op(WEIGHT_ONLY, "w8a16_swiglu_ffn_bf16", _WEIGHT_ONLY, "**", _WEIGHT_ONLY_ROW, ("decoder_ffn/hub_w8a16",)),
    Op(
        EPILOGUES,
        "bf16_linear_bf16",
        "x w",
        "out",
        "3.2 gemm-epilogues bf16_linear(_bias)_bf16",
        ("patch_projection/hub_bf16",),
    ),
    Op(
        EPILOGUES,
        "bf16_linear_bias_bf16",
        "x w bias",
        "out",
        "3.2 gemm-epilogues bf16_linear(_bias)_bf16",
        ("patch_projection/hub_bf16",),
    ),
    Op(
        NORM,
        "layer_norm_bf16",
        "x weight bias eps",
        "out",
        "3.2 rms_norm_bf16, layer_norm_bf16; 3.3 residual-norm-quant limits",
        ("norm_fused/hub_bf16",),
    ),
    Op(
        NORM,
        "residual_add_rms_norm_quant_fp8_static_bf16",
        "residual x weight scale eps",
        "out",
        "3.2 residual_add_rms_norm(_quant_fp8_static)_bf16; 3.3 residual add",
        (),
    ),
)
