"""The certificate story in its short form: a tiny host, certificates made by a test, the deployer of the example."""

from __future__ import annotations

import copy
import re
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_frt.spec.modules import load_file
from tests.installed import install_world

ROOT = Path(__file__).parents[2]
MODEL = """
from pathlib import Path
import torch
from pytest_frt.spec.modules import load_file

def build(root):
    torch.manual_seed(0)
    model = load_file(Path(root) / "model.py").Model().eval().requires_grad_(requires_grad=False)
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    return model, lambda: model(x)
"""


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    return load_file(ROOT / "examples" / "certificate_story.py")


@pytest.fixture
def scene(tmp_path: Path) -> dict[str, Any]:
    """Certify the small world of the runtime's tests, install it and lay its certificates beside its kernel."""
    worlds = load_file(ROOT / "tests" / "runtime" / "conftest.py")
    root = shutil.copytree(worlds.FILES, tmp_path / "world", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "build_model.py").write_text(MODEL)
    model, _ = load_file(root / "build_model.py").build(root)
    world = worlds.World(root, model, copy.deepcopy(model))
    world.terms |= {"expires_at": worlds.NOW + timedelta(days=30)}
    world.certify()
    shutil.copytree(world.out, root / "kernel" / "certificates")
    install_world(root, tmp_path / "site")
    paths = {
        "model": "build_model.py",
        "argument": "",
        "release": "kernel",
        "trust": world.trust(("version = 1", "version = 2")).name,
        "state": "memory/state.json",
        "kernel_file": "kernel/build/torch-cpu/inner.py",
        "impl_file": "impls/toy_ffn/toy.py",
        "structure_file": "catalog/toy_ffn/structure.yaml",
    }
    texts = {"repo": worlds.REPO, "weight": "blocks.1.down.weight", "phase": "", "now": worlds.NOW.isoformat()}
    return {name: str(root / path) for name, path in paths.items()} | texts | {"late_days": 60}


Tell = Callable[..., tuple[int, str]]


@pytest.fixture
def tell(story: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Tell:
    """Run the deployer; return its exit status and all that it printed."""

    def told(scene: dict[str, Any], *tamperings: str) -> tuple[int, str]:
        status = story.deploy(tmp_path / "deployer", tmp_path / "site", scene, *tamperings)
        return status, "".join(capfd.readouterr())

    return told


CODES = {
    "a byte of the certificate": {"B64", "ENVELOPE", "JSON_SYNTAX", "PAYLOAD_TYPE", "SIG_NONE"},
    "the payloads of two valid certificates exchanged": {"SIG_NONE"},
    "the plan without one of its cells": {"PLAN_MEMBER"},
    "a byte of the impl's source": {"ROLE_FILE"},
    "a byte of structure.yaml": {"ROLE_FILE"},
    "a byte of a kernel file": {"KERNEL_TREE"},
    "one more file beside the kernel": {"KERNEL_TREE"},
    "bytecode beside the kernel's source": {"TREE_BYTECODE"},
    "one weight, by one part in a thousand": {"WEIGHTS"},
    "another number of threads of the device": {"DEVICE"},
    "another version of torch installed": {"SOFTWARE"},
    "the key revoked by the deployer": {"SIG_REVOKED"},
    "the policy rolled back to an older version": {"POLICY_ROLLBACK"},
    "the certificates past their end": {"EXPIRED"},
}


def test_every_tampering_is_refused_with_a_code_and_a_next_step(
    tell: Tell, tmp_path: Path, scene: dict[str, Any]
) -> None:
    status, said = tell(scene)
    assert status == 0, said
    assert f"directory  {tmp_path / 'deployer'}" in said
    assert "network    closed: socket." in said
    assert said.count("after detach: bit-identical True") == 2
    rows = {title: code for code, title in re.findall(r"^ ?\d+ refused +(\w+) +(.+)$", said, re.MULTILINE)}
    assert {title for title, code in rows.items() if code in CODES[title]} == set(CODES), said
    assert said.count("     next:") == len(CODES)


def test_a_tampering_that_is_accepted_fails_the_story(tell: Tell, scene: dict[str, Any]) -> None:
    status, said = tell(scene | {"late_days": 1}, "the certificates past their end")
    assert status == 1, said
    assert " 1 ACCEPTED" in said


def test_installation_is_a_copy(story: ModuleType, tmp_path: Path) -> None:
    site = story.install(tmp_path / "site")
    assert (site / "pytest_frt" / "impls" / story.STRUCTURE / f"{story.IMPL}.py").is_file()
    assert (site / "pytest_frt" / "catalog" / story.STRUCTURE / "structure.yaml").is_file()
    assert list(site.glob("pytest_frt-*.dist-info/entry_points.txt"))
