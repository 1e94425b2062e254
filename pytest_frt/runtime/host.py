"""The live host's configuration: asked of the certified host entry, after its bytes are verified."""

from __future__ import annotations

from functools import partial
from typing import Final, cast

from torch import nn

from pytest_frt.contracts.host import HostProgram
from pytest_frt.contracts.record import Record
from pytest_frt.runtime.foreign import foreign
from pytest_frt.runtime.imports import execute
from pytest_frt.runtime.match import Reject, match_config
from pytest_frt.runtime.sources import CodeCopy
from pytest_frt.seat.hostfacts import projection_digest

HINT: Final = "load the host that was certified, and what its entry imports"


def check_config(model: nn.Module, record: Record, copy: CodeCopy) -> Reject | None:
    """Compare the model's configuration with the certified one.

    The projection that says which settings matter is code of the host entry. It runs from verified copies, and only for
    a record that fits this process in everything else.

    Args:
        model: The live model.
        record: What is certified.
        copy: The verified copy of the host entry.

    Raises:
        CertificateRefused: ``HOST``: the host entry does not run here, the model lacks a setting that its projection
            reads, or that is nothing to take a digest of; ``ROLE_FILE``: it imports a file that is not certified.
    """
    around = partial(foreign, "HOST", "the configuration of this model cannot be read", hint=HINT)
    program = cast("HostProgram", execute(copy, around))
    with around():  # what it answers is an object of theirs, and reading it may run more of their code
        digest = projection_digest(program.projection(model))
    verdict = match_config(record, digest)
    return verdict if isinstance(verdict, Reject) else None
