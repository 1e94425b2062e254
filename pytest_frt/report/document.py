"""The JSON report: ``pytest_frt/schemas/report.schema.json`` says what each member means."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from pytest_frt.contracts.verdict import Outcome
from pytest_frt.devices.probe import machine_facts
from pytest_frt.report import away, exhibits
from pytest_frt.report.collected import Collected
from pytest_frt.report.header import versions
from pytest_frt.report.lines import Rerun
from pytest_frt.report.totals import Totals
from pytest_frt.rules.fold import Folded
from pytest_frt.run.config import RunConfig
from pytest_frt.run.emulation import KIND, NOT_SHOWN, label
from pytest_frt.run.plan import RecordPlan, RunPlan
from pytest_frt.spec import codec

if TYPE_CHECKING:
    from pytest_frt.report.ending import Ending

SCHEMA: Final = "frt-report/2"
SECRET: Final = frozenset({"sign_key"})
"""Settings that a report leaves out: where a key lies is nobody's business."""


def build(collected: Collected, settings: RunConfig, plan: RunPlan, rerun: Rerun, ending: Ending) -> dict[str, Any]:
    """Return the report as JSON values."""
    plans = {record.id: record for record in plan.records}
    unions = {union.name: union for union in plan.unions}
    return {
        "schema": SCHEMA,
        "exit_code": ending.exit_code,
        "settings": {key: value for key, value in codec.to_json(settings).items() if key not in SECRET | {"origins"}},
        "origins": {key: value for key, value in settings.origins.items() if key not in SECRET},
        "machine": [codec.to_json(facts) for facts in machine_facts()],
        "software": versions(),
        "totals": asdict(Totals.of(collected, plan)),
        "records": [_record(collected, plans[name], rerun, ending) for name in collected.gates],
        "unions": [
            {
                "id": name,
                **_outcome(collected.united(name)),
                "result": codec.to_json(result),
                "rerun": rerun.union(unions[name]),
                "file": _file(ending, name),
            }
            for name, result in collected.unions.items()
        ],
        "not_supported": [
            {"cell": row.cell.id, "outcome": Outcome.NOT_SUPPORTED.value, "reason": row.reason}
            for row in plan.not_supported
        ],
        "away": away.json(plan, settings),
        "faults": [{"subject": name, **codec.to_json(fault)} for name, fault in collected.faults.items()],
        "resumed": _resumed(plan),
        "waivers": [one.json() for one in ending.waivers],
        "compared": ending.compared.json() if ending.compared else None,
        "hosts": exhibits.hosts(collected, plans),
        "thresholds": exhibits.limits(collected),
        "certificates": exhibits.certificates(ending),
        "keyid": ending.keyid,
        "notes": list(ending.notes),
    }


def _resumed(plan: RunPlan) -> dict[str, Any] | None:
    found = plan.resumed
    if found is None:
        return None
    kept = [
        {
            "id": one.plan.id,
            "file": str(one.source),
            "name": one.certificate.payload_sha256,
            "until": one.certificate.expires_at.isoformat(),
        }
        for one in found.kept
    ]
    plans = [{"id": one.name, "file": str(one.source)} for one in found.plans]
    return {"kept": kept, "plans": plans, "again": dict(found.again or {})}


def _record(collected: Collected, plan: RecordPlan, rerun: Rerun, ending: Ending) -> dict[str, Any]:
    return {
        "id": plan.id,
        "key": codec.to_json(plan.key),
        **_outcome(collected.folded(plan.id)),
        "emulated": _emulated(collected, plan.id),
        "gates": {name: exhibits.gate(result) for name, result in collected.gates[plan.id].items()},
        **exhibits.of_record(collected.gates[plan.id]),
        "rerun": rerun.record(plan),
        "file": _file(ending, plan.id),
    }


def _emulated(collected: Collected, record: str) -> dict[str, Any] | None:
    device = collected.emulated.get(record)
    return {"on": KIND, "for": device, "not_shown": list(NOT_SHOWN), "label": label(device)} if device else None


def _outcome(found: Folded) -> dict[str, Any]:
    return {
        "outcome": found.outcome.value,
        "gate": found.gate,
        "reason": found.reason,
        "detail": found.detail,
        "band": found.band,
        "correct": found.correct,
    }


def _file(ending: Ending, name: str) -> str | None:
    return str(ending.files[name]) if name in ending.files else None


def dumps(document: dict[str, Any]) -> bytes:
    """Return the report as JSON text."""
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()
