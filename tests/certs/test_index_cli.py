"""``frt index`` lists what the key has signed and is current, and what it writes a deployer's policy accepts."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import dsse, index_build, keys, policy, store, verify
from pytest_frt.certs.index import Index, key_digest, parse_index
from pytest_frt.certs.reading import time_text
from pytest_frt.cli.index import add_commands
from pytest_frt.errors import CertificateRefused, UsageFault

if TYPE_CHECKING:
    from tests.certs.conftest import World

NOW = datetime.now(UTC).replace(microsecond=0)


def frt(*argv: object) -> int:
    parser = argparse.ArgumentParser(prog="frt")
    add_commands(parser.add_subparsers(required=True))
    args = parser.parse_args(["index", *map(str, argv)])
    status = args.func(args)
    assert isinstance(status, int)
    return status


def payload(world: World, serial: int = 1, **changes: object) -> bytes:
    """Return a certificate that lives now, whatever the clock says."""
    window = {"issuedAt": time_text(NOW - timedelta(days=1)), "expiresAt": time_text(NOW + timedelta(days=90))}
    return world.spoiled(lambda s: s["predicate"].update(window | {"serial": serial} | changes))


def put(folder: Path, line: bytes, name: str = "one") -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}{store.CERTIFICATE_SUFFIX}").write_bytes(line)


@pytest.fixture
def folder(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with one certificate; the key of its signer lies beside it."""
    monkeypatch.chdir(tmp_path)
    keys.write_private(Path("alice.pem"), world.alice)
    keys.write_private(Path("bob.pem"), world.bob)
    put(tmp_path / "certs", world.line(payload(world)))
    return tmp_path / "certs"


def built(folder: Path) -> Index:
    (line, *_) = (folder / store.INDEX_NAME).read_bytes().splitlines()
    return parse_index(dsse.parse_envelope(line).payload)


def name(data: bytes) -> str:
    return dsse.parse_envelope(data).name


def required(world: World) -> policy.Policy:
    far = time_text(NOW + timedelta(days=400))
    changes = [("deny = []", "index = { required = true }"), ('expires = "2027-03-01T00:00:00Z"', f'expires = "{far}"')]
    text = world.policy_text.replace('until = "2027-06-01T00:00:00Z"', f'until = "{far}"')
    for old, new in changes:
        text = text.replace(old, new)
    return policy.parse(text.encode())


def codes(world: World, folder: Path) -> list[str]:
    outcomes = verify.verify_paths([folder], required(world), datetime.now(UTC))
    return [getattr(one, "code", "") for one in outcomes]


def test_what_is_built_satisfies_a_policy_that_requires_it(
    world: World, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert codes(world, folder) == ["NOT_IN_INDEX"]
    assert frt("build", folder, "--key", "alice.pem") == 0
    assert codes(world, folder) == [""]
    assert "1 current, 0 revoked, 0 left out" in capsys.readouterr().out
    assert built(folder).expires - built(folder).issued_at == timedelta(days=14)


def test_a_later_certificate_takes_the_place_of_an_earlier_one(world: World, folder: Path) -> None:
    newer = world.line(payload(world, 2))
    put(folder, newer, "two")
    frt("build", folder, "--key", "alice.pem")
    assert built(folder).current == (name(newer),)
    assert sorted(codes(world, folder)) == ["", "NOT_IN_INDEX"]


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_the_order_of_files_does_not_matter(world: World, folder: Path, order: str) -> None:
    for letter, serial in zip(order, (2, 3), strict=True):
        put(folder, world.line(payload(world, serial)), letter)
    frt("build", folder, "--key", "alice.pem")
    assert built(folder).current == (name(world.line(payload(world, 3))),)


def test_versions_grow_also_when_the_index_was_lost(folder: Path) -> None:
    frt("build", folder, "--key", "alice.pem")
    first = built(folder).version
    frt("build", folder, "--key", "alice.pem")
    second = built(folder).version
    assert second > first >= int(NOW.timestamp())
    (folder / store.INDEX_NAME).unlink()
    frt("build", folder, "--key", "alice.pem")
    assert built(folder).version >= first


def test_what_the_key_did_not_sign_is_not_listed(
    world: World, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(folder, world.line(payload(world, 9), keys.generate()), "planted")
    frt("build", folder, "--key", "alice.pem")
    assert built(folder).current == (name(world.line(payload(world))),)
    assert f"planted{store.CERTIFICATE_SUFFIX}:1: {index_build.FOREIGN}" in capsys.readouterr().out


def test_what_expired_is_not_listed(world: World, folder: Path) -> None:
    old = payload(world, 9, issuedAt="2026-01-01T00:00:00Z", expiresAt=time_text(NOW - timedelta(days=1)))
    put(folder, world.line(old), "old")
    frt("build", folder, "--key", "alice.pem")
    assert built(folder).current == (name(world.line(payload(world))),)


def test_two_certificates_of_one_serial_are_no_index(world: World, folder: Path) -> None:
    put(folder, world.line(payload(world, seed=8)), "twin")
    with pytest.raises(CertificateRefused) as caught:
        frt("build", folder, "--key", "alice.pem")
    assert caught.value.refusal_code == "EQUIVOCATION"
    assert not (folder / store.INDEX_NAME).exists()


@pytest.mark.parametrize("kind", ["payload", "tree", "public"])
def test_a_withdrawal_stays_and_refuses(world: World, folder: Path, kind: str) -> None:
    tree = world.record.kernel.tree_digest
    value = {"payload": name(world.line(payload(world))), "tree": tree, "public": world.alice.public.text}[kind]
    frt("build", folder, "--key", "alice.pem")
    before = built(folder)
    frt("revoke", folder, "--key", "alice.pem", f"--{kind}", value, "--reason", "leaks")
    frt("build", folder, "--key", "alice.pem")
    index = built(folder)
    assert index.version > before.version
    digest = key_digest(world.alice.public) if kind == "public" else value
    assert [(one.sha256, one.reason) for one in index.revoked] == [(digest, "leaks")]
    assert (index.current == ()) == (kind != "public")
    assert codes(world, folder) == ["REVOKED"]
    with pytest.raises(UsageFault, match="revoked already"):
        frt("revoke", folder, "--key", "alice.pem", f"--{kind}", value, "--reason", "leaks")


def test_a_second_signer_adds_up_and_signs_the_same_bytes(world: World, folder: Path) -> None:
    frt("build", folder, "--key", "alice.pem")
    before = built(folder)
    frt("sign", folder, "--key", "bob.pem")
    frt("sign", folder, "--key", "bob.pem")
    lines = (folder / store.INDEX_NAME).read_bytes().splitlines()
    assert {dsse.parse_envelope(line).name for line in lines} == {before.payload_sha256}
    assert len(lines) == 2
    text = world.policy_text.replace('signers = ["alice"]\nthreshold = 1', 'signers = ["alice", "bob"]\nthreshold = 2')
    world.policy_text = text
    put(folder, world.line(payload(world), world.bob), "bobs")
    assert codes(world, folder) == [""]


def test_an_index_of_somebody_else_is_not_built_upon(folder: Path, world: World) -> None:
    frt("build", folder, "--key", "alice.pem")
    put(folder, world.line(payload(world), world.bob))
    before = (folder / store.INDEX_NAME).read_bytes()
    with pytest.raises(CertificateRefused) as caught:
        frt("build", folder, "--key", "bob.pem")
    assert (caught.value.refusal_code, (folder / store.INDEX_NAME).read_bytes()) == ("SIG_NONE", before)


def test_issuers_are_never_mixed(world: World, folder: Path) -> None:
    put(folder, world.line(payload(world, issuer="other")), "other")
    with pytest.raises(UsageFault, match="acme, other"):
        frt("build", folder, "--key", "alice.pem")
    frt("build", folder, "--key", "alice.pem", "--issuer", "acme")
    assert built(folder).current == (name(world.line(payload(world))),)
    with pytest.raises(UsageFault, match="of issuer acme, not other"):
        frt("build", folder, "--key", "alice.pem", "--issuer", "other")


FAULTS: dict[str, tuple[list[str], str]] = {
    "nothing of this key": (["build", "certs", "--key", "bob.pem"], "1 not signed by this key"),
    "no certificate at all": (["build", "empty", "--key", "alice.pem"], "empty holds no certificate"),
    "no directory": (["build", "nowhere", "--key", "alice.pem"], "nowhere"),
    "no key": (["build", "certs", "--key", "no.pem"], "no.pem"),
    "an end that has passed": (
        ["build", "certs", "--key", "alice.pem", "--expires", "2020-01-01T00:00:00Z"], "LIFETIME"),
    "no moment": (["build", "certs", "--key", "alice.pem", "--expires", "tomorrow"], "TIME_FORMAT"),
    "half a digest": (["revoke", "certs", "--key", "alice.pem", "--tree", "dd", "--reason", "x"], "DIGEST"),
    "a reason of two lines": (
        ["revoke", "certs", "--key", "alice.pem", "--tree", "d" * 64, "--reason", "a\nb"], "JSON_STRING"),
    "nothing to sign": (["sign", "certs", "--key", "bob.pem"], store.INDEX_NAME),
}  # fmt: skip


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("argv", "said"), FAULTS.values(), ids=FAULTS)
def test_what_is_refused_writes_nothing(argv: list[str], said: str) -> None:
    Path("empty").mkdir()
    with pytest.raises((UsageFault, CertificateRefused)) as caught:
        frt(*argv)
    assert said in caught.value.diagnostics()
    assert not list(Path().rglob(store.INDEX_NAME))


def test_a_broken_certificate_is_named(folder: Path) -> None:
    put(folder, json.dumps({"payload": "x"}).encode(), "broken")
    with pytest.raises(CertificateRefused, match=r"broken\.frt\.intoto\.jsonl:1"):
        frt("build", folder, "--key", "alice.pem")
