"""Its second file."""

from torch import Tensor


def same(x: Tensor) -> Tensor:
    return x + 0
