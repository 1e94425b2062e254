"""No word of a command line may be empty: one stands for a variable of a script that was not set.

Taken as it is, it would mean the working folder, everything, or that the option was never given.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_frt.errors import UsageFault


def check(words: Sequence[str]) -> None:
    """Refuse an empty word, and an option with nothing after its ``=``.

    Raises:
        UsageFault: with the option, or the word before.
    """
    before = ""
    for word in words:
        option, equals, value = word.partition("=")
        bare = bool(equals) and not value and option.startswith("--")
        if bare or not word.strip():
            where = option if bare else before if before.startswith("-") else f"the argument after {before or 'frt'}"
            raise UsageFault(f"{where} is empty", hint="give it a value, or leave it out")
        before = word
