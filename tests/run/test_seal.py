"""Statements are written of what was proven, signed when there is a key, and a plan never names what was not stated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.certs import dsse, keys, statement, store
from pytest_frt.contracts.record import PlanRecord, Record
from pytest_frt.errors import UsageFault
from pytest_frt.run.config import RunConfig, Selection
from pytest_frt.run.seal import seal
from pytest_frt.spec.digest import bytes_digest
from pytest_frt.spec.modules import load_file

certified: Any = load_file(Path(__file__).parents[1] / "certs" / "conftest.py")
RECORD: Record = certified.RECORD
NAME = RECORD.key.id


def settings(out: Path, sign_key: str | None = None) -> RunConfig:
    plain: dict[str, Any] = dict.fromkeys(("size", "checkpoint", "json")) | {"kernel": ()}
    numbers: dict[str, Any] = {"seed": 7, "threads": 1, "quick": False, "timing": True, "comparison": False}
    return RunConfig(
        Selection(), ("eager",), out=str(out), cache="", sign_key=sign_key, issuer="acme", **plain, **numbers
    )


def plan_of(*names: str) -> PlanRecord:
    members = {"members": tuple(names), "keys": tuple(names)}
    common = {"host": RECORD.host, "device": RECORD.device, "software": RECORD.software, "checker": RECORD.checker}
    return PlanRecord("toy-cpu", dropped={}, gates=certified.END_TO_END, attempts=1, seed=7, **members, **common)


def test_without_a_key_statements_stay_unsigned(tmp_path: Path) -> None:
    sealed = seal({NAME: RECORD}, {"toy-cpu": plan_of(NAME)}, settings(tmp_path))
    assert (sealed.keyid, sealed.withheld, set(sealed.files)) == ("", {}, {NAME, "toy-cpu"})
    cell, plan = (statement.parse_payload(store.read_statement(sealed.files[name])) for name in (NAME, "toy-cpu"))
    assert isinstance(cell, statement.CellCertificate)
    assert cell.record == RECORD
    assert isinstance(plan, statement.PlanCertificate)
    assert plan.plan.members == (bytes_digest(store.read_statement(sealed.files[NAME])),)


def test_with_a_key_every_file_carries_its_signature(tmp_path: Path) -> None:
    key = keys.generate()
    keys.write_private(tmp_path / "key.pem", key)
    sealed = seal({NAME: RECORD}, {"toy-cpu": plan_of(NAME)}, settings(tmp_path, str(tmp_path / "key.pem")))
    assert sealed.keyid == key.public.keyid
    for file in sealed.files.values():
        (line,) = dsse.split_set(file.read_bytes())
        assert dsse.signers(dsse.parse_envelope(line), [key.public]) == {key.public}


def test_plan_with_a_member_that_was_not_stated_is_withheld(tmp_path: Path) -> None:
    other = replace(RECORD.key, phase="prefill").id
    sealed = seal({NAME: RECORD}, {"toy-cpu": plan_of(NAME, other)}, settings(tmp_path))
    assert set(sealed.files) == {NAME}
    assert sealed.withheld == {"toy-cpu": f"members without a statement: {other}"}


def test_nothing_proven_opens_no_key(tmp_path: Path) -> None:
    sealed = seal({}, {"toy-cpu": plan_of(NAME)}, settings(tmp_path, str(tmp_path / "absent.pem")))
    assert (sealed.files, sealed.keyid) == ({}, "")
    assert "toy-cpu" in sealed.withheld


def test_key_that_cannot_be_read_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match=r"absent\.pem cannot be read"):
        seal({NAME: RECORD}, {}, settings(tmp_path, str(tmp_path / "absent.pem")))
    assert not list(tmp_path.rglob("*.json*"))
