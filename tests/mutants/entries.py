"""Every mutant: seat, scheme, fault, and the word of the refusal. One line adds one."""

from __future__ import annotations

from typing import Final

import torch

from tests.mutants import codes as q
from tests.mutants import conduct as c
from tests.mutants import faults as f
from tests.mutants import memory as m
from tests.mutants import reach as r
from tests.mutants.entry import PASSES, Mutant

DECODER: Final = (
    Mutant("decoder_ffn", "none", c.GAIN, "gain"),
    Mutant("decoder_ffn", "none", f.swapped("w_gate", "w_up"), "reference"),
    Mutant("decoder_ffn", "none", f.activation("gelu_erf"), "reference"),
    Mutant("decoder_ffn", "none", f.scaled("w_gate", 2.0), "gain"),
    Mutant("decoder_ffn", "none", f.seen_only(), "reference"),
    Mutant("decoder_ffn", "none", m.FRESH_MEMORY, "poison"),
    Mutant("decoder_ffn", "none", m.writes_host("w_down"), "host_written"),
    Mutant("decoder_ffn", "none", m.RANDOM, "nondeterministic"),
    Mutant("decoder_ffn", "none", f.scaled("w_up", 1.01), "gain"),
    Mutant("decoder_ffn", "w16a32", f.scaled_channel("w_gate", 1.1), "reference"),
    Mutant("decoder_ffn", "w16a32", f.sums_in(torch.bfloat16), "reference"),
    Mutant("decoder_ffn", "w16a32", f.sums_in(torch.float16), "zeros"),
    Mutant("decoder_ffn", "w16a32", f.clamped(6.0), "reference"),
    Mutant("decoder_ffn", "w16a32", f.dead_channel("w_down"), "reference"),
    Mutant("decoder_ffn", "w16a32", f.tail_dropped(1), "reference"),
    Mutant("decoder_ffn", "w16a32", c.LAST_ROW_ZERO, "zeros"),
    Mutant("decoder_ffn", "w8a16_decode", c.GAIN, "gain"),
    Mutant("decoder_ffn", "w8a16_decode", f.activation("silu"), "reference"),
    Mutant("decoder_ffn", "w8a16_decode", f.scaled_channel("w_down", 2.0), "reference"),
    Mutant("decoder_ffn", "w8a16_decode", f.neighbours("w_down"), "reference"),
    Mutant(
        "decoder_ffn",
        "w8a16_decode",
        q.weight_codes("int8_per_tensor", q.int8_per_tensor),
        "scheme",
        trained="reference",
    ),
    Mutant(
        "decoder_ffn", "w8a16_decode", q.weight_codes("int8_truncated", q.int8_truncated), "scheme", trained="reference"
    ),
    Mutant("decoder_ffn", "w8a16_decode", q.weight_codes("int4", q.int4_channels), "reference"),
    Mutant("decoder_ffn", "w8a8_dynamic", q.zero_point(1), "reference"),
    Mutant("decoder_ffn", "w8a8_dynamic", q.symmetric_codes(), "scheme"),
    Mutant("linear_proj", "w8a8_dynamic", q.own_scale_per_row(), "scheme"),
    Mutant("decoder_ffn", "w8a8_dynamic", q.unquantised(), "scheme"),
    Mutant("decoder_ffn", "fp8_static", c.GAIN, "gain"),
    Mutant("decoder_ffn", "fp8_static", f.swapped("w_gate", "w_up"), "reference"),
    Mutant("decoder_ffn", "fp8_static", q.activation_scale(0.5), "reference"),
    Mutant("decoder_ffn", "fp8_static", q.activation_scale(1.3), "scheme"),
    Mutant("decoder_ffn", "fp8_static", q.activation_scale(2.0), "scheme"),
    Mutant("decoder_ffn", "fp8_static", q.saturating(q.E4M3_FNUZ), "reference"),
    Mutant("decoder_ffn", "fp8_static", q.saturating(448.0, float("nan")), "nan"),
    Mutant("decoder_ffn", "fp8_static", q.saturating(448.0, 0.0), "reference"),
    Mutant("decoder_ffn", "fp8_static", q.forgotten_scale(), "reference"),
    Mutant("decoder_ffn", "fp8_static", q.weight_codes("e4m3_without_scale", q.e4m3_plain), "scheme"),
    Mutant("decoder_ffn_silu", "none", f.activation("gelu_tanh"), "reference"),
    Mutant("decoder_ffn_offset", "none", f.variant("norm", "direct"), "reference"),
    Mutant("decoder_ffn_offset", "none", f.ignored("w_norm"), "reference"),
    Mutant("decoder_ffn_offset", "none", f.epsilon(1e-5), "reference"),
    Mutant("decoder_ffn_offset", "none", f.rounded_shift(), "reference"),
    Mutant("decoder_ffn_offset", "none", f.variant("residual", "none"), "zeros"),
    Mutant("decoder_ffn_offset", "none", f.residual_doubled(), "gain"),
    Mutant("decoder_ffn_offset", "w8a16_decode", f.epsilon(1e-5), "rows", trained="scheme"),
    Mutant("decoder_ffn_offset", "w8a16_decode", f.neighbours("w_norm"), "reference"),
    Mutant("decoder_ffn_direct", "w16a32", f.variant("norm", "offset"), "reference"),
)
VISION: Final = (
    Mutant("vision_ffn", "none", c.GAIN, "gain"),
    Mutant("vision_ffn", "none", f.activation("gelu_tanh"), "reference"),
    Mutant("vision_ffn", "none", f.dropped("b_fc1"), "reference"),
    Mutant("vision_ffn", "none", f.dropped("b_norm"), "reference"),
    Mutant("vision_ffn", "none", f.epsilon(1e-5), "reference"),
    Mutant("vision_ffn", "none", f.variant("norm", "none"), "reference"),
    Mutant("vision_ffn", "none", f.variant("residual", "none"), "reference"),
    Mutant("vision_ffn", "none", f.batch_mean(), "reference"),
    Mutant("vision_ffn", "w16a32", f.ignored("w_norm"), "reference"),
    Mutant("vision_ffn", "w16a32", f.scaled("w_fc2", 1.01), "reference"),
    Mutant("vision_ffn", "w16a32", f.scaled_channel("w_fc1", 2.0), "reference"),
    Mutant("vision_ffn", "w16a32", f.sums_in(torch.bfloat16), "reference"),
    Mutant("vision_ffn", "w16a32", f.rounded("w_fc1"), "reference"),
    Mutant("vision_ffn", "w16a32", m.BY_SHAPE, "reference"),
    Mutant("vision_ffn", "w16a32", c.ROWS_REVERSED, "reference"),
    Mutant("vision_ffn", "w16a32", m.LEAKS_ROWS, "gain"),
    Mutant("vision_ffn", "w8a8_dynamic", c.GAIN, "gain"),
    Mutant("vision_ffn", "w8a8_dynamic", f.doubled_bias("b_fc2"), "reference"),
    Mutant("vision_ffn", "w8a8_dynamic", q.zero_point(1), "reference"),
    Mutant("vision_ffn", "w8a8_dynamic", f.neighbours("w_fc2"), "reference"),
    Mutant("vision_ffn", "fp8_static", q.activation_scale(0.5), "reference"),
    Mutant("vision_ffn_bare", "w16a32", f.activation("gelu_erf"), "scheme"),
    Mutant("vision_ffn_bare", "w16a32", f.tanh_of_logits(), "reference"),
    Mutant("vision_ffn_bare", "none", f.dropped("b_fc2"), "reference"),
    Mutant("vision_ffn_pre", "w16a32", f.variant("norm", "post"), "reference"),
    Mutant("vision_ffn_pre", "none", f.residual_doubled(), "reference"),
)
LINEAR: Final = (
    Mutant("linear_proj", "none", f.scaled("w", 2.0), "gain"),
    Mutant("linear_proj", "none", c.NEGATED, "gain"),
    Mutant("linear_proj", "none", c.ONE_NAN, "nan"),
    Mutant("linear_proj", "none", m.ZERO_ROW_IS_NAN, "nan"),
    Mutant("linear_proj", "none", c.NAN_SWALLOWED, "reference"),
    Mutant("linear_proj", "none", c.FIRST_ROW_REPEATED, "reference"),
    Mutant("linear_proj", "none", c.LAST_ROWS_CUT, "shape"),
    Mutant("linear_proj", "none", m.STALE_LAST_ROW, "stale"),
    Mutant("linear_proj", "none", m.PADDING_ROW, "reference"),
    Mutant("linear_proj", "none", m.ONE_BUFFER, "aliased_output"),
    Mutant("linear_proj", "none", m.WRITES_INPUT, "input_mutated"),
    Mutant("linear_proj", "none", m.DRIFTS, "nondeterministic"),
    Mutant("linear_proj", "none", m.ASSUMES_DENSE, "layout"),
    Mutant("linear_proj", "none", m.ALIGNED_READS, "layout"),
    Mutant("linear_proj", "none", c.FLAT, "shape"),
    Mutant("linear_proj", "none", c.DOUBLE, "shape"),
    Mutant("linear_proj", "w16a32", c.HALF_AND_BACK, "zeros"),
    Mutant("linear_proj", "w16a32", c.CLIPPED, "reference"),
    Mutant("linear_proj", "w16a32", c.COLUMNS_ROLLED, "reference"),
    Mutant("linear_proj", "w16a32", c.LAST_COLUMN_STALE, "reference"),
    Mutant("linear_proj", "w16a32", f.scaled_channel("w", 1.01), "reference"),
    Mutant("linear_proj", "w16a32", f.sums_in(torch.float16), "zeros"),
    Mutant("linear_proj_biased", "w16a32", f.transposed("w"), "reference"),
    Mutant("linear_proj_biased", "w16a32", f.dropped("b"), "zeros"),
    Mutant("linear_proj_biased", "w16a32", f.shifted_bias("b"), "reference"),
    Mutant("linear_proj_biased", "w8a16_decode", f.doubled_bias("b"), "gain"),
    Mutant("linear_proj_biased", "w8a16_decode", f.scaled("w", 1.3), "gain"),
    Mutant("linear_proj_biased", "w8a8_dynamic", q.symmetric_codes(), "scheme"),
    Mutant("linear_proj", "w8a8_dynamic", q.zero_point(1), "reference"),
    Mutant("linear_proj", "fp8_static", q.activation_scale(1.3), "gain"),
)
QKV: Final = (
    Mutant("qkv_pack", "none", f.scaled("w_k", 2.0), "gain"),
    Mutant("qkv_pack", "none", f.scaled("w_v", 1.01), "gain"),
    Mutant("qkv_pack", "none", f.swapped("w_k", "w_v"), "reference"),
    Mutant("qkv_pack", "none", c.swap_outputs(0, 1), "shape"),
    Mutant("qkv_pack", "none", c.HEADS, "reference"),
    Mutant("qkv_pack", "none", c.INTERLEAVED, "reference"),
    Mutant("qkv_pack", "none", c.one("v_negated", 2, lambda y, _x: -y), "gain"),
    Mutant("qkv_pack", "none", c.one("k_narrow", 1, lambda y, _x: y[..., :-1]), "shape"),
    Mutant("qkv_pack", "w16a32", c.TWICE, "shape"),
    Mutant("qkv_pack", "w16a32", f.neighbours("w_q"), "reference"),
    Mutant("qkv_pack_biased", "w16a32", f.rounded("w_v"), "reference"),
    Mutant("qkv_pack", "w16a32", m.STALE_LAST_ROW, "stale"),
    Mutant("qkv_pack", "w8a8_dynamic", f.scaled("w_q", 1.3), "gain"),
    Mutant(
        "qkv_pack", "w8a8_dynamic", q.weight_codes("int8_per_tensor", q.int8_per_tensor), "scheme", trained="reference"
    ),
    Mutant("qkv_pack_biased", "none", c.swap_outputs(0, 1), "reference", trained="zeros"),
    Mutant("qkv_pack_biased", "none", c.swap_outputs(1, 2), "reference", trained="zeros"),
    Mutant("qkv_pack_biased", "none", f.transposed("w_k"), "reference"),
    Mutant("qkv_pack_biased", "none", f.swapped("b_q", "b_k"), "reference", trained="zeros"),
    Mutant("qkv_pack_biased", "w16a32", f.dropped("b_v"), "zeros"),
    Mutant("qkv_pack_biased", "w16a32", c.ZEROS, "zeros"),
    Mutant("qkv_pack_biased", "w8a8_dynamic", f.dropped("b_k"), "zeros"),
    Mutant("qkv_pack_biased", "w8a8_dynamic", c.GAIN, "gain"),
    Mutant("qkv_pack_biased", "w8a8_dynamic", c.swap_outputs(1, 2), "reference", trained="zeros"),
)
CONTRACT: Final = (
    Mutant("decoder_ffn", "none", r.TAKES_THREADS, "lifecycle", gate="contract"),
    Mutant("decoder_ffn", "none", r.REPLACES_GELU, "lifecycle", gate="contract"),
    Mutant("decoder_ffn", "none", r.MATMUL_PRECISION, "lifecycle", gate="contract"),
    Mutant("decoder_ffn", "none", r.SECOND_THREAD, "lifecycle", gate="contract"),
)
SHAPES_OF_GELU: Final = (
    "the two shapes of GELU differ by 4e-4 at most and matmul outputs in bfloat16 by up to 4e-3; "
    "discovery tells the host's shape in float64, and w16a32 of the same module refuses the swap"
)
SURVIVORS: Final = (
    Mutant("decoder_ffn", "w8a16_decode", f.activation("gelu_erf"), PASSES, survives=SHAPES_OF_GELU),
    Mutant(
        "decoder_ffn_offset",
        "w8a16_decode",
        f.rounded_shift(),
        PASSES,
        survives="the scheme rounds the normed row to bfloat16 anyway, which errs as much; none and w16a32 refuse it",
    ),
    Mutant(
        "decoder_ffn",
        "w8a16_decode",
        f.scaled_channel("w_down", 1.1),
        "scheme",
        trained=PASSES,
        survives="one of 640 channels off by 10 % is 0.4 % of the output, under what bfloat16 outputs leave open",
    ),
    Mutant(
        "linear_proj_biased",
        "w8a16_decode",
        f.scaled_channel("w", 1.1),
        "scheme",
        trained=PASSES,
        survives="one of 384 channels off by 10 % is 0.5 % of the output, under what bfloat16 outputs leave open",
    ),
    Mutant(
        "linear_proj",
        "none",
        c.SIGN_OF_ZERO,
        PASSES,
        survives="a zero without its sign is the same number: parity compares values and not bits",
    ),
)
REFUSED: Final = (*DECODER, *VISION, *LINEAR, *QKV, *CONTRACT)
EVERY: Final = (*REFUSED, *SURVIVORS)
