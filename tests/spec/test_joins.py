"""What a producer returns is relayed by the boundary and by every rule, or by neither; only pairs share layers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_frt.errors import SpecError
from pytest_frt.spec.load import load_structure

FOLDER = Path(__file__).parents[2] / "catalog" / "modnorm_qkv_chain"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (", relayed: true", "", "outputs.n.relayed is false"),
        ("join: relay", "join: fanout", "join: fanout, and outputs.n.relayed is true"),
        ("{name: q, shape: [M, Nq]}", "{name: q, shape: [M, Nq], relayed: true}", "q.relayed: only the first output"),
        ("{name: x, shape: [M, D]}", "{name: x, shape: [M, D], relayed: true}", "x.relayed: only the first output"),
        ("shares: true", "shares: true\n    remaining: true", "only a pair that takes no remaining layers"),
    ],
    ids=["boundary_without", "rules_without", "second_output", "input", "shared_and_remaining"],
)
def test_boundary_and_rules_agree(tmp_path: Path, old: str, new: str, said: str) -> None:
    folder = tmp_path / FOLDER.name
    folder.mkdir()
    for name in ("reference.py", "cases.py"):
        (folder / name).write_text((FOLDER / name).read_text())
    (folder / "structure.yaml").write_text((FOLDER / "structure.yaml").read_text().replace(old, new, 1))
    with pytest.raises(SpecError, match=said):
        load_structure(folder)
