"""The toy host: only what attaching asks of it."""

from __future__ import annotations

from torch import nn
from toy_world_hosts._shared.settings import NAMES


def projection(model: nn.Module) -> dict[str, str | int | float | bool | None]:
    return {name: getattr(model.config, name) for name in NAMES}
