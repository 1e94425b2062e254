"""The seat-level battery over the impls of published packages, with a stand-in, on a copy that declares the CPU.

The impls themselves declare what their packages run on, and no CPU is: there a bare seat is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from pytest_frt import markers
from pytest_frt.errors import GateRefused
from pytest_frt.fixtures.trial import Trial
from pytest_frt.testing import ImplTests
from tests.standin.packages import Edits, write
from tests.standin.seats import DIMS, HUB

ROWS = (1, 8)


class StandIn(ImplTests):
    """The battery of an impl named ``<structure>/<impl>``.

    Attributes:
        name: Which.
        edits: What to change in the stand-in.
        kinds: Device kinds that the copy declares.
    """

    name: ClassVar[str] = ""
    edits: ClassVar[Edits] = {}
    kinds: ClassVar[str] = '"cpu",'

    @pytest.fixture(scope="class")
    @classmethod
    def frt_trial(cls, tmp_path_factory: pytest.TempPathFactory) -> Trial:
        return trial(tmp_path_factory.mktemp("battery"), cls.name, cls.edits, cls.kinds)


def trial(root: Path, name: str, edits: Edits, kinds: str) -> Trial:
    """Return the battery of a copy of an impl over a stand-in of its package."""
    entry = HUB[name]
    source = Path(entry.file).read_text(encoding="utf-8")
    assert 'devices=("cuda",)' in source
    copy = root / f"{name}.py"
    copy.parent.mkdir(parents=True)
    copy.write_text(source.replace('devices=("cuda",)', f"devices=({kinds})"), encoding="utf-8")
    words: dict[str, Any] = {
        "structure": entry.impl.structure,
        "impl": str(copy),
        "scheme": entry.impl.schemes[0],
        "dims": DIMS[entry.impl.structure],
        "rows": ROWS,
        "kernel": str(write(root, entry.impl.kernel, edits)),
    }
    return Trial(markers.live(words, root))


class TestProjection(StandIn):
    name = "linear_proj/hub_fp8"


class TestPack(StandIn):
    name = "qkv_pack/hub_fp8"


class TestNorm(StandIn):
    name = "norm_fused/hub_bf16"


class TestPatches(StandIn):
    name = "patch_projection/hub_bf16"


class TestInt8(StandIn):
    name = "decoder_ffn/hub_w8a16"


def test_impl_itself_is_refused_on_a_cpu(tmp_path: Path) -> None:
    made = trial(tmp_path, "norm_fused/hub_bf16", {}, '"cuda",')
    with pytest.raises(GateRefused, match="its tensors are on cpu, hub_bf16 runs on cuda"):
        _ = made.cell.bound


WITHOUT_OP = """
from tests.impls.test_hub_battery import StandIn

class TestAbsent(StandIn):
    name = "norm_fused/hub_bf16"
    edits = {"def layer_norm_bf16(": "def elsewhere("}
"""


def test_battery_of_a_package_without_the_op_is_not_supported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(WITHOUT_OP)
    seen = pytester.runpytest_inprocess("-q", "-rs", "-p", "no:cacheprovider", "-k", "binds or parity_on_real")
    seen.assert_outcomes(skipped=2)
    seen.stdout.fnmatch_lines(["*NOT_SUPPORTED: *this build has no op layer_norm_bf16*"])
