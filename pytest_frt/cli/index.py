"""``frt index build | revoke | sign``: the publisher's list of what is current and what is withdrawn. No torch."""

from __future__ import annotations

import argparse
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_frt.certs import index_build, keys, store
from pytest_frt.certs.index import Index, Revoked, key_digest
from pytest_frt.certs.keys import SigningKey
from pytest_frt.certs.reading import parse_time, time_text
from pytest_frt.cli import words
from pytest_frt.cli.certs import add_passphrase, passphrase, public_key
from pytest_frt.errors import UsageFault

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)

LIFE: Final = timedelta(days=14)
"""Life of an index by default: short, since until it ends an old one can be shown in place of a newer one."""


def add_commands(subparsers: Subparsers) -> None:
    """Register ``frt index`` and its actions."""
    top = subparsers.add_parser("index", help="say which certificates are current and which are withdrawn")
    actions = top.add_subparsers(required=True, metavar="ACTION")

    build = actions.add_parser("build", help="write the signed index of a directory's certificates")
    _add_common(build)
    build.set_defaults(func=build_index)

    less = actions.add_parser("revoke", help="withdraw a certificate, kernel tree or key, and write the index anew")
    what = less.add_mutually_exclusive_group(required=True)
    words.add_digests(what)
    what.add_argument("--public", metavar="PUB", help="a signing key: public key file or text")
    less.add_argument("--reason", required=True, help="why; deployers are shown it")
    _add_common(less)
    less.set_defaults(func=revoke)

    more = actions.add_parser("sign", help="add a second signature to the index, for rules that need several owners")
    more.add_argument("folder", metavar="DIR", type=Path, help=f"directory that holds {store.INDEX_NAME}")
    more.add_argument("--key", metavar="FILE", type=Path, required=True, help="private key file")
    add_passphrase(more)
    more.set_defaults(func=cosign)


def build_index(args: argparse.Namespace) -> int:
    """List the current certificates of a directory that the key has signed, and sign the list.

    Raises:
        UsageFault: there is no such certificate, or they are of several issuers and none was named.
        CertificateRefused: a file, the key, or the index that is there; nothing was written.
    """
    return _write(args, ())


def revoke(args: argparse.Namespace) -> int:
    """Add a withdrawal to the index, and drop from it what that concerns.

    Raises:
        UsageFault: it is withdrawn already, or as ``build_index``.
        CertificateRefused: as ``build_index``.
    """
    if args.public is not None:
        kind, digest = "key", key_digest(public_key(args.public))
    else:
        kind, digest = words.digest_of(args)
    return _write(args, (Revoked(kind, digest, args.reason),))


def cosign(args: argparse.Namespace) -> int:
    """Add the key's signature to the index of a directory.

    Raises:
        UsageFault: there is no index.
        CertificateRefused: the index is malformed, or the key is refused.
    """
    key = keys.load_private(args.key, passphrase(args))
    index = index_build.cosign(args.folder, key)
    print(f"signed {index.title} by {key.public.keyid} in {args.folder / store.INDEX_NAME}")
    return 0


def _write(args: argparse.Namespace, more: tuple[Revoked, ...]) -> int:
    key = keys.load_private(args.key, passphrase(args))  # may ask a person, who must not keep others waiting
    with index_build.held(args.folder):
        return _write_held(args, key, more)


def _write_held(args: argparse.Namespace, key: SigningKey, more: tuple[Revoked, ...]) -> int:
    now = datetime.now(UTC).replace(microsecond=0)
    after = index_build.previous(args.folder, key.public)
    before = after.index.revoked if after else ()
    if twice := {(one.kind, one.sha256) for one in before} & {(one.kind, one.sha256) for one in more}:
        kind, digest = twice.pop()
        raise UsageFault(f"{kind} {digest} is revoked already")
    revoked = (*before, *more)
    listing = index_build.survey(args.folder, key.public, now, revoked)
    index = index_build.write_index(
        args.folder,
        listing,
        key,
        issuer=_issuer(args.issuer, args.folder, listing, after),
        now=now,
        expires=parse_time(args.expires, "--expires") if args.expires is not None else now + LIFE,
        revoked=revoked,
        after=after,
    )
    _print(args.folder / store.INDEX_NAME, index, listing, key)
    return 0


def _issuer(named: str | None, folder: Path, listing: index_build.Listing, after: index_build.Found | None) -> str:
    if named is not None:
        return named
    if after is not None:
        return after.index.issuer
    if not listing.issuers:
        raise _nothing_to_list(folder, listing)
    if len(listing.issuers) > 1:
        raise UsageFault(f"{folder} holds certificates of {', '.join(listing.issuers)}", hint="name one: --issuer")
    return listing.issuers[0]


def _nothing_to_list(folder: Path, listing: index_build.Listing) -> UsageFault:
    if not listing.left:
        return UsageFault(
            f"{folder} holds no certificate (*{store.CERTIFICATE_SUFFIX})",
            hint="name the directory of certificates, or sign statements first: frt sign --key FILE STATEMENT",
        )
    why = Counter(listing.left.values())
    said = ", ".join(f"{count} {reason}" for reason, count in sorted(why.items()))
    foreign = set(why) == {index_build.FOREIGN}
    return UsageFault(
        f"no certificate in {folder} is current: {said}",
        hint="name another --key" if foreign else "renew them, or give --issuer for an index that lists none",
    )


def _print(path: Path, index: Index, listing: index_build.Listing, key: SigningKey) -> None:
    print(f"{path}: {index.title}, until {time_text(index.expires)}, signed by {key.public.keyid}")
    for one in listing.current:
        state = "current" if one.payload_sha256 in index.current else f"of issuer {one.issuer}"
        print(f"{state:9} {one.title} {one.payload_sha256[: store.SHORT]}")
    for source, why in sorted(listing.left.items()):
        print(f"left out  {source}: {why}")
    for revoked in index.revoked:
        print(f"revoked   {revoked.kind} {revoked.sha256}: {revoked.reason}")
    print(f"{len(index.current)} current, {len(index.revoked)} revoked, {len(listing.left)} left out")


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", type=Path, help="directory of certificates, read recursively")
    parser.add_argument("--key", metavar="FILE", type=Path, required=True, help="private key file")
    parser.add_argument(
        "--expires", metavar="TIME", help=f"end of the index (YYYY-MM-DDTHH:MM:SSZ; default: in {LIFE.days} days)"
    )
    parser.add_argument("--issuer", help="whose certificates to list, when the directory holds several issuers'")
    add_passphrase(parser)
