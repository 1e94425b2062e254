"""What verification ends in: ``Accepted`` or ``Refused``, and the line it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pytest_frt.certs.gates import Judged
from pytest_frt.certs.index import Index
from pytest_frt.certs.statement import Certificate


@dataclass(frozen=True, slots=True)
class Accepted:
    """A certificate that passed every step.

    Attributes:
        source: ``file:line`` of its first line.
        certificate: The parsed certificate.
        owners: Key owners whose signatures counted, sorted.
        gates: Recomputed gates.
        activates: The policy's composition lets a runtime act on it: a plan or a member of one, or any cell when the
            policy composes by cell.
        index: The index of its issuer that it was held against; None when there is none, or none that stands.
    """

    source: str
    certificate: Certificate
    owners: tuple[str, ...]
    gates: tuple[Judged, ...]
    activates: bool
    index: Index | None = None

    @property
    def name(self) -> str:
        """The certificate's name, its payload sha256."""
        return self.certificate.payload_sha256


@dataclass(frozen=True, slots=True)
class Refused:
    """A certificate, index or line that failed.

    Attributes:
        source: ``file:line``.
        name: Payload sha256, or empty when the line is no envelope.
        code: Stable refusal code.
        message: What differs.
        title: Record key, plan name or index; empty as long as nothing is verified.
    """

    source: str
    name: str
    code: str
    message: str
    title: str = ""


Outcome: TypeAlias = Accepted | Refused


@dataclass(frozen=True, slots=True)
class Verdict:
    """What verifying a whole set ended in.

    Attributes:
        outcomes: An outcome per certificate, and per index or line that failed.
        standing: The indexes that stand, whether or not a certificate was accepted under them.
        in_force: False when the policy itself was refused: it has expired, or a newer one was used before.
    """

    outcomes: tuple[Outcome, ...]
    standing: tuple[Index, ...] = ()
    in_force: bool = True


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a certificate set and where it stands."""

    source: str
    data: bytes
