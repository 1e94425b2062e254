"""Statements of what was proven, signed when a key was given: in the controller, after the last worker was reaped."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_frt.certs import dsse, keys, statement, store
from pytest_frt.errors import CertificateRefused
from pytest_frt.spec.digest import bytes_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_frt.contracts.record import PlanRecord, Record
    from pytest_frt.run.config import RunConfig


@dataclass(frozen=True, slots=True)
class Sealed:
    """What was written.

    Attributes:
        files: Certificates, or statements when no key was given, by record key id or plan name.
        keyid: Key id that signed; empty when unsigned.
        withheld: Record key id or plan name to why no statement of it could be made.
    """

    files: dict[str, Path]
    keyid: str
    withheld: dict[str, str]


def _members(plan: PlanRecord, names: Mapping[str, str]) -> PlanRecord | None:
    """Put payload digests in the place of record key ids, sorted as a plan states them; None when one is missing."""
    if any(key not in names for key in plan.keys):
        return None
    pairs = sorted((names[key], key) for key in plan.keys)
    return replace(plan, members=tuple(name for name, _ in pairs), keys=tuple(key for _, key in pairs))


def seal(
    proven: Mapping[str, Record],
    plans: Mapping[str, PlanRecord],
    config: RunConfig,
    kept: Mapping[str, str] | None = None,
) -> Sealed:
    """Write one statement per proven record and plan, and sign them when ``config.sign_key`` names a key.

    Args:
        proven: Record key id to record; every gate of each must have been judged and passed in this run.
        plans: Union name to plan.
        config: The run's settings.
        kept: Record key id to the payload sha256 of what an earlier run states: members of plans, not stated again.

    Returns:
        What was written. Withheld is a record that does not survive the verifier's own parser, and a plan one of whose
        members has no statement.

    Raises:
        CertificateRefused: the key cannot be used.
        UsageFault: the key file is missing.
        StorageFault: a file cannot be written; those written before stay.
    """
    payloads, withheld = _payloads(proven, plans, config.issuer, kept or {})
    key = keys.load_private(Path(config.sign_key)) if config.sign_key and payloads else None
    files: dict[str, Path] = {}
    for name, payload in payloads.items():
        if key is None:
            files[name] = store.write_statement(config.out, payload)
        else:
            files[name] = store.write_certificate(config.out, dsse.sign(payload, key))
    return Sealed(files, key.public.keyid if key else "", withheld)


def _payloads(
    proven: Mapping[str, Record], plans: Mapping[str, PlanRecord], issuer: str, kept: Mapping[str, str]
) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return statements by name, and by name why one could not be made: it spoils no other."""
    issued = datetime.now(UTC).replace(microsecond=0)
    expires, serial = issued + statement.DEFAULT_LIFE, int(issued.timestamp())
    payloads: dict[str, bytes] = {}
    withheld: dict[str, str] = {}
    for name, record in proven.items():
        try:
            payloads[name] = statement.build_cell(
                record, issuer=issuer, serial=serial, issued_at=issued, expires_at=expires
            )
        except CertificateRefused as refusal:
            withheld[name] = refusal.diagnostics()
    digests = {**kept, **{name: bytes_digest(payload) for name, payload in payloads.items()}}
    for name, plan in plans.items():
        stated = _members(plan, digests)
        if stated is None:
            missing = ", ".join(key for key in plan.keys if key not in digests)
            withheld[name] = f"members without a statement: {missing}"
            continue
        try:
            payloads[name] = statement.build_plan(
                stated, issuer=issuer, serial=serial, issued_at=issued, expires_at=expires
            )
        except CertificateRefused as refusal:
            withheld[name] = refusal.diagnostics()
    return payloads, withheld
