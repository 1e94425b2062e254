"""Steps 6 to 8 of verification: deny list, time, and which rule lets these signers certify this. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
from datetime import datetime, timedelta

from pytest_frt.cell import RecordKey
from pytest_frt.certs.index import Index
from pytest_frt.certs.policy_types import Policy, Require, Rule, matches
from pytest_frt.certs.reading import time_text
from pytest_frt.certs.statement import CellCertificate, Certificate, PlanCertificate
from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.contracts.host import HostFacts
from pytest_frt.contracts.record import LOCAL
from pytest_frt.errors import CertificateRefused


def deny(certificate: Certificate, policy: Policy) -> None:
    """Refuse what the policy denies; denied keys were left out when signatures were counted.

    Raises:
        CertificateRefused: ``DENIED``, with the reason the policy gives.
    """
    things = {("payload", certificate.payload_sha256)}
    if isinstance(certificate, CellCertificate):
        kernel = certificate.record.kernel
        things |= {("tree", kernel.tree_digest), ("commit", f"{kernel.repo}@{kernel.revision}")}
        things |= {("commit", f"{kernel.repo}@{LOCAL}")} if kernel.is_local else set()
    else:
        things |= {("payload", member) for member in certificate.plan.members}
    _check_denied(things, policy)


def deny_payload(payload_sha256: str, policy: Policy) -> None:
    """Refuse an index that the policy denies by its name.

    Raises:
        CertificateRefused: ``DENIED``.
    """
    _check_denied({("payload", payload_sha256)}, policy)


def _check_denied(things: Collection[tuple[str, str]], policy: Policy) -> None:
    for entry in policy.deny:
        if (entry.kind, entry.value) in things:
            raise CertificateRefused("DENIED", f"{entry.kind} {entry.value} is denied: {entry.reason}")


def in_time(certificate: Certificate, policy: Policy, now: datetime) -> None:
    """Hold the certificate's window against ``now``; the skew forgives a late clock at issue and never expiry.

    Raises:
        CertificateRefused: ``EXPIRED``, ``NOT_YET`` or ``LIFETIME``, with the moments.
    """
    issued, expires = certificate.issued_at, certificate.expires_at
    if now > expires:
        raise CertificateRefused("EXPIRED", f"expired at {time_text(expires)}, it is {time_text(now)}")
    if issued > now + policy.skew:
        raise CertificateRefused("NOT_YET", f"issued at {time_text(issued)}, it is {time_text(now)}")
    _check_life(issued, expires, policy.max_life)


def index_in_time(index: Index, policy: Policy, now: datetime) -> None:
    """Refuse an index from the future or of too long a life; that it has not expired is asked when it is used.

    Raises:
        CertificateRefused: ``NOT_YET`` or ``LIFETIME``, with the moments.
    """
    if index.issued_at > now + policy.skew:
        raise CertificateRefused("NOT_YET", f"issued at {time_text(index.issued_at)}, it is {time_text(now)}")
    _check_life(index.issued_at, index.expires, policy.index.max_life)


def _check_life(issued: datetime, expires: datetime, longest: timedelta) -> None:
    if not issued < expires <= issued + longest:
        raise CertificateRefused(
            "LIFETIME", f"{time_text(issued)} to {time_text(expires)} is not within {longest.days} days"
        )


def authorise(certificate: Certificate, owners: frozenset[str], policy: Policy) -> tuple[Rule, ...]:
    """Return the rules that these owners satisfy; the floors of all of them apply.

    Raises:
        CertificateRefused: ``NO_RULE`` when none is about this issuer and cell, ``THRESHOLD`` when too few of the
            owners it lists have signed. Owners count, never keys or signatures.
    """
    about = [rule for rule in policy.rules if _about(rule, certificate)]
    if not about:
        raise CertificateRefused(
            "NO_RULE", f"no rule of {policy.source} lets issuer {certificate.issuer} certify {certificate.title}"
        )
    return _met(about, owners)


def authorise_index(index: Index, owners: frozenset[str], policy: Policy) -> tuple[Rule, ...]:
    """Return the rules of the index's issuer that these owners satisfy.

    Raises:
        CertificateRefused: ``NO_RULE``, ``THRESHOLD``.
    """
    about = [rule for rule in policy.rules if rule.issuer == index.issuer]
    if not about:
        raise CertificateRefused("NO_RULE", f"no rule of {policy.source} is about issuer {index.issuer}")
    return _met(about, owners)


def _met(about: Sequence[Rule], owners: frozenset[str]) -> tuple[Rule, ...]:
    met = tuple(rule for rule in about if rule.met_by(owners))
    if not met:
        rule = about[0]
        raise CertificateRefused(
            "THRESHOLD",
            f"{len(rule.signers & owners)} of {rule.threshold} needed owners signed "
            f"({', '.join(sorted(owners))} signed; {', '.join(sorted(rule.signers))} may)",
        )
    return met


def serial_floor(certificate: Certificate, rules: Sequence[Rule]) -> None:
    """Refuse a serial below ``min_serial`` of any rule that lets it in; this part of step 12 needs no memory.

    Raises:
        CertificateRefused: ``SERIAL_MIN``, with both numbers.
    """
    lowest = max(rule.min_serial for rule in rules)
    if certificate.serial < lowest:
        raise CertificateRefused("SERIAL_MIN", f"serial {certificate.serial} is below min_serial = {lowest}")


def stated(certificate: Certificate, policy: Policy) -> None:
    """Refuse a certificate that leaves out what the policy demands, or whose weights are not bound or not trained.

    Raises:
        CertificateRefused: ``SOFTWARE_MISSING``, ``DEVICE_MISSING``, ``HOST_MISSING``, ``WEIGHTS_BINDING``,
            ``SYNTHETIC``.
    """
    about = certificate.record if isinstance(certificate, CellCertificate) else certificate.plan
    for name in policy.require.software:
        if not about.software.get(name):
            raise CertificateRefused("SOFTWARE_MISSING", f"the version of {name} is not stated")
    _device_stated(about.device, policy.require)
    _host_stated(about.host, policy.require)
    if isinstance(certificate, CellCertificate) and certificate.binding != "exact":
        raise CertificateRefused("WEIGHTS_BINDING", f"weights are bound by {certificate.binding}, not by their bytes")
    if about.host.weights != "trained" and not policy.allow_synthetic:
        raise CertificateRefused(
            "SYNTHETIC",
            f"host {about.host.name} has {about.host.weights} weights ({about.host.checkpoint})",
            hint="allow_synthetic = true in the policy takes it",
        )


def _device_stated(device: DeviceFacts, require: Require) -> None:
    known = {field.name for field in fields(DeviceFacts)}
    for name in require.device:
        if name not in known or not getattr(device, name):
            raise CertificateRefused("DEVICE_MISSING", f"device fact {name} is not stated")


def _host_stated(host: HostFacts, require: Require) -> None:
    values = {"class": host.host_class, "configDigest": host.config_digest, "moduleSourceDigest": host.module_source}
    for name in require.host:
        if not values.get(name) and not host.library.get(name):
            raise CertificateRefused("HOST_MISSING", f"host fact {name} is not stated")


def _about(rule: Rule, certificate: Certificate) -> bool:
    if rule.issuer != certificate.issuer:
        return False
    if isinstance(certificate, PlanCertificate):
        return _about_plan(rule, certificate)
    record = certificate.record
    cell = record.key.cell
    return (
        _any(rule.structures, f"{cell.structure}@{record.structure_version}")
        and _any(rule.kernels, record.kernel.repo)
        and _any(rule.hosts, cell.host)
        and _any(rule.devices, cell.device)
        and _any(rule.schemes, cell.scheme)
    )


def _about_plan(rule: Rule, certificate: PlanCertificate) -> bool:
    """Structures, kernels and schemes of a plan are its members', and each member needs a rule of its own."""
    cells = [RecordKey.parse(key).cell for key in certificate.plan.keys]
    return all(_any(rule.hosts, cell.host) and _any(rule.devices, cell.device) for cell in cells)


def _any(patterns: Sequence[str], value: str) -> bool:
    return any(matches(pattern, value) for pattern in patterns)
