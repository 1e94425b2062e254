"""``frt trust init | add-key | revoke | show``: a first policy, and its changes. No torch, no network."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_frt.certs import policy, policy_edit, shape, statement
from pytest_frt.certs.files import write_new
from pytest_frt.certs.policy_types import Policy, Rule, TrustedKey
from pytest_frt.certs.reading import parse_time, time_text
from pytest_frt.certs.shape import Misfit
from pytest_frt.certs.starter import KEY_AFTER, KEY_BEFORE, starter_policy
from pytest_frt.cli import words
from pytest_frt.cli.certs import DEFAULT_TRUST, public_key
from pytest_frt.errors import UsageFault

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)

DEFAULT_PUBLIC: Final = "frt-key.pub"
SOON: Final = timedelta(days=30)
"""How long before an end ``frt trust show`` begins to say so: a month to sign, review and roll out what replaces it."""


def add_commands(subparsers: Subparsers) -> None:
    """Register ``frt trust`` and its actions."""
    trust = subparsers.add_parser("trust", help="write, change and show a trust policy")
    actions = trust.add_subparsers(required=True, metavar="ACTION")

    first = actions.add_parser("init", help="write a first policy")
    first.add_argument("--key", metavar="PUB", default=DEFAULT_PUBLIC, help="public key file or text (%(default)s)")
    first.add_argument("--owner", default=statement.DEFAULT_ISSUER, help="owner and issuer name (%(default)s)")
    first.add_argument("-o", "--out", metavar="FILE", type=Path, default=Path(DEFAULT_TRUST), help="(%(default)s)")
    first.set_defaults(func=init)

    more = actions.add_parser("add-key", help="trust one more key")
    more.add_argument("key", metavar="PUB", help="public key file or text")
    more.add_argument("--owner", required=True, help="whose key it is; thresholds count owners")
    more.add_argument("--rule", metavar="ISSUER", help="let the owner sign for the rules of this issuer")
    more.add_argument("--from", dest="start", metavar="TIME", help="first valid issue time (default: a year ago)")
    more.add_argument("--until", metavar="TIME", help="last valid issue time (default: in two years)")
    _add_trust(more)
    more.set_defaults(func=add_key)

    less = actions.add_parser("revoke", help="mark a key revoked, or deny a certificate, kernel tree or commit")
    what = less.add_mutually_exclusive_group(required=True)
    what.add_argument("--key", metavar="KEY", help="public key file or text, or the key id of a trusted key")
    words.add_digests(what)
    what.add_argument("--commit", metavar="REPO@REVISION", help="a kernel by its whole commit, or local")
    less.add_argument("--reason", required=True, help="why; it is shown with every refusal")
    _add_trust(less)
    less.set_defaults(func=revoke)

    view = actions.add_parser("show", help="show who may certify what, and what ends soon")
    _add_trust(view)
    view.set_defaults(func=show)


def init(args: argparse.Namespace) -> int:
    """Write a policy that trusts one key with everything, at the suggested floors; never overwrites.

    Raises:
        UsageFault: the file exists, or the key file is missing.
        CertificateRefused: the key text is malformed or weak.
    """
    public = public_key(args.key)
    toml = starter_policy(public, args.owner, datetime.now(UTC))
    policy.parse(toml.encode(), str(args.out))
    write_new(args.out, toml.encode(), mode=0o644)
    print(f"{args.out} trusts {public.keyid} of {args.owner}; floors and limits are written out in it")
    return 0


def add_key(args: argparse.Namespace) -> int:
    """Add a key, and its owner to the signers of an issuer's rules.

    Raises:
        UsageFault: no rule has that issuer, or the file cannot be edited here.
        CertificateRefused: the key is weak, malformed or listed already; the file is as it was.
    """
    now, public = datetime.now(UTC), public_key(args.key)
    start = parse_time(args.start, "--from") if args.start is not None else now - KEY_BEFORE
    until = parse_time(args.until, "--until") if args.until is not None else now + KEY_AFTER
    edits = [policy_edit.add_key(policy_edit.NewKey(args.owner, public.text, time_text(start), time_text(until)))]
    with policy_edit.held(args.trust) as trusted:
        if args.rule is not None:
            edits += _signs(args, trusted)
        version = policy_edit.change(args.trust, *edits)
    signs = [rule.issuer for rule in policy.load(args.trust).rules if args.owner in rule.signers]
    use = f"signs for {', '.join(sorted(set(signs)))}" if signs else "is in no rule yet: --rule ISSUER"
    print(f"{args.trust} is now version {version}: {public.keyid} of {args.owner}, who {use}")
    return 0


def revoke(args: argparse.Namespace) -> int:
    """Withdraw trust from a key, a certificate, a kernel tree or a commit.

    Raises:
        UsageFault: the key is no trusted one and no key text, or it is revoked or denied already.
        CertificateRefused: a digest or name is malformed; the file is as it was.
    """
    with policy_edit.held(args.trust) as trusted:
        if args.key is not None:
            edit, what = _revoke_key(args.key, trusted, args.reason)
        else:
            edit, what = _deny(args, trusted)
        version = policy_edit.change(args.trust, edit)
    print(f"{args.trust} is now version {version}: {what}")
    return 0


def show(args: argparse.Namespace) -> int:
    """Print keys, rules, floors, what is denied, and every end that has passed or is near."""
    trusted, now = policy.load(args.trust), datetime.now(UTC)
    ends = _end(trusted.expires, now)
    print(f"{args.trust}  version {trusted.version}  until {time_text(trusted.expires)}{ends}")
    print(
        f"activates {trusted.composition}s; warn bands {_allowed(taken=trusted.allow_warn)}; "
        f"random weights {_allowed(taken=trusted.allow_synthetic)}; "
        f"certificates live {trusted.max_life.days} days at most"
    )
    for what in ("software", "device", "host"):
        print(f"{what:8} must state {', '.join(getattr(trusted.require, what)) or 'nothing'}")
    print("\nkeys")
    _print_rows([_key_row(key, now) for key in trusted.keys])
    if trusted.keyless:
        print("\nworkflows that sign without a key")
        _print_rows([(one.owner, one.issuer, one.build_signer_uri) for one in trusted.keyless])
    print("\nrules")
    for rule in trusted.rules:
        print("\n".join(_rule_lines(rule, trusted)))
    if trusted.floors:
        print("\nfloors of every rule")
        _print_rows([(floor.gate, floor.op, f"{floor.value:f}") for floor in trusted.floors])
    rows = [("deny", one.kind, one.value, one.reason) for one in trusted.deny]
    rows += [("keep", "payload", one.payload, one.reason) for one in trusted.allow_rollback]
    if rows:
        print("\ndenied, and kept although older")
        _print_rows(rows)
    return 0


def _add_trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trust", metavar="FILE", type=Path, default=Path(DEFAULT_TRUST), help="(%(default)s)")


def _signs(args: argparse.Namespace, trusted: Policy) -> list[policy_edit.Edit]:
    own = [(number, rule) for number, rule in enumerate(trusted.rules) if rule.issuer == args.rule]
    if not own:
        issuers = ", ".join(sorted({rule.issuer for rule in trusted.rules}))
        raise UsageFault(f"no rule of {args.trust} has the issuer {args.rule}", hint=f"issuers are {issuers}")
    return [policy_edit.add_signer(number, args.owner) for number, rule in own if args.owner not in rule.signers]


def _revoke_key(given: str, trusted: Policy, reason: str) -> tuple[policy_edit.Edit, str]:
    by_id = [key.public for key in trusted.keys if key.public.keyid == given]
    public = by_id[0] if by_id else public_key(given)
    for number, key in enumerate(trusted.keys):
        if key.public == public:
            if key.status == "revoked":
                raise UsageFault(f"key {public.keyid} of {key.owner} is revoked already")
            return policy_edit.revoke_key(number, reason), f"all that {public.keyid} of {key.owner} signed is refused"
    return _denied({"key": public.text}, ("key", public.text), trusted, reason)


def _deny(args: argparse.Namespace, trusted: Policy) -> tuple[policy_edit.Edit, str]:
    if args.commit is not None:
        repo, _, revision = args.commit.rpartition("@")
        if not repo:
            raise UsageFault(f"--commit {args.commit} is no commit", hint="write REPO@REVISION")
        try:
            shape.revision(revision)
        except Misfit as fault:
            raise UsageFault(
                f"--commit {args.commit}: {revision!r} {fault.said}",
                hint="certificates name whole commits, so nothing shorter ever matches: write all of it",
            ) from None
        return _denied({"repo": repo, "revision": revision}, ("commit", args.commit), trusted, args.reason)
    kind, value = words.digest_of(args)
    return _denied({kind: value}, (kind, value), trusted, args.reason)


def _denied(
    members: dict[str, str], thing: tuple[str, str], trusted: Policy, reason: str
) -> tuple[policy_edit.Edit, str]:
    if thing in {(one.kind, one.value) for one in trusted.deny}:
        raise UsageFault(f"{thing[0]} {thing[1]} is denied already")
    return policy_edit.add_deny(members | {"reason": reason}), f"{thing[0]} {thing[1]} is denied"


def _allowed(*, taken: bool) -> str:
    return "taken" if taken else "refused"


def _end(moment: datetime, now: datetime) -> str:
    if now > moment:
        return "  EXPIRED"
    return f"  ends in {(moment - now).days} days" if moment - now < SOON else ""


def _key_row(key: TrustedKey, now: datetime) -> tuple[str, ...]:
    note = _end(key.valid_until, now).strip() if key.status == "active" else ""
    if key.status == "retired" and now < key.valid_until:
        note = "still signs: set until to when it was retired"
    if now < key.valid_from:
        note = "not valid yet"
    window = f"{time_text(key.valid_from)} to {time_text(key.valid_until)}"
    return (key.owner, key.public.keyid, key.status, window, note)


def _rule_lines(rule: Rule, trusted: Policy) -> Iterator[str]:
    index = "must be in the index" if trusted.index.of(rule.issuer) else "no index needed"
    who = f"{rule.threshold} of {', '.join(sorted(rule.signers))}"
    yield f"  {rule.issuer}: {who}; serial {rule.min_serial} or more; {index}"
    for name in ("structures", "kernels", "hosts", "devices", "schemes"):
        yield f"    {name:10} {', '.join(getattr(rule, name)) or 'none'}"
    for floor in rule.floors:
        yield f"    {floor.gate} {floor.op} {floor.value:f}"


def _print_rows(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
