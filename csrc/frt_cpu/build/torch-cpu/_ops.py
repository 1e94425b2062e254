"""Written by the builder: the namespace of this build's ops."""

import torch

ops = torch.ops.frt_cpu_7a027b8


def add_op_namespace_prefix(op_name: str) -> str:
    """Return the full name of an op of this build."""
    return f"frt_cpu_7a027b8::{op_name}"
