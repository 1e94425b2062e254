"""Fail when a text names one person's machine, a package registry, unfinished work or a document that is not here."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from repo_tree import ROOT, text_files

# Patterns hold a bracketed letter where they would otherwise match this file.
FORBIDDEN: Final = (
    (re.compile(r"(?<![\w.~\-/}$])/(?:wor[k]|hom[e]|roo[t]|op[t]|tm[p]|Users)/\w"), "a path of one machine"),
    (re.compile(r"\b(?:pypi\.or[g]|pythonhosted\.or[g]|download\.pytorch\.or[g])\b"), "a registry host"),
    (re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b"), "unfinished work"),
    (re.compile(r"\b(?:DESIG[N](?:\.md)?\b|per the brie[f])"), "a document that is not part of the project"),
    (re.compile(r"(?i)\b(?:(?<!user-)(?:sub-?)?agen[t]s?|claud[e]|chatgp[t]|copilo[t]|workplac[e])\b"), "a tool"),
)


def check(root: Path) -> list[str]:
    """Return every violation below ``root`` as ``path:line holds what: the words``."""
    found: list[str] = []
    for path in text_files(root):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for pattern, what in FORBIDDEN:
                if match := pattern.search(line):
                    found.append(f"{path.relative_to(root)}:{number} holds {what}: {match.group()}")
    return found


def main() -> int:
    """Print every violation and return the exit status."""
    found = check(ROOT)
    for message in found:
        print(message, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
