"""What a trust policy says, as frozen types; ``policy`` reads them from a file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from pytest_frt.certs.gates import Floor
from pytest_frt.certs.keys import PublicKey

ANY: Final = "*"
DEFAULT_INDEX_DAYS: Final = 180
"""Longest life of a publisher's index when the policy names none: a machine that is offline for half a year."""


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A key of the policy.

    ``active``: counts while the clock is within the window. ``retired``: what was issued up to ``until`` stands for
    ever, what is issued later is refused. ``revoked``: all it signed is dead, since its times cannot be believed.
    """

    owner: str
    public: PublicKey
    valid_from: datetime
    valid_until: datetime
    status: str

    def alive(self, now: datetime) -> bool:
        """Report whether a signature of this key may count at ``now``."""
        if self.status == "revoked" or now < self.valid_from:
            return False
        return self.status == "retired" or now <= self.valid_until

    def covers(self, issued: datetime) -> bool:
        """Report whether the key was valid when the certificate says it was issued."""
        return self.valid_from <= issued <= self.valid_until


@dataclass(frozen=True, slots=True)
class KeylessIdentity:
    """A workflow whose keyless signatures count, and the trusted root they are checked against.

    Attributes:
        owner: Who answers for it; thresholds count owners.
        issuer, source_repository, build_signer_uri: What its certificates must say, each exactly.
        root: Path of the trusted root, from beside the policy.
        root_sha256: Digest that file must have.
    """

    owner: str
    issuer: str
    source_repository: str
    build_signer_uri: str
    root: str
    root_sha256: str


@dataclass(frozen=True, slots=True)
class KeylessSigner:
    """A workflow that signed. Its certificate lived minutes, at a time that a log vouches for: no window here."""

    owner: str

    def covers(self, issued: datetime) -> bool:  # noqa: ARG002 (asked of every signer)
        """Report that the signature counts whenever the certificate says it was issued."""
        return True


Signer: TypeAlias = TrustedKey | KeylessSigner


@dataclass(frozen=True, slots=True)
class Rule:
    """What a set of signers may certify together for one issuer. Patterns are exact, ``*``, or end in ``/*``.

    Attributes:
        issuer, signers, threshold: Who: ``threshold`` distinct owners of ``signers`` for the name ``issuer``.
        structures, kernels, hosts, devices, schemes: What: each must match.
        floors: How good it must be, on top of the policy's floors.
        min_serial: Lowest serial that is taken; it needs no memory, so it also holds on a machine that has none.
    """

    issuer: str
    signers: frozenset[str]
    threshold: int
    structures: tuple[str, ...]
    kernels: tuple[str, ...]
    hosts: tuple[str, ...]
    devices: tuple[str, ...]
    schemes: tuple[str, ...]
    floors: tuple[Floor, ...]
    min_serial: int = 0

    def met_by(self, owners: frozenset[str]) -> bool:
        """Report whether enough distinct owners of this rule are among ``owners``."""
        return len(self.signers & owners) >= self.threshold


@dataclass(frozen=True, slots=True)
class Deny:
    """One denied thing: ``kind`` is ``payload``, ``tree``, ``key`` or ``commit`` (repo@revision)."""

    kind: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Pin:
    """A certificate that is taken although a later one was seen: an older kernel that is kept on purpose.

    Attributes:
        payload: Its name, the sha256 of its payload.
        reason: Why.
    """

    payload: str
    reason: str


@dataclass(frozen=True, slots=True)
class Require:
    """What a certificate must state: software distributions, facts of ``device``, facts or libraries of ``host``."""

    software: tuple[str, ...] = ("torch",)
    device: tuple[str, ...] = ("arch", "name")
    host: tuple[str, ...] = ("configDigest", "moduleSourceDigest")


@dataclass(frozen=True, slots=True)
class IndexNeed:
    """Whose certificates must be listed in a fresh index of their issuer.

    Attributes:
        required: For issuers that ``issuers`` does not name.
        issuers: Issuer name to whether its index is required.
        max_life: Longest life an index may have.
    """

    required: bool = False
    issuers: tuple[tuple[str, bool], ...] = ()
    max_life: timedelta = timedelta(days=DEFAULT_INDEX_DAYS)

    def of(self, issuer: str) -> bool:
        """Report whether certificates of ``issuer`` must be listed."""
        return dict(self.issuers).get(issuer, self.required)


@dataclass(frozen=True, slots=True)
class Policy:
    """A loaded policy; ``frt trust init`` writes one that explains each member.

    Attributes:
        source: File it was read from, for messages.
        version: Raised with every change; a memory refuses a lower one than it has seen.
        expires, min_time: Moments after and before which nothing is accepted.
        skew, max_life: Forgiven at issue; longest life of a certificate.
        composition: ``plan`` or ``cell``: what a runtime may act on.
        allow_warn, allow_synthetic: Take warn bands; take hosts on random weights.
        require, deny, floors, keys, rules: See their types.
        index: Whose certificates must be listed in an index.
        allow_rollback: Older certificates that are kept on purpose.
        keyless: Workflows whose signatures count without a key.
    """

    source: str
    version: int
    expires: datetime
    min_time: datetime
    skew: timedelta
    max_life: timedelta
    composition: str
    allow_warn: bool
    allow_synthetic: bool
    require: Require
    deny: tuple[Deny, ...]
    floors: tuple[Floor, ...]
    keys: tuple[TrustedKey, ...]
    rules: tuple[Rule, ...]
    index: IndexNeed = IndexNeed()
    allow_rollback: tuple[Pin, ...] = ()
    keyless: tuple[KeylessIdentity, ...] = ()

    @property
    def pinned(self) -> frozenset[str]:
        """Payload digests that ``allow_rollback`` names."""
        return frozenset(pin.payload for pin in self.allow_rollback)


def matches(pattern: str, value: str) -> bool:
    """Report whether ``value`` is ``pattern``, or lies below it when it ends in ``/*`` after a whole segment."""
    if pattern == ANY:
        return True
    return value.startswith(pattern[:-1]) if pattern.endswith("/*") else value == pattern
