"""Write the folder of this release: ``python -m tests.certs_by_release.freeze``, from the repository root, once.

A folder holds what a deployer of that release had: certificates, an index, a policy, the certified files and the
calibration artefact. The keys are the published test keys of the vectors; times are fixed, and so is the moment of
verification in ``expected.json``. A folder that exists is never written again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from pytest_frt.certs import dsse, store
from pytest_frt.certs.index import build_index
from pytest_frt.certs.statement import parse_payload
from pytest_frt.contracts.impl import Scales
from pytest_frt.contracts.record import CalibrationFacts, FileDigest, Record
from pytest_frt.seat.artefact import save_artefact
from tests.certs.vectors import world

ROOT: Final = Path(__file__).resolve().parent
FILES: Final = world.FILES | {"kernel/py.typed": ""}  # an empty file: bound by the tree digest alone
POLICY: Final = world.policy(
    ('composition = "cell"', 'composition = "plan"'),
    ("deny = []", "deny = []\nindex = { required = true }"),
    ('signers = ["alice"]\nthreshold = 1', 'signers = ["alice", "bob"]\nthreshold = 2\nmin_serial = 42'),
)


def record(artefact: bytes) -> Record:
    """Return the record that is certified: a second signer, an empty kernel file and a real artefact."""
    kernel = {name.removeprefix("kernel/"): text for name, text in FILES.items() if name.startswith("kernel/")}
    scales = FileDigest("scales.safetensors", hashlib.sha256(artefact).hexdigest())
    return replace(
        world.RECORD,
        kernel=replace(world.RECORD.kernel, tree_digest=world.tree_digest(kernel)),
        calibration=CalibrationFacts(scales, "amax", 8, world.digest("calibration"), world.digest("heldout")),
        refused={"model.layers.1.mlp": "parity: relative L2 0.2 > 0.05"},
    )


def freeze(folder: Path) -> None:
    """Write a release folder; it must not exist.

    Raises:
        FileExistsError: it does.
    """
    folder.mkdir()
    certs = folder / "certs"
    save_artefact(folder / "scales.safetensors", {world.SEAT.facts.id: Scales({"x": 0.25})})
    artefact = (folder / "scales.safetensors").read_bytes()
    (folder / "scales.safetensors").unlink()
    store.write_artefact(certs, "toy", "cpu", artefact)
    cell = world.cell_payload(record(artefact))
    plan = world.plan_payload(cell)
    for payload in (cell, plan):
        for key in (world.ALICE, world.BOB):
            store.write_certificate(certs, dsse.sign(payload, key))
    names = [hashlib.sha256(payload).hexdigest() for payload in (cell, plan)]
    told = build_index(issuer="acme", version=3, issued_at=world.ISSUED, expires=world.EXPIRES, current=names)
    lines = [dsse.sign(told, key) for key in (world.ALICE, world.BOB)]
    (certs / "index.intoto.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    (folder / "frt-trust.toml").write_text(POLICY, encoding="ascii")
    for name, text in FILES.items():
        path = folder / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    (folder / "expected.json").write_text(json.dumps(_expected(cell, plan), indent=2) + "\n", encoding="ascii")


def _expected(*payloads: bytes) -> dict[str, Any]:
    titles = {hashlib.sha256(payload).hexdigest(): parse_payload(payload).title for payload in payloads}
    return {"now": world.NOW, "accepted": titles, "owners": ["alice", "bob"]}


if __name__ == "__main__":
    freeze(ROOT / (sys.argv[1] if len(sys.argv) > 1 else version("pytest-frt")))
