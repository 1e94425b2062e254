"""The trust policy (``frt-trust.toml``): who may certify what, and how good it must be. Deny by default.

The file is the only source of trust: keys are typed here and never by an envelope, and what no rule allows is refused.
It must belong to root or the reader, be writable by nobody else, and be no symbolic link. Unknown members are errors,
since a typo must not loosen anything; floats are errors, since ``nan`` compares false with everything.

Refusal codes: ``POLICY_FILE``, ``POLICY_SYNTAX``, ``POLICY_SCHEMA``, ``POLICY_DUPKEY``, ``KEY_WEAK``, ``KEY_FORMAT``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final, TypeVar

from pytest_frt.certs import keyless
from pytest_frt.certs.decode_bulk import OPS
from pytest_frt.certs.files import read_owned
from pytest_frt.certs.gates import Floor
from pytest_frt.certs.keys import PublicKey, parse_public
from pytest_frt.certs.policy_types import (
    ANY,
    DEFAULT_INDEX_DAYS,
    Deny,
    IndexNeed,
    KeylessIdentity,
    Pin,
    Policy,
    Require,
    Rule,
    TrustedKey,
    matches,
)
from pytest_frt.certs.reading import Node
from pytest_frt.certs.shape import revision
from pytest_frt.certs.strict_toml import parse_toml
from pytest_frt.errors import CertificateRefused, UsageFault

__all__ = [
    "ANY", "DEFAULT_INDEX_DAYS", "DEFAULT_LIFE_DAYS", "DEFAULT_SKEW_S", "SCHEMA", "Deny", "IndexNeed", "Pin", "Policy",
    "Require", "Rule", "TrustedKey", "load", "matches", "parse",
]  # fmt: skip
T = TypeVar("T")

SCHEMA: Final = "frt-trust/1"
STATUSES: Final = ("active", "retired", "revoked")
COMPOSITIONS: Final = ("cell", "plan")
DEFAULT_SKEW_S: Final = 300
DEFAULT_LIFE_DAYS: Final = 400
FILE_CAP: Final = 1024 * 1024
_MAX_SKEW_S: Final = 3_600
_MAX_LIFE_DAYS: Final = 3_650
_TOP: Final = (
    "schema", "version", "expires", "min_time", "skew_s", "max_life_days", "weights", "revision", "composition",
    "allow_warn", "allow_synthetic", "allow_rollback", "index", "require", "deny", "floors", "key", "rule",
    "sigstore",
)  # fmt: skip


def load(path: str | Path) -> Policy:
    """Return the policy of a file.

    Raises:
        CertificateRefused: with the codes of the module docstring.
        UsageFault: the file is missing.
    """
    try:
        Path(path).lstat()
    except FileNotFoundError:
        raise UsageFault(
            f"{path} is missing: without a trust policy nothing is accepted",
            hint=f"name yours, or write a first one: frt trust init --key PUB --out {path}",
        ) from None
    except OSError:  # which the reading tells
        pass
    data = read_owned(Path(path), code="POLICY_FILE", cap=FILE_CAP)
    return parse(data, str(path))


def parse(data: bytes, source: str = "policy") -> Policy:
    """Return the policy of TOML bytes.

    Raises:
        CertificateRefused: with the codes of the module docstring.
    """
    document = parse_toml(data, source)
    root = Node(document, source, code="POLICY_SCHEMA").only(_TOP)
    root.get("schema").word((SCHEMA,))
    # The two words below name what this release can check; the member is there so that a file says it.
    _optional(root, "weights", lambda node: node.word(("exact",)), "exact")
    _optional(root, "revision", lambda node: node.word(("bytes",)), "bytes")
    workflows = _listed(root, "sigstore", keyless.read_identity)
    keyless.check_identities(workflows)
    keys = _listed(root, "key", _key)
    _check_keys(keys, workflows)
    rules = _rules(root.get("rule"), frozenset({*(key.owner for key in keys), *(one.owner for one in workflows)}))
    issuers = frozenset(rule.issuer for rule in rules)
    return Policy(
        source=source,
        version=root.get("version").integer(1),
        expires=root.get("expires").moment(),
        min_time=root.get("min_time").moment(),
        skew=timedelta(seconds=_optional(root, "skew_s", lambda n: n.integer(0, _MAX_SKEW_S), DEFAULT_SKEW_S)),
        max_life=timedelta(
            days=_optional(root, "max_life_days", lambda n: n.integer(1, _MAX_LIFE_DAYS), DEFAULT_LIFE_DAYS)
        ),
        composition=root.get("composition").word(COMPOSITIONS),
        allow_warn=_optional(root, "allow_warn", Node.flag, default=False),
        allow_synthetic=_optional(root, "allow_synthetic", Node.flag, default=False),
        require=_optional(root, "require", _require, Require()),
        deny=_optional(root, "deny", lambda node: tuple(_deny(item) for item in node.items()), ()),
        floors=_optional(root, "floors", lambda node: _floors(node, "the policy"), ()),
        keys=keys,
        rules=rules,
        index=_optional(root, "index", lambda node: _index(node, issuers), IndexNeed()),
        allow_rollback=_optional(root, "allow_rollback", lambda node: tuple(_pin(item) for item in node.items()), ()),
        keyless=workflows,
    )


def _optional(node: Node, name: str, read: Callable[[Node], T], default: T) -> T:
    found = node.find(name)
    return default if found is None else read(found)


def _listed(root: Node, name: str, read: Callable[[Node], T]) -> tuple[T, ...]:
    found = root.find(name)
    return () if found is None else tuple(read(item) for item in found.items())


def _key(node: Node) -> TrustedKey:
    node.only(("owner", "public", "from", "until", "status"))
    key = TrustedKey(
        owner=node.get("owner").identifier(),
        public=parse_public(node.get("public").text()),
        valid_from=node.get("from").moment(),
        valid_until=node.get("until").moment(),
        status=node.get("status").word(STATUSES),
    )
    if key.valid_from >= key.valid_until:
        raise node.wrong("a key whose window (from, until) has a length")
    return key


def _check_keys(keys: tuple[TrustedKey, ...], workflows: tuple[KeylessIdentity, ...]) -> None:
    if not keys and not workflows:
        raise CertificateRefused("POLICY_SCHEMA", "the policy names no key", hint="frt trust init --key PUB")
    seen: dict[PublicKey, str] = {}
    for key in keys:
        # One key under two owners would count twice against a threshold.
        if key.public in seen:
            raise CertificateRefused(
                "POLICY_DUPKEY", f"key {key.public.keyid} is listed twice: {seen[key.public]} and {key.owner}"
            )
        seen[key.public] = key.owner


def _rules(node: Node, owners: frozenset[str]) -> tuple[Rule, ...]:
    rules = tuple(_rule(item, index) for index, item in enumerate(node.items(), start=1))
    if not rules:
        raise node.wrong("a non-empty array of rules")
    for rule in rules:
        if strangers := sorted(rule.signers - owners):
            raise CertificateRefused("POLICY_SCHEMA", f"rule for {rule.issuer} names {strangers[0]}, who owns no key")
        if not 1 <= rule.threshold <= len(rule.signers):
            raise CertificateRefused(
                "POLICY_SCHEMA", f"rule for {rule.issuer} needs {rule.threshold} of {len(rule.signers)} signers"
            )
    return rules


def _rule(node: Node, number: int) -> Rule:
    patterns = ("structures", "kernels", "hosts", "devices", "schemes")
    node.only(("issuer", "signers", "threshold", "floors", "min_serial", *patterns))
    return Rule(
        issuer=node.get("issuer").identifier(),
        signers=frozenset(item.identifier() for item in node.get("signers").items()),
        threshold=_optional(node, "threshold", lambda n: n.integer(1), 1),
        structures=_patterns(node.get("structures")),
        kernels=_patterns(node.get("kernels")),
        hosts=_patterns(node.get("hosts")),
        devices=_patterns(node.get("devices")),
        schemes=_patterns(node.get("schemes")),
        floors=_optional(node, "floors", lambda n: _floors(n, f"rule {number}"), ()),
        min_serial=_optional(node, "min_serial", Node.integer, 0),
    )


def _patterns(node: Node) -> tuple[str, ...]:
    return tuple(_pattern(item) for item in node.items())


def _pattern(node: Node) -> str:
    text = node.text()
    if text != ANY:
        Node(text.removesuffix("/*"), node.where, code="POLICY_SCHEMA").identifier()
    return text


def _floors(node: Node, by: str) -> tuple[Floor, ...]:
    return tuple(_floor(name, item, by) for name, item in node.pairs())


def _floor(name: str, node: Node, by: str) -> Floor:
    node.only(("op", "value", "min_n"))
    value = Decimal(node.get("value").decimal())
    return Floor(name, node.get("op").word(OPS), value, _optional(node, "min_n", Node.integer, 1), by)


def _require(node: Node) -> Require:
    node.only(("software", "device", "host"))
    default = Require()
    return Require(
        software=_optional(node, "software", Node.texts, default.software),
        device=_optional(node, "device", Node.texts, default.device),
        host=_optional(node, "host", Node.texts, default.host),
    )


def _index(node: Node, issuers: frozenset[str]) -> IndexNeed:
    node.only(("required", "issuers", "max_life_days"))
    named = node.find("issuers")
    own = tuple((name, item.flag()) for name, item in named.pairs()) if named else ()
    if strangers := sorted({name for name, _ in own} - issuers):
        raise CertificateRefused("POLICY_SCHEMA", f"{node.where}.issuers names {strangers[0]}, who has no rule")
    days = _optional(node, "max_life_days", lambda n: n.integer(1, _MAX_LIFE_DAYS), DEFAULT_INDEX_DAYS)
    return IndexNeed(node.get("required").flag(), own, timedelta(days=days))


def _pin(node: Node) -> Pin:
    node.only(("payload", "reason"))
    return Pin(node.get("payload").sha256(), node.get("reason").text())


def _deny(node: Node) -> Deny:
    node.only(("payload", "tree", "key", "repo", "revision", "reason"))
    reason = node.get("reason").text()
    kinds = [kind for kind in ("payload", "tree", "key", "repo") if node.find(kind)]
    if len(kinds) != 1 or (node.find("revision") is not None) != (kinds == ["repo"]):
        raise node.wrong("one of payload, tree, key, or repo with revision")
    match kinds[0]:
        case "repo":
            commit = f"{node.get('repo').identifier()}@{node.get('revision').read(revision)}"
            return Deny("commit", commit, reason)
        case "key":
            return Deny("key", parse_public(node.get("key").text()).text, reason)
        case kind:
            return Deny(kind, node.get(kind).sha256(), reason)
