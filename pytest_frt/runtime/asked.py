"""What ``attach`` is asked for, checked before anything is read: a question that means nothing gets no answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pytest_frt.errors import UsageFault

FORMS: Final = ("eager", "compiled", "captured")
"""Deployment forms, as a host's declaration may name them."""
_SHOWN: Final = 80
"""Characters of a path that cannot be one."""


def check_form(form: str) -> None:
    """Refuse a deployment form that is empty or not known.

    Raises:
        UsageFault: it is none of ``FORMS``.
    """
    if form not in FORMS:
        raise UsageFault(f"form is {form!r}, and no deployment form", hint=f"one of {', '.join(FORMS)}")


def moment(now: datetime | None) -> datetime:
    """Return the moment to verify at.

    Raises:
        UsageFault: it has no time zone, so that it names no moment.
    """
    if now is None:
        return datetime.now(UTC)
    if now.utcoffset() is None:
        raise UsageFault(f"now is {now.isoformat()}, without a time zone", hint="datetime.now(UTC)")
    return now


def check_paths(*given: object) -> None:
    """Refuse what can be no path: empty, with a NUL, too long. What does not exist may still be a name.

    Args:
        given: Strings, paths and sequences of them; anything else is left alone.

    Raises:
        UsageFault: one can be no path.
    """
    for one in given:
        if isinstance(one, str | Path):
            _check_path(one)
        elif isinstance(one, Sequence):
            check_paths(*one)


def _check_path(path: str | Path) -> None:
    text = str(path)
    if not text:
        raise UsageFault("an empty path was given", hint="name a file or folder; . is the working directory")
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else fault
        raise UsageFault(f"{text[:_SHOWN]!r} cannot be looked at: {why}", hint="name a file or folder") from fault
