"""Written by the builder: the namespace of this build's ops."""

import torch

ops = torch.ops.frt_scaled_d5c075f


def add_op_namespace_prefix(op_name: str) -> str:
    """Return the full name of an op of this build."""
    return f"frt_scaled_d5c075f::{op_name}"
