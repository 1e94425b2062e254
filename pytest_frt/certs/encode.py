"""Record to predicate: the fields of a certificate as plain JSON values. ``decode`` is the exact inverse.

Maps whose keys come from a host (seat ids, class names) are written as arrays: such keys may differ in case only,
which the parser refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pytest_frt.certs.reading import time_text
from pytest_frt.certs.strict_json import Json, clean_text, real_text
from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.contracts.host import HostFacts
from pytest_frt.contracts.record import CalibrationFacts, FileDigest, GateRow, PlanRecord, Record, SeatRecord
from pytest_frt.contracts.seat import ModuleSeat, PairSeat, RoutedSeat, Seat

JsonObject = dict[str, Json]


@dataclass(frozen=True, slots=True)
class Issue:
    """Who issues a certificate and for how long.

    Attributes:
        issuer: Name that a policy rule ties to its signers.
        serial: Counter per issuer and cell; a reader may refuse a lower one than it has seen.
        issued_at, expires_at: UTC moments.
    """

    issuer: str
    serial: int
    issued_at: datetime
    expires_at: datetime

    def members(self) -> JsonObject:
        """The members every predicate starts with. ``crit`` is required even when it is empty."""
        return {
            "crit": [],
            "issuer": self.issuer,
            "serial": self.serial,
            "issuedAt": time_text(self.issued_at),
            "expiresAt": time_text(self.expires_at),
            "result": "PASSED",
        }


def cell_predicate(record: Record, issue: Issue) -> JsonObject:
    """Return the predicate of a cell certificate."""
    key, cell = record.key, record.key.cell
    return issue.members() | {
        "cell": {
            "structure": f"{cell.structure}@{record.structure_version}",
            "impl": f"{cell.impl}@{record.impl_version}",
            "host": cell.host,
            "scheme": cell.scheme,
            "device": cell.device,
        },
        "deployment": {"form": key.form, "phase": key.phase, "size": key.size, "cache": key.cache},
        "kernel": {
            "repo": record.kernel.repo,
            "revision": record.kernel.revision,
            "variant": record.kernel.variant,
            "treeDigest": record.kernel.tree_digest,
        },
        "host": _host(record.host),
        "weights": {"binding": "exact"},
        "device": _device(record.device),
        "software": dict(record.software),
        "seats": [_seat(seat) for seat in record.seats],
        "refused": _reasons(record.refused, "seat"),
        "rows": list(record.rows),
        "dtype": record.dtype,
        "calibration": _calibration(record.calibration),
        "gates": _gates(record.gates),
        "attempts": record.attempts,
        "seed": record.seed,
        "evidence": [named_digest(file) for file in record.evidence],
        "checker": named_digest(record.checker),
    }


def plan_predicate(plan: PlanRecord, issue: Issue) -> JsonObject:
    """Return the predicate of a plan certificate; its members are the subjects of the statement."""
    return issue.members() | {
        "name": plan.name,
        "dropped": _reasons(plan.dropped, "key"),
        "gates": _gates(plan.gates),
        "host": _host(plan.host),
        "device": _device(plan.device),
        "software": dict(plan.software),
        "attempts": plan.attempts,
        "seed": plan.seed,
        "checker": named_digest(plan.checker),
    }


def named_digest(file: FileDigest) -> JsonObject:
    """Return a file as an in-toto resource descriptor."""
    return {"name": file.name, "digest": {"sha256": file.sha256}}


def cleaned(reasons: Mapping[str, str]) -> dict[str, str]:
    """Return ``reasons`` as printable lines; the text of an error may hold anything."""
    return {name: clean_text(reason) for name, reason in reasons.items()}


def _reasons(reasons: Mapping[str, str], what: str) -> Json:
    return [{what: name, "reason": reason} for name, reason in sorted(reasons.items())]


def _host(host: HostFacts) -> JsonObject:
    return {
        "name": host.name,
        "class": host.host_class,
        "library": dict(host.library),
        "configDigest": host.config_digest,
        "moduleSourceDigest": [
            {"class": name, "digest": {"sha256": digest}} for name, digest in sorted(host.module_source.items())
        ],
        "weights": host.weights,
        "checkpoint": host.checkpoint,
    }


def _device(device: DeviceFacts) -> JsonObject:
    return {
        "kind": device.kind,
        "arch": device.arch,
        "name": device.name,
        "isa": list(device.isa),
        "threads": device.threads,
        "math": device.math,
    }


def _seat(seat: SeatRecord) -> JsonObject:
    facts = seat.facts
    return {
        "at": _place(facts.seat),
        "variant": dict(facts.variant),
        "dims": dict(facts.dims),
        "slots": {name: {"tensor": ref.tensor, "transpose": ref.transpose} for name, ref in facts.slots.items()},
        "constants": {name: real_text(value) for name, value in facts.constants.items()},
        "dtype": facts.dtype,
        "points": {name: point.module for name, point in facts.points.items()},
        "weights": {"sha256": seat.weights_digest},
        "scales": dict(seat.scales),
    }


def _place(seat: Seat) -> JsonObject:
    match seat:
        case ModuleSeat(path):
            return {"kind": "module", "path": path}
        case RoutedSeat(path, function):
            return {"kind": "routed", "path": path, "function": function}
        case PairSeat(producer, consumers):
            return {"kind": "pair", "producer": producer, "consumers": list(consumers)}


def _calibration(facts: CalibrationFacts | None) -> Json:
    if facts is None:
        return None
    return {
        "artefact": named_digest(facts.artefact),
        "method": facts.method,
        "samples": facts.samples,
        "dataDigest": facts.data_digest,
        "heldoutDigest": facts.heldout_digest,
    }


def _gates(rows: Sequence[GateRow]) -> Json:
    return [
        {
            "name": row.name,
            "op": row.op,
            "floor": row.floor,
            "measured": row.measured,
            "n": row.n,
            "statistic": row.statistic,
            "samples": list(row.samples),
            "band": row.band,
        }
        for row in rows
    ]
