"""Written by the builder: the namespace of this build's ops."""

import torch

ops = torch.ops.frt_scaled_ba0e6fc


def add_op_namespace_prefix(op_name: str) -> str:
    """Return the full name of an op of this build."""
    return f"frt_scaled_ba0e6fc::{op_name}"
