"""The boundary to code of others: whatever it raises is a refusal with a code, and the attach goes on.

It is drawn around the calls of that code alone: a fault of ours within it would be told as one of theirs.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_frt.errors import CertificateRefused, FrtError


@contextmanager
def foreign(code: str, what: str, *, hint: str = "") -> Iterator[None]:
    """Turn every ``Exception`` of the block into a refusal; what ends a process (``SystemExit``, ...) passes.

    Args:
        code: Refusal code.
        what: What did not work, for people; type and text of the exception follow.
        hint: The next step.

    Raises:
        CertificateRefused: with ``code``; the exception is its cause. Errors of this project pass as they are.
    """
    try:
        yield
    except FrtError:
        raise
    except Exception as fault:
        said = traceback.TracebackException.from_exception(fault)  # its text survives an exception without one
        raise CertificateRefused(code, f"{what}: {type(fault).__name__}: {said}", hint=hint) from fault
