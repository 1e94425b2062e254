"""Step 12, the index: which index of an issuer stands, and what it says about a certificate. Pure.

An index counts for a certificate when the owners that signed it satisfy a rule that lets the certificate in. The newest
such index decides. What it revokes is refused whether or not the policy requires an index, and also when the index has
expired or was superseded, since a withdrawal does not go stale; what it lists counts only while the index stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pytest_frt.certs.index import Index, key_digest
from pytest_frt.certs.policy_types import Policy, Rule, Signer, TrustedKey
from pytest_frt.certs.reading import time_text
from pytest_frt.certs.state import Memory, equivocation
from pytest_frt.certs.statement import CellCertificate, Certificate
from pytest_frt.errors import CertificateRefused


@dataclass(frozen=True, slots=True)
class Held:
    """An index whose signatures, window and rule hold.

    Attributes:
        source: ``file:line``.
        index: What it says.
        owners: Key owners that signed it.
    """

    source: str
    index: Index
    owners: frozenset[str]


class Indexes:
    """The indexes of a set, judged together.

    Args:
        held: Every index that reached step 12.
        policy: Says whose index is required.
        memory: What was seen before; None when nothing is remembered.
        now: The moment of verification.
    """

    def __init__(self, held: Sequence[Held], policy: Policy, memory: Memory | None, now: datetime) -> None:
        self._held = tuple(held)
        self._policy = policy
        self._memory = memory
        self._now = now

    def check_standing(self, one: Held) -> None:
        """Refuse an index that does not stand.

        Raises:
            CertificateRefused: ``INDEX_ROLLBACK``, ``EQUIVOCATION`` or ``INDEX_EXPIRED``.
        """
        index = one.index
        if self._memory is not None:
            self._memory.check_index(index)
        own = [held.index for held in self._held if held.index.issuer == index.issuer]
        if (highest := max((other.version for other in own), default=0)) > index.version:
            raise CertificateRefused("INDEX_ROLLBACK", f"{index.title}: version {highest} is here too")
        twins = {other.payload_sha256 for other in own if other.version == index.version} - {index.payload_sha256}
        if twins:
            raise equivocation(index.title, index.payload_sha256, min(twins))
        if self._now > index.expires:
            raise CertificateRefused(
                "INDEX_EXPIRED", f"{index.title} expired at {time_text(index.expires)}, it is {time_text(self._now)}"
            )

    def check(self, certificate: Certificate, keys: Sequence[Signer], rules: Sequence[Rule]) -> Index | None:
        """Hold a certificate against the newest index of its issuer, and return that index if it stands.

        Args:
            certificate: Accepted so far.
            keys: Keys and workflows whose signatures count for it.
            rules: Rules that let it in.

        Raises:
            CertificateRefused: ``REVOKED``; where an index is required also ``NOT_IN_INDEX`` and the codes of
                :meth:`check_standing`.
        """
        newest = self._newest(certificate.issuer, rules)
        for held in newest:
            _check_revoked(held.index, certificate, keys, rules)
        required = self._policy.index.of(certificate.issuer)
        if not newest:
            if required:
                raise CertificateRefused("NOT_IN_INDEX", f"there is no index of {certificate.issuer}; one is required")
            return None
        try:
            self.check_standing(newest[0])
        except CertificateRefused:
            if required:
                raise
            return None
        index = newest[0].index
        if required and certificate.payload_sha256 not in index.current:
            raise CertificateRefused("NOT_IN_INDEX", f"the {index.title} does not list {certificate.payload_sha256}")
        return index

    def _newest(self, issuer: str, rules: Sequence[Rule]) -> list[Held]:
        """Return the indexes of the highest version that count under ``rules``: more than one only when they differ."""
        own = [held for held in self._held if held.index.issuer == issuer]
        counting = [held for held in own if any(rule.met_by(held.owners) for rule in rules)]
        highest = max((held.index.version for held in counting), default=0)
        return [held for held in counting if held.index.version == highest]


def _check_revoked(index: Index, certificate: Certificate, keys: Sequence[Signer], rules: Sequence[Rule]) -> None:
    things = [("payload", certificate.payload_sha256)]
    if isinstance(certificate, CellCertificate):
        things.append(("tree", certificate.record.kernel.tree_digest))
    else:
        things += [("payload", member) for member in certificate.plan.members]
    for kind, digest in things:
        if (reason := index.reason(kind, digest)) is not None:
            raise CertificateRefused("REVOKED", f"{kind} {digest} is revoked by the {index.title}: {reason}")
    held = [key for key in keys if isinstance(key, TrustedKey)]
    dead = {key.public: reason for key in held if (reason := index.reason("key", key_digest(key.public))) is not None}
    owners = frozenset(key.owner for key in keys if not isinstance(key, TrustedKey) or key.public not in dead)
    if dead and not any(rule.met_by(owners) for rule in rules):
        named = ", ".join(sorted(f"{public.keyid} ({reason})" for public, reason in dead.items()))
        raise CertificateRefused("REVOKED", f"too few owners are left without what the {index.title} revokes: {named}")
