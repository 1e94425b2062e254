"""The live host's configuration: asked of the certified host entry, after its bytes are verified."""

from __future__ import annotations

from typing import cast

from torch import nn

from pytest_frt.contracts.host import HostProgram
from pytest_frt.contracts.record import Record
from pytest_frt.errors import CertificateRefused
from pytest_frt.runtime.imports import execute
from pytest_frt.runtime.match import Reject, match_config
from pytest_frt.runtime.sources import CodeCopy
from pytest_frt.seat.hostfacts import projection_digest


def check_config(model: nn.Module, record: Record, copy: CodeCopy) -> Reject | None:
    """Compare the model's configuration with the certified one.

    The projection that says which settings matter is code of the host entry. It runs from verified copies, and only for
    a record that fits this process in everything else.

    Args:
        model: The live model.
        record: What is certified.
        copy: The verified copy of the host entry.

    Raises:
        CertificateRefused: ``HOST``: the model lacks a setting that the projection reads; ``ROLE_FILE``: the host entry
            imports a file that is not certified.
    """
    program = cast("HostProgram", execute(copy))
    try:
        projection = program.projection(model)
    except AttributeError as fault:
        raise CertificateRefused("HOST", f"the configuration of this model cannot be read: {fault}") from fault
    verdict = match_config(record, projection_digest(projection))
    return verdict if isinstance(verdict, Reject) else None
