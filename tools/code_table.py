"""Write the table of refusal codes into docs/spec/verification.md, from the register in ``pytest_frt.certs.codes``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from repo_tree import ROOT

from pytest_frt.certs.codes import CODES, STEPS

PAGE: Final = ROOT / "docs" / "spec" / "verification.md"
BEGIN: Final = "<!-- generated: python tools/code_table.py -->"


def lines() -> Iterator[str]:
    """Yield the lines of the table: one per code, in the order of the steps."""
    yield "| code | step | what differs | what to do |"
    yield "|---|---|---|---|"
    for step, about in STEPS.items():
        for code in sorted(code.name for code in CODES.values() if code.step == step):
            entry = CODES[code]
            yield f"| `{code}` | {step or '-'} {about} | {entry.meaning} | {entry.action} |"


def page() -> str:
    """Return the page as it should be: what people wrote, then the table."""
    head = PAGE.read_text(encoding="utf-8").partition(BEGIN)[0]
    return "\n".join([f"{head}{BEGIN}", "", *lines(), ""])


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
