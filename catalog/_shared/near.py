"""Near misses of a reference: what an implementation may compute by mistake and no single number shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor


class NearMiss(NamedTuple):
    """The reference with something changed.

    Attributes:
        name: Unique among the near misses of one variant.
        keywords: Axes and constants of the reference that take another value.
        slots: Slot to what it is taken for, in its own dtype.
    """

    name: str
    keywords: Mapping[str, object] = MappingProxyType({})
    slots: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType({})


def shifted_in_bfloat16(w: Tensor) -> Tensor:
    """Return what is left of ``w`` when ``1 + w`` is added up in bfloat16: steps of 1/128 from 1 on, 1/256 below."""
    return (1 + w.to(torch.bfloat16)).to(w.dtype) - 1
