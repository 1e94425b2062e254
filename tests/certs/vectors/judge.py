"""Ask this project's verifier about one vector: set and policy, then live facts or files of what was accepted."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_frt.certs import dsse, policy, state, tree, verify
from pytest_frt.certs.reading import parse_time
from pytest_frt.certs.statement import CellCertificate, Certificate
from pytest_frt.contracts.record import Record
from pytest_frt.errors import CertificateRefused
from pytest_frt.runtime.match import LiveFacts, LiveSeat, Reject, Wish, match, match_config
from tests.certs.vectors.model import ACCEPT, Vector


@dataclass(frozen=True, slots=True)
class Answer:
    """``accept`` or a refusal code, everything that was said, and whether a runtime may act."""

    code: str
    said: str = ""
    activates: bool = False


def answer(vector: Vector, folder: Path) -> Answer:
    """Return the verifier's answer; ``folder`` takes the files of a tree vector."""
    try:
        loaded = policy.parse(vector.policy.encode())
        lines = dsse.split_set(vector.data)
        memory = state.parse_memory(json.dumps(vector.state).encode()) if vector.state else None
        outcomes = verify.verify_set(lines, loaded, parse_time(vector.at), state=memory)
        refused = [outcome for outcome in outcomes if isinstance(outcome, verify.Refused)]
        if refused:  # an index that does not stand refuses the certificate beside it with the same code
            said = "".join(f"{outcome.message}{outcome.title}" for outcome in refused)
            return Answer(" ".join({outcome.code for outcome in refused}), said)
        (outcome,) = outcomes
        assert isinstance(outcome, verify.Accepted)
        if vector.live:
            _live(outcome.certificate, vector.live)
        if vector.tree:
            _files(outcome.certificate, vector.tree, folder)
    except CertificateRefused as refusal:
        return Answer(refusal.refusal_code, refusal.message)
    return Answer(ACCEPT, activates=outcome.activates)


def _cell(certificate: Certificate) -> Record:
    assert isinstance(certificate, CellCertificate)
    return certificate.record


def _live(certificate: Certificate, changes: Mapping[str, Any]) -> None:
    """Hold the record against a process like the certified one but for ``changes``."""
    record = _cell(certificate)
    device = changes.get("seat_device", record.device.kind)
    facts = LiveFacts(
        device=replace(record.device, **changes.get("device", {})),
        software=record.software | changes.get("software", {}),
        distributions={},
        host_class=changes.get("host_class", record.host.host_class),
        library=record.host.library | changes.get("library", {}),
        sources=record.host.module_source | changes.get("sources", {}),
        seats={seat.facts.id: LiveSeat(tuple(record.host.module_source), device) for seat in record.seats},
        weights={seat.facts.id: seat.weights_digest for seat in record.seats} | changes.get("weights", {}),
    )
    config = match_config(record, changes.get("config_digest", record.host.config_digest))
    for verdict in (match(record, facts, Wish("eager", "decode")), config):
        if isinstance(verdict, Reject):
            raise CertificateRefused(verdict.code, verdict.message)


def _files(certificate: Certificate, spec: Mapping[str, Any], folder: Path) -> None:
    """Copy the role's certified files out of what the vector puts in their place."""
    record, role = _cell(certificate), spec["role"]
    plant(spec, folder)
    digest = record.kernel.tree_digest if role == tree.KERNEL else ""
    expected = tree.role_files(record.subjects, role)
    copy = tree.copy_verified(folder / role, expected, folder / "private", role=role, tree=digest)
    assert {file.name: file.sha256 for file in tree.list_files(copy)} == expected


def plant(spec: Mapping[str, Any], folder: Path) -> None:
    """Write the certified files, then take away, change, link and add what the vector says."""
    files = spec["certified"] | spec.get("change", {})
    for name, text in files.items():
        if name not in spec.get("remove", []):
            _made(folder / name).write_text(text, encoding="utf-8")
    for name, target in spec.get("link", {}).items():
        _made(folder / name).symlink_to(target)
    for name in spec.get("fifo", []):
        os.mkfifo(_made(folder / name))


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
