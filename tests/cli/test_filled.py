"""An empty value is a usage fault that names its option, and never the same as leaving it out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_frt.cli import words as typed

Frt = Callable[..., tuple[int, str, str]]

REVOKE = ["trust", "revoke", "--reason", "x"]
WITHDRAW = ["index", "revoke", "certs", "--key", "k.pem", "--reason", "x"]
EMPTY = {
    "verify --state": ["verify", "certs"],
    "verify --at": ["verify", "certs"],
    "verify --trust": ["verify", "certs"],
    "index build --issuer": ["index", "build", "certs", "--key", "k.pem"],
    "index build --key": ["index", "build", "certs"],
    "trust revoke --key": REVOKE,
    "trust revoke --payload": REVOKE,
    "trust revoke --tree": REVOKE,
    "trust revoke --commit": REVOKE,
    "trust revoke --reason": ["trust", "revoke", "--tree", "d" * 64],
    "trust add-key --rule": ["trust", "add-key", "k.pub", "--owner", "x"],
    "trust add-key --until": ["trust", "add-key", "k.pub", "--owner", "x"],
    "index revoke --public": WITHDRAW,
    "index revoke --reason": ["index", "revoke", "certs", "--key", "k.pem", "--tree", "d" * 64],
    "sign --identity-token": ["sign", "--sigstore", "one.statement.json"],
}


@pytest.mark.parametrize("value", ["apart", "blank", "with ="])
@pytest.mark.parametrize("what", EMPTY)
def test_an_empty_option_is_a_usage_fault_that_names_it(frt: Frt, what: str, value: str) -> None:
    option = what.rsplit(maxsplit=1)[-1]
    given = {"apart": [option, ""], "blank": [option, " "], "with =": [f"{option}="]}[value]
    status, out, err = frt(*EMPTY[what], *given)
    assert (status, out) == (4, "")
    assert err.startswith(f"frt: {option} is empty")


@pytest.mark.parametrize("words", [[""], ["verify", ""], ["explain", " "], ["sign", "--key", "k.pem", ""]], ids=repr)
def test_an_empty_argument_is_a_usage_fault(frt: Frt, words: list[str]) -> None:
    status, out, err = frt(*words)
    assert (status, out) == (4, "")
    assert "is empty" in err


@pytest.mark.parametrize("words", [["--key=ed25519:AQ="], ["trust", "show"], ["ed25519:AQ="], []], ids=repr)
def test_what_has_a_value_passes(words: list[str]) -> None:
    typed.check_filled(words)
