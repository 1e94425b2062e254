"""Identity of a live host: the same function serves the witness and the deployer's process."""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_frt.contracts.host import HostFacts
from pytest_frt.errors import SwapRefused
from pytest_frt.spec.digest import file_digest

if TYPE_CHECKING:
    from torch import nn

    from pytest_frt.contracts.seat import SeatFacts

Scalar = str | int | float | bool | None


def projection_digest(projection: Mapping[str, Scalar]) -> str:
    """Return the sha256 of a host's configuration projection; floats enter by ``repr``: no JSON float is signed."""
    plain = {key: repr(value) if isinstance(value, float) else value for key, value in projection.items()}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=1)
def _distributions() -> Mapping[str, list[str]]:
    # It reads the file list of every installed distribution: half a second where many are installed.
    return importlib.metadata.packages_distributions()


def library_of(model: nn.Module) -> dict[str, str]:
    """Return distribution and version of the package that defines the model's class; empty for local classes."""
    top = type(model).__module__.partition(".")[0]
    names = _distributions().get(top, [])
    return {name: importlib.metadata.version(name) for name in sorted(set(names))}


def class_label(module: nn.Module) -> str:
    """Return ``module.QualName`` of a module's class, as records name it."""
    return f"{type(module).__module__}.{type(module).__qualname__}"


def source_file(kind: type) -> Path | None:
    """Return the source file of a class, or None when it has none that can be read."""
    try:
        found = inspect.getsourcefile(kind)
    except (TypeError, OSError):  # built in, typed at a prompt, or of a module that is not there
        return None
    return Path(found) if found is not None and Path(found).is_file() else None


def source_digest(module: nn.Module) -> str:
    """Return the sha256 of the source file of a module's class.

    Raises:
        SwapRefused: the class has no source file.
        OSError: it cannot be read.
    """
    path = source_file(type(module))
    if path is None:
        raise SwapRefused(
            f"class {type(module).__qualname__} has no source file to bind a certificate to",
            hint="define the class in a module file",
        )
    return file_digest(path)


def host_facts(
    model: nn.Module,
    *,
    name: str,
    projection: Mapping[str, Scalar],
    seats: Iterable[SeatFacts],
    weights: str,
    checkpoint: str,
) -> HostFacts:
    """Collect a host's identity.

    Args:
        model: The unattached host.
        name: Host name.
        projection: What the host entry declares relevant of its configuration.
        seats: Seats whose module classes are bound by source digest.
        weights: ``trained`` or ``random``.
        checkpoint: Origin of the weights.

    Returns:
        The facts; ``module_source`` has one entry per class that a seat replaces.
    """
    sources: dict[str, str] = {}
    for seat in seats:
        for place in seat.seat.places:
            module = model.get_submodule(place)
            label = class_label(module)
            if label not in sources:
                sources[label] = source_digest(module)
    return HostFacts(
        name=name,
        host_class=class_label(model),
        library=library_of(model),
        config_digest=projection_digest(projection),
        module_source=dict(sorted(sources.items())),
        weights=weights,
        checkpoint=checkpoint,
    )
