"""Linear layers that pack their weights once. Weights come as ``[N_i, K]`` pieces that become one GEMM of sum(N_i)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NoReturn

import torch
from torch import Tensor, nn

from . import ops
from .held import (
    Bf16,
    DynamicInt8,
    Fp16Packed,
    Fp32Packed,
    GroupInt4,
    Held,
    Kept,
    Plain,
    StaticFp8,
    Table,
    WeightInt8,
    keep,
    twin,
)
from .quantize import INT4_GROUP, fp8_tensor, int4_groups, int8_rows, power_of_two
from .support import packing_engine, unsupported

FP16_MAX: Final = 65504.0
TABLE_ROWS: Final = 64
BF16_MAX: Final = torch.finfo(torch.bfloat16).max
INT4_MAX: Final = BF16_MAX / 2  # a group may hold it with either sign, and its range must stay finite
INT4_N_MULTIPLE: Final = 16  # the op packs sixteen output channels together
MATRIX: Final = 2
FP16_PACK_ROWS: Final = 16384  # packing walks down whole columns: pieces of the output channels stay in cache
INT8_K_MULTIPLE: Final = 16  # the weight-only op reads K sixteen codes at a time and does not look where K ends


class PackedLinear(nn.Module):
    """``x[..., K] -> [..., N]`` over packed weights. Owns no parameter: the original module stays the one to save.

    Args:
        op: The op to call.
        held: Packed weights; freed when this module dies.
        shape: ``(N, K)``.
        nbytes: Bytes that the packed weights take.
    """

    def __init__(self, op: torch._ops.OpOverload, held: Held, shape: tuple[int, int], nbytes: int) -> None:
        super().__init__()
        self.out_features, self.in_features = shape
        self.nbytes = nbytes
        self.handle = keep(self, held)
        self._op = op

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to float32 ``x``; leading axes are free and may be empty."""
        if x.shape[-1] != self.in_features:
            raise ValueError(f"the layer takes {self.in_features} features, got {x.shape[-1]}")
        out: Tensor = self._op(x, self.handle, self.out_features)
        return out

    def extra_repr(self) -> str:
        """Return shape and op for ``print(model)``."""
        return f"{self.in_features}, {self.out_features}, op={self._op}, handle={self.handle}"

    def __deepcopy__(self, memo: dict[int, object]) -> NoReturn:
        raise TypeError("packed weights cannot be copied: detach them from the model, copy it, and bind again")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("packed weights cannot be copied or pickled: detach them from the model and bind again")


def plain_linear(weights: Sequence[Tensor], biases: Sequence[Tensor] = ()) -> PackedLinear:
    """Merge float32 weights, unpacked."""
    weight, bias = _merge("plain_linear", weights, biases)
    return _layer(ops.LIN_PLAIN, Plain(weight, bias), weight, width=4)


def table_linear(weights: Sequence[Tensor], biases: Sequence[Tensor] = ()) -> PackedLinear:
    """Merge float32 weights, unpacked, and keep the outputs of the first 64 different inputs of one row.

    An input is found again by its bytes. One that is not in the table costs what ``plain_linear`` does.
    """
    weight, bias = _merge("table_linear", weights, biases)
    return _layer(ops.LIN_TABLE, Table(weight, bias, TABLE_ROWS, {}), weight, width=4)


def kept_linear(weights: Sequence[Tensor], biases: Sequence[Tensor] = ()) -> PackedLinear:
    """Merge float32 weights, unpacked, and keep the last contiguous input with its output.

    An input with the very bits of the last one is answered from memory. Any other gets what a linear of the one weight
    gives it where and how it lies, bit for bit.
    """
    weight, bias = _merge("kept_linear", weights, biases, copied=False)
    return _layer(ops.LIN_KEPT, Kept(twin(weight), bias, []), weight, width=4)


def fp32_linear(weights: Sequence[Tensor], biases: Sequence[Tensor] = (), *, rows: int) -> PackedLinear:
    """Merge float32 weights in oneDNN's blocked layout.

    Args:
        weights: Pieces [N_i, K].
        biases: Pieces [N_i], or none.
        rows: Row count that the layout is chosen for; others run too.
    """
    weight, bias = _merge("fp32_linear", weights, biases)
    pack = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
    return _layer(ops.LIN_FP32_PACKED, Fp32Packed(pack, bias), weight, width=4)


def fp16_linear(weights: Sequence[Tensor], biases: Sequence[Tensor] = ()) -> PackedLinear:
    """Merge weights rounded to float16; activations and sums stay float32.

    Raises:
        ValueError: a weight lies beyond the largest float16 number, where packing would clamp it.
    """
    weight, bias = _merge("fp16_linear", weights, biases, copied=False)
    _within(weight, FP16_MAX)
    with packing_engine():
        packs = _fp16_packs(weight, bias)
    return _layer(ops.LIN_FP16, Fp16Packed(packs), weight, width=2)


def _fp16_packs(weight: Tensor, bias: Tensor | None) -> tuple[torch.ScriptObject, ...]:
    """Pack ``weight`` [N, K] in pieces of rows, one lane per thread."""
    starts = range(0, weight.shape[0], FP16_PACK_ROWS)
    packs: dict[int, torch.ScriptObject] = {}
    lanes = min(torch.get_num_threads(), len(starts))

    @torch.no_grad()  # gradient mode belongs to a thread
    def pack(lane: int) -> None:
        # The pack clamps in the tensor it is given: each lane has one scratch for all of its pieces.
        scratch = torch.empty(min(FP16_PACK_ROWS, weight.shape[0]), weight.shape[1])
        for turn in range(lane, len(starts), lanes):
            rows = slice(starts[turn], starts[turn] + FP16_PACK_ROWS)
            piece = scratch[: weight[rows].shape[0]].copy_(weight[rows])
            packs[turn] = torch.ops.quantized.linear_prepack_fp16(piece, None if bias is None else bias[rows].clone())

    with ThreadPoolExecutor(lanes) as threads:
        list(threads.map(pack, range(lanes)))
    return tuple(packs[turn] for turn in range(len(starts)))


def int8_linear(weights: Sequence[Tensor], biases: Sequence[Tensor] = ()) -> PackedLinear:
    """Merge int8 weights, one scale per output channel; activations and sums leave as bfloat16.

    Raises:
        ValueError: K is no multiple of 16.
    """
    weight, bias = _merge("int8_linear", weights, biases)
    if weight.shape[1] % INT8_K_MULTIPLE:
        raise ValueError(f"K = {weight.shape[1]} is no multiple of {INT8_K_MULTIPLE}")
    codes, scale = int8_rows(weight)
    held = WeightInt8(codes, scale, torch.ones_like(scale, dtype=torch.bfloat16), bias)
    return _layer(ops.LIN_W8, held, weight, width=1)


def dynamic_int8_linear(weights: Sequence[Tensor], biases: Sequence[Tensor] = ()) -> PackedLinear:
    """Merge int8 weights, one scale per output channel; each call quantises ``x`` to 7 bits over its own range."""
    weight, bias = _merge("dynamic_int8_linear", weights, biases)
    codes, scale = int8_rows(weight)
    with packing_engine(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch deprecates quantised tensors; this op takes nothing else
        zeros = torch.zeros(scale.shape, dtype=torch.long)
        quantised = torch._make_per_channel_quantized_tensor(codes, scale.double(), zeros, 0)
        pack = torch.ops.quantized.linear_prepack(quantised, bias)
    return _layer(ops.LIN_DYN8, DynamicInt8(pack), weight, width=1)


def fp8_linear(weights: Sequence[Tensor], biases: Sequence[Tensor] = (), *, input_scale: float) -> PackedLinear:
    """Merge e4m3 weights, one scale per piece; ``x`` is multiplied by ``1 / input_scale`` and clamped to +-448.

    Raises:
        ValueError: the input scale is not a positive, finite float32 with a finite reciprocal.
    """
    weight, bias = _merge("fp8_linear", weights, biases)
    scale = torch.tensor(input_scale, dtype=torch.float32)
    if not (scale > 0 and scale.isfinite() and scale.reciprocal().isfinite()):
        raise ValueError(f"the input scale {input_scale} has no positive, finite float32 reciprocal")
    pieces = [fp8_tensor(piece) for piece in torch.split(weight, [piece.shape[0] for piece in weights])]
    codes = torch.cat([codes.view(torch.uint8) for codes, _ in pieces]).view(torch.float8_e4m3fn)
    channel = torch.cat([one.expand(codes.shape[0]) for codes, one in pieces])
    held = StaticFp8(codes.t(), channel, scale, scale.reciprocal(), torch.ones(()), bias)
    return _layer(ops.LIN_FP8, held, weight, width=1)


def int4_linear(weights: Sequence[Tensor], biases: Sequence[Tensor] = ()) -> PackedLinear:
    """Merge int4 weights, one scale and zero point per 32 input channels; activations and sums leave as bfloat16.

    Raises:
        ValueError: K is no multiple of 32, N none of 16, or the range of a weight leaves bfloat16.
    """
    weight, bias = _merge("int4_linear", weights, biases)
    for name, size, divisor in zip("NK", weight.shape, (INT4_N_MULTIPLE, INT4_GROUP), strict=True):
        if size % divisor:
            raise ValueError(f"{name} = {size} is no multiple of {divisor}")
    _within(weight, INT4_MAX)
    codes, scale, zero = int4_groups(weight)
    pack = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
    channel = power_of_two(scale)
    held = GroupInt4(pack, torch.stack((scale.t(), zero.t()), -1) / channel.bfloat16()[:, None], channel, bias)
    rows, columns = weight.shape
    return PackedLinear(ops.LIN_W4, held, (rows, columns), pack.nbytes + held.scales_and_zeros.nbytes)


def bf16_linear(weights: Sequence[Tensor], biases: Sequence[Tensor] = ()) -> PackedLinear:
    """Merge weights rounded to bfloat16; activations and sums leave as bfloat16, biases are added in float32.

    Raises:
        ValueError: a weight lies beyond the largest bfloat16 number.
    """
    weight, bias = _merge("bf16_linear", weights, biases, copied=False)
    _within(weight, BF16_MAX)
    return _layer(ops.LIN_BF16, Bf16(weight.bfloat16().contiguous(), bias), weight, width=2)


def _within(weight: Tensor, limit: float) -> None:
    low, high = (bound.item() for bound in torch.aminmax(weight))
    if (largest := max(-low, high)) > limit:
        raise ValueError(f"the largest weight {largest} is over {limit}")


@torch.no_grad()
def _merge(
    layer: str, weights: Sequence[Tensor], biases: Sequence[Tensor], *, copied: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Return the pieces as one float32 weight and one bias that share no memory with them.

    Args:
        layer: What asks, to say what it lacks.
        weights: Pieces [N_i, K].
        biases: Pieces [N_i], or none.
        copied: False leaves the weight of a single piece where it is: the caller only reads it.
    """
    if reason := unsupported(layer):
        raise RuntimeError(reason)
    pieces = [piece.detach() for piece in weights]
    weight = torch.cat(pieces) if copied or len(pieces) > 1 else pieces[0]
    bias = torch.cat([piece.detach() for piece in biases]) if biases else None
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None:
            check(name, tensor)
    if weight.dim() != MATRIX or not weight.numel() or (bias is not None and bias.shape != weight.shape[:1]):
        raise ValueError(f"no linear layer: weight {tuple(weight.shape)}, bias {bias if bias is None else bias.shape}")
    return weight, bias


def check(name: str, tensor: Tensor) -> None:
    """Refuse what no layer holds.

    Raises:
        TypeError: the tensor is not float32 on the CPU.
        ValueError: it holds NaN or Inf.
    """
    if tensor.dtype != torch.float32 or tensor.device.type != "cpu":
        raise TypeError(f"the {name} must be float32 on cpu, got {tensor.dtype} on {tensor.device}")
    # One pass and no temporary of the size of a vocabulary head: a NaN wins both ends.
    if tensor.numel() and not all(bound.isfinite() for bound in torch.aminmax(tensor)):
        raise ValueError(f"the {name} holds NaN or Inf")


def _layer(op: torch._ops.OpOverload, held: Held, weight: Tensor, *, width: int) -> PackedLinear:
    rows, columns = weight.shape
    return PackedLinear(op, held, (rows, columns), rows * columns * width)
