"""A release of a tiny host for the tutorials, signed with the key that the reader has just made."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pytest_frt.certs import keys
from pytest_frt.spec.modules import load_file
from tests.installed import install_world

TESTS = Path(__file__).parents[1]
MODEL = """
import torch
from pathlib import Path
from pytest_frt.spec.modules import load_file

torch.manual_seed(0)
model = load_file(Path("world/model.py").resolve()).Model().eval().requires_grad_(requires_grad=False)
run = lambda: model(torch.ones(4, 8))
"""


@dataclass
class Reader:
    """Somebody who types what a page says.

    Attributes:
        folder: Working directory.
    """

    folder: Path

    def types(self, command: str) -> tuple[int, str]:
        """Run a shell command or a Python block; return its exit status and what it printed."""
        folders = (str(Path(sys.executable).parent), os.environ["PATH"])
        done = subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=self.folder,
            env={
                "PATH": os.pathsep.join(folders),
                "HOME": str(self.folder),
                "PYTHONPATH": str(self.folder / "site"),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def python(self, *blocks: str) -> tuple[int, str]:
        """Run the Python blocks of a page, one after the other, in one process with a model."""
        (self.folder / "blocks.py").write_text("\n".join([MODEL, *blocks]))
        return self.types("python blocks.py")

    def certify(self, key: Path) -> None:
        """Sign certificates of the tiny host, as a run of pytest would leave them in frt-certs/."""
        worlds = load_file(TESTS / "runtime" / "conftest.py")
        model = load_file(self.folder / "world" / "model.py")
        import torch

        torch.manual_seed(0)
        host = model.Model().eval().requires_grad_(requires_grad=False)
        world = worlds.World(self.folder / "world", host, copy.deepcopy(host))
        now = datetime.now(UTC).replace(microsecond=0)
        world.terms |= {"issued_at": now - timedelta(hours=1), "expires_at": now + timedelta(days=90)}
        with pytest.MonkeyPatch.context() as patch:  # the module is one for all tests of a process
            patch.setattr(worlds, "KEY", keys.load_private(key))
            world.certify()
        shutil.copytree(world.out, self.folder / "frt-certs")


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    shutil.copytree(TESTS / "runtime" / "world", tmp_path / "world", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(tmp_path / "world" / "kernel", tmp_path / "my-kernel")
    install_world(tmp_path / "world", tmp_path / "site")
    return Reader(tmp_path)
