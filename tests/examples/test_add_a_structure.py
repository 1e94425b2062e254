"""``examples/add_a_structure``: installed from its wheel, found by name, judged correct, and refused once spoiled."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
import transformers as hf
from torch import Tensor

from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.contracts.structure import Structure
from pytest_frt.seat.discover import discover, load_reference
from pytest_frt.spec.load import load_structure

EXAMPLE = Path(__file__).parents[2] / "examples" / "add_a_structure"
RUN = ("pytest", "-q", "--frt-host=modernbert", "--frt-no-timing", "--frt-device=cpu")
IMPL = "acme_frt/impls/packed_glu/fp16_weights.py"
STRUCTURE = load_structure(EXAMPLE / "acme_frt" / "catalog" / "packed_glu")
GATE_ORDER = ("gate, up = self.gate_up(x)", "up, gate = self.gate_up(x)")
SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
Called = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of a copy with the installed build backend, and unpack it where a path can name it."""
    work = tmp_path_factory.mktemp("acme")
    skipped = shutil.ignore_patterns("__pycache__", "build", "*.egg-info", ".*_cache")
    copy = shutil.copytree(EXAMPLE, work / "copy", ignore=skipped)
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(work), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = work.glob("*.whl")
    with ZipFile(wheel) as opened:
        opened.extractall(work / "site")
    return work / "site"


@pytest.fixture
def call(tmp_path: Path) -> Called:
    """Return a function that runs Python in an empty directory, with one more folder on the path."""

    def run(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
        empty = tmp_path / "empty"
        empty.mkdir()
        keep = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "FRT_"))}
        return subprocess.run(
            [sys.executable, *words],
            cwd=empty,
            env={**keep, "PYTHONPATH": str(site), "COLUMNS": "80"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def blanked(text: str) -> set[str]:
    """Return the lines of an output without its numbers, which are a machine's, and without rules and progress."""
    lines = (re.sub(r"\d[\d.e-]*", "#", line.rstrip()) for line in text.splitlines())
    return {line for line in lines if line and not re.search(r"^\$|^[.=_ Fn]*[\[=_]|#s$", line)}


def told(command: str) -> list[set[str]]:
    """Return what the example's page says that a command prints, each time it is run."""
    page = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    blocks = [text for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL) for text in block.split("\n$ ")]
    return [blanked(text) for text in blocks if text.removeprefix("$ ").startswith(command + "\n")]


def left_out(done: subprocess.CompletedProcess[str], turn: int) -> set[str]:
    """Return what the page says that the judging run prints in one turn, and this one does not."""
    return told(" ".join(RUN))[turn] - blanked(done.stdout)


def test_three_entries_are_listed(site: Path, call: Called) -> None:
    done = call(site, "-c", "import sys; from pytest_frt.cli import main; sys.exit(main(['list']))")
    mine = [line.split()[:2] for line in done.stdout.splitlines() if line.endswith("  acme-frt 1.0")]
    assert mine == [["packed_glu", "1"], ["packed_glu", "fp16_weights"], ["modernbert", "tiny"]], done.stderr


def test_cell_is_correct_from_an_empty_directory(site: Path, call: Called) -> None:
    done = call(site, "-m", *RUN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "correct; 3 seats" in done.stdout
    assert "1 judged, 1 correct" in done.stdout
    assert left_out(done, 0) == set()


def test_exchanged_halves_are_refused(site: Path, tmp_path: Path, call: Called) -> None:
    spoiled = shutil.copytree(site, tmp_path / "spoiled")
    source = (spoiled / IMPL).read_text()
    assert GATE_ORDER[0] in source
    (spoiled / IMPL).write_text(source.replace(*GATE_ORDER))
    done = call(spoiled, "-m", *RUN)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"REFUSED parity reference: 3 of 3 seats: .*seam.slope", done.stdout)
    assert left_out(done, 1) == set()
    assert "1 judged, 0 correct" in done.stdout


def test_its_own_tests_pass(site: Path, call: Called) -> None:
    own = "near_misses or (TestBare and not lifecycle and not envelope)"
    done = call(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", own, str(EXAMPLE / "tests"))
    assert done.returncode == 0, done.stdout
    assert re.search(r"^1[0-9] passed", done.stdout, re.MULTILINE), done.stdout


def seats(model: torch.nn.Module, reference: Callable[..., Tensor] | None = None) -> tuple[SeatFacts, ...]:
    """Return the seats of the structure, by its own reference or by another."""

    def taken(structure: Structure) -> Callable[..., Tensor | tuple[Tensor, ...]]:
        return reference or load_reference(structure)

    return discover(model.eval(), [STRUCTURE], reference_of=taken)[0]


def phi3() -> torch.nn.Module:
    return hf.Phi3ForCausalLM(hf.Phi3Config(**SMALL, **SPECIAL))


def test_models_that_pack_alike_have_seats() -> None:
    bert = hf.ModernBertModel(hf.ModernBertConfig(**SMALL, **SPECIAL, cls_token_id=1, sep_token_id=2))
    found = [(one.seat.places[0], one.variant["activation"], one.dims) for one in (*seats(bert), *seats(phi3()))]
    sizes = {"D": 32, "F": 64}
    assert found == [(f"layers.{i}.mlp", "gelu_erf", sizes) for i in (0, 1)] + [
        (f"model.layers.{i}.mlp", "silu", sizes) for i in (0, 1)
    ]


def test_a_reference_of_exchanged_halves_finds_no_seat() -> None:
    sound = load_reference(STRUCTURE)

    def exchanged(*, w_gate_up: Tensor, **others: Tensor) -> Tensor:
        found = sound(w_gate_up=w_gate_up.roll(w_gate_up.shape[0] // 2, dims=0), **others)
        assert isinstance(found, Tensor)
        return found

    assert seats(phi3(), exchanged) == ()
