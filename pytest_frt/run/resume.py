"""Going on from an earlier run: records whose certificate still holds here are kept, everything else is judged again.

Certificates are found by what they state, never by the names of their files. One is kept when its own gates hold, it
has not expired, nothing that it binds differs here (``present``), the timed pairs it binds lie beside it, and, in a
run that signs, the same key signed it: an unsigned statement is anybody's word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_frt.certs import dsse, keys, statement, store
from pytest_frt.certs.statement import CellCertificate, Certificate, PlanCertificate
from pytest_frt.errors import CertificateRefused, EvidenceError, FrtError
from pytest_frt.run import evidence
from pytest_frt.run.emulation import LABEL
from pytest_frt.run.present import Present

if TYPE_CHECKING:
    from pytest_frt.certs.keys import PublicKey
    from pytest_frt.registry import Registry
    from pytest_frt.run.config import RunConfig
    from pytest_frt.run.evidence import Pairs
    from pytest_frt.run.plan import RecordPlan, RunPlan, UnionPlan


@dataclass(frozen=True, slots=True)
class Found:
    """A certificate or statement on disk that holds by itself.

    Attributes:
        source: Its file.
        certificate: What it states.
        signers: Public keys that may have signed it and did.
    """

    source: Path
    certificate: Certificate
    signers: frozenset[PublicKey]


@dataclass(frozen=True, slots=True)
class Kept:
    """A record that is not judged again.

    Attributes:
        plan: The record.
        source: Its certificate or statement.
        certificate: What that states.
        pairs: Its timed pairs, for a union that is judged anew.
    """

    plan: RecordPlan
    source: Path
    certificate: CellCertificate
    pairs: Pairs


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A union that is not judged again: its name, and the plan certificate that states it."""

    name: str
    source: Path


@dataclass(frozen=True, slots=True)
class Resumed:
    """What an earlier run left to this one.

    Attributes:
        kept: Records.
        plans: Unions.
        again: Record key id to why it is judged again.
    """

    kept: tuple[Kept, ...] = ()
    plans: tuple[KeptPlan, ...] = ()
    again: Mapping[str, str] | None = None


def found_in(out: Path, publics: Collection[PublicKey]) -> Iterator[Found]:
    """Yield every certificate and statement below a directory that holds by its own gates; the others are passed by."""
    if not out.is_dir():
        return
    for path in sorted(out.rglob(f"*{store.STATEMENT_SUFFIX}")):
        try:
            yield Found(path, statement.check(store.read_statement(path)), frozenset())
        except FrtError:
            continue
    for one in store.read(out):
        for line in one.lines if isinstance(one, store.SetFile) else ():
            try:
                envelope = dsse.parse_envelope(line)
                yield Found(one.path, statement.check(envelope.payload), dsse.signers(envelope, publics))
            except CertificateRefused:
                continue


class Resume:
    """Looks for what an earlier run left.

    Args:
        config: The run's settings.
        registry: What is installed.
        now: The present moment (UTC).
        level: Level of each net-win judgement of this run, None for the rule's own.
    """

    def __init__(self, config: RunConfig, registry: Registry, now: datetime, level: float | None) -> None:
        self._config, self._now, self._level, self._out = config, now, level, Path(config.out)
        self._present = Present(config, registry)
        self._public = _public(config.sign_key)
        publics = [self._public] if self._public else []
        newest = sorted(found_in(self._out, publics), key=lambda one: one.certificate.issued_at, reverse=True)
        self._cells: dict[str, list[Found]] = {}
        self._plans: dict[str, list[Found]] = {}
        for one in newest:
            if isinstance(one.certificate, CellCertificate):
                self._cells.setdefault(one.certificate.record.key.id, []).append(one)
            elif isinstance(one.certificate, PlanCertificate):
                self._plans.setdefault(one.certificate.plan.name, []).append(one)

    def record(self, plan: RecordPlan) -> Kept | str:
        """Return the newest certificate of a record that still holds, or what differs about the newest."""
        if plan.emulated:
            return f"{LABEL}: what is stated of {plan.key.cell.device} holds there"
        why = ""
        for one in self._cells.get(plan.id, ()):
            differs = self._differs(one, plan)
            if isinstance(differs, Kept):
                return differs
            why = why or f"{differs} ({one.source.name})"
        return why or f"no certificate of it lies below {self._out}"

    def union(self, union: UnionPlan, kept: Mapping[str, Kept]) -> KeptPlan | None:
        """Return the plan certificate of a union whose records are all kept; None when it must be judged."""
        ids = {record.id for record in union.records}
        if not ids <= kept.keys():
            return None
        names = {name: one.certificate.payload_sha256 for name, one in kept.items()}
        for one in self._plans.get(union.name, ()):
            certificate = one.certificate
            if not isinstance(certificate, PlanCertificate) or self._unfit(one):
                continue
            plan, member = certificate.plan, kept[union.records[0].id].certificate.record
            same = (plan.device, plan.checker, plan.seed) == (member.device, member.checker, member.seed)
            members = [names.get(key) for key in plan.keys] == list(plan.members)
            if same and members and {*plan.keys, *plan.dropped} == ids:
                return KeptPlan(union.name, one.source)
        return None

    def _differs(self, one: Found, plan: RecordPlan) -> Kept | str:
        certificate = one.certificate
        if not isinstance(certificate, CellCertificate):
            return "it states a plan"
        if why := self._unfit(one) or next(self._present.differences(certificate.record, plan), ""):
            return why
        bound = next((one.sha256 for one in certificate.record.evidence if one.name == evidence.BOUND), "")
        pairs = evidence.bound(self._out, plan.id, bound)
        if pairs is None:
            return f"its timed pairs are not below {evidence.folder(self._out, plan.id)}"
        if self._level is not None and (pairs.timing.alpha is None or pairs.timing.alpha > self._level):
            return (
                f"its net win was judged at level {pairs.timing.alpha or 'of the rule'}, this run's is {self._level:g}"
            )
        return Kept(plan, one.source, certificate, pairs)

    def _unfit(self, one: Found) -> str:
        """Return why a certificate is none to go on from, whatever it states; empty when it is one."""
        claims = one.certificate
        if claims.expires_at <= self._now:
            return f"it expired on {claims.expires_at:%Y-%m-%d}"
        if claims.issuer != self._config.issuer:
            return f"its issuer is {claims.issuer}, this run's is {self._config.issuer}"
        if self._config.sign_key is None:
            return ""
        if self._public is None:
            return "whose key signed it cannot be told: the public half is not beside the key"
        return "" if self._public in one.signers else "this run's key did not sign it"


def _public(sign_key: str | None) -> PublicKey | None:
    """Return the public half that lies beside a key: the key itself stays closed until the last worker ended."""
    if sign_key is None:
        return None
    try:
        return keys.parse_public(Path(sign_key).with_suffix(".pub").read_text(encoding="utf-8", errors="replace"))
    except (OSError, FrtError):
        return None


def resume(plan: RunPlan, config: RunConfig, registry: Registry, *, only: Sequence[str] | None = None) -> RunPlan:
    """Return a plan without what an earlier run proved and what still holds here.

    Args:
        plan: Everything that was asked for.
        config: The run's settings.
        registry: What is installed.
        only: Record key ids to keep, chosen by a controller; None to choose here.

    Raises:
        EvidenceError: a record that the controller keeps cannot be kept here.
    """
    look = Resume(config, registry, datetime.now(UTC), plan.level(config.family_alpha))
    answers = {one.id: look.record(one) for one in plan.records if only is None or one.id in only}
    kept = {name: one for name, one in answers.items() if isinstance(one, Kept)}
    again = {name: one for name, one in answers.items() if isinstance(one, str)}
    if only is not None and again:
        name, why = next(iter(again.items()))
        raise EvidenceError(f"{name} is kept by the controller and not by this worker: {why}", hint="run without -n")
    plans = {one.name: found for one in plan.unions if (found := look.union(one, kept))}
    return replace(
        plan,
        records=tuple(one for one in plan.records if one.id not in kept),
        unions=tuple(one for one in plan.unions if one.name not in plans),
        aside=(*plan.aside, *kept),
        resumed=Resumed(tuple(kept.values()), tuple(plans.values()), again),
    )
