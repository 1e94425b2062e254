"""One thread at a time where a block changes what the whole interpreter imports, or how."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class _Held:
    lock: ClassVar[threading.RLock] = threading.RLock()


def _renew() -> None:
    _Held.lock = threading.RLock()  # in a forked process nobody is left to give the old one back


os.register_at_fork(after_in_child=_renew)


@contextmanager
def alone() -> Iterator[None]:
    """Let no other thread of this process enter such a block. A thread that is in one may enter further ones.

    It is one lock for all of them, so that no two threads wait for each other.
    """
    with _Held.lock:  # what was taken is given back, also where the block forked
        yield
