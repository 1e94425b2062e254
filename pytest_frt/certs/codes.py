"""The one register of refusal codes: at which step of verification, what it means, and what a person does next.

Every code that a certificate, key, policy or file can be refused with has one entry here. Add yours to the table it
belongs to; a test finds codes in the sources that are missing here, and ``docs/spec/verification.md`` shows them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pytest_frt.certs.codes_form import FORM_CODES
from pytest_frt.certs.codes_live import LIVE_CODES
from pytest_frt.certs.codes_trust import TRUST_CODES

STEPS: Final[Mapping[int, str]] = {
    0: "signing",
    1: "the policy",
    2: "the envelope",
    3: "signatures",
    5: "the statement",
    6: "the deny list",
    7: "time",
    8: "authority",
    9: "gates",
    10: "live facts",
    11: "files",
    12: "plan, index, memory",
    13: "private copies",
    14: "loading",
    15: "the state file",
    16: "the choice between certificates",
}
"""Step 4 parses the payload and refuses with the ``JSON_*`` codes of step 2."""


@dataclass(frozen=True, slots=True)
class Code:
    """What a refusal code says.

    Attributes:
        name: The stable code.
        step: Number in ``STEPS`` where it is first given.
        meaning: What differs, in one clause.
        action: What a person does next.
    """

    name: str
    step: int
    meaning: str
    action: str


CODES: Final[Mapping[str, Code]] = {
    name: Code(name, *entry) for table in (FORM_CODES, TRUST_CODES, LIVE_CODES) for name, entry in table.items()
}


def next_step(code: str) -> str:
    """Return what a person does after a refusal; empty for what is no refusal code (the code of a general fault)."""
    found = CODES.get(code)
    return found.action if found else ""
