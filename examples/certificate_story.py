"""The story of a certificate, end to end: certify, publish, carry elsewhere, verify, attach, and refuse tamperings.

Usage: python examples/certificate_story.py [--from DIR] [--work DIR]

A publisher certifies a cell of Gemma-3-270M on this machine's CPU (two to three minutes; ``--from`` takes the folder
that an earlier ``make demo`` left) and lays the certificates beside the kernel that was certified. A deployer, in
another directory, with an installation of its own, an empty environment and no network, trusts the publisher's public
key, attaches, runs, detaches, and then meets a list of tamperings, each of which must be refused and explained.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

import demo

import pytest_frt
from pytest_frt.spec.packages import package_folder

STRUCTURE, IMPL, KERNEL, REPO = "linear_proj", "torch_packed", "frt_cpu", "pytest-frt/frt-cpu"
KEY: Final = "eager.decode"
WEIGHT: Final = "model.layers.0.self_attn.o_proj.weight"
LATE_DAYS: Final = 200  # certificates live 180 days, a first policy a year
MAPPED: Final = ("catalog", "impls", "hosts", "csrc")
UNWANTED: Final = shutil.ignore_patterns("__pycache__", ".*_cache", "*.pyc")
HERE: Final = Path(__file__).resolve().parent


def install(site: Path) -> Path:
    """Lay the installed package out below ``site`` as a wheel would, so that nobody else's copy is tampered with."""
    shutil.copytree(Path(pytest_frt.__file__).parent, site / "pytest_frt", ignore=UNWANTED)
    for name in MAPPED:
        target = site / "pytest_frt" / name
        if not target.exists():
            shutil.copytree(package_folder(f"pytest_frt.{name}"), target, ignore=UNWANTED)
    found = metadata.distribution("pytest-frt")
    info = site / f"pytest_frt-{found.version}.dist-info"
    info.mkdir()
    # A checkout that was built has the metadata of an egg beside its packages. As text: a description that is parsed
    # and written anew is no valid header in every Python.
    texts = {"METADATA": ("METADATA", "PKG-INFO"), "entry_points.txt": ("entry_points.txt",)}
    for name, sources in texts.items():
        text = next(filter(None, map(found.read_text, sources)), "")
        (info / name).write_text(text, encoding="utf-8")
    return site


def certify(work: Path) -> None:
    """Make a key and a policy, and certify one cell by all gates."""
    frt, pytest = (Path(sys.executable).with_name(name) for name in ("frt", "pytest"))
    if not (work / "frt-key.pem").exists():
        demo.run(frt, "keygen", work / "frt-key.pem")
    options = (f"--frt-out={work / 'frt-certs'}", f"--frt-sign-key={work / 'frt-key.pem'}", "--frt-no-comparison")
    demo.run(pytest, "-q", f"--frt-host={demo.HOST}", *(f"--frt-record={one}" for one in demo.MAIN), *options)


def publish(certified: Path, release: Path) -> None:
    """Lay the certificates beside a copy of the kernel project, the way a Hub repo holds them."""
    shutil.copytree(package_folder("pytest_frt.csrc") / KERNEL, release, ignore=UNWANTED)
    wanted = (f"{STRUCTURE}-{IMPL}-*@{KEY}.*", f"plan-*@{KEY}.*")  # an earlier run may have certified more
    found = (path for glob in wanted for path in sorted((certified / "frt-certs").rglob(glob)))
    chosen = [part for path in found if path.suffix == ".jsonl" for part in ("--certificates", path)]
    demo.run(Path(sys.executable).with_name("frt"), "publish", release, *chosen)


def trust(public: Path, policy: Path) -> None:
    """Write the deployer's policy; it is of the second version, so that an older one can be put in its place."""
    demo.run(Path(sys.executable).with_name("frt"), "trust", "init", "--key", public, "-o", policy)
    text = policy.read_text(encoding="utf-8")
    policy.write_text(text.replace("version = 1 ", "version = 2 ", 1), encoding="utf-8")


def scene_of(folder: Path, site: Path, checkpoint: Path) -> dict[str, str | int]:
    """Return what the deployer has, as ``tamperings.Scene`` reads it."""
    entries = site / "pytest_frt"
    paths = {
        "model": HERE / "story_gemma.py",
        "release": folder / "release",
        "trust": folder / "frt-trust.toml",
        "state": folder / "memory" / "state.json",
        "kernel_file": folder / "release" / "build" / "torch-cpu" / "linear.py",
        "impl_file": entries / "impls" / STRUCTURE / f"{IMPL}.py",
        "structure_file": entries / "catalog" / STRUCTURE / "structure.yaml",
    }
    texts = {"argument": str(checkpoint), "repo": REPO, "weight": WEIGHT, "phase": "decode", "now": ""}
    return {name: str(path.resolve()) for name, path in paths.items()} | texts | {"late_days": LATE_DAYS}


def deploy(folder: Path, site: Path, scene: Mapping[str, str | int], *tamperings: str) -> int:
    """Run the deployer in ``folder`` with an empty environment; return its exit status.

    Args:
        folder: The deployer's working directory and home.
        site: Its installation.
        scene: What it has.
        tamperings: Which it meets; without any, all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "scene.json"
    file.write_text(json.dumps(scene, indent=1), encoding="utf-8")
    environment = {
        "PATH": os.defpath,
        "HOME": str(folder),
        "PYTHONPATH": str(site),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
    }
    command = [sys.executable, str(HERE / "story_deployer.py"), str(file), *tamperings]
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


def main() -> int:
    """Tell the story and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", type=Path, help="folder of an earlier `make demo`, e.g. frt-demo")
    parser.add_argument("--work", type=Path, default=Path("frt-story"), help="folder that is made for the story")
    given = parser.parse_args()
    publisher, deployer = given.work.resolve() / "publisher", given.work.resolve() / "deployer"
    publisher.mkdir(parents=True)
    demo.say("publisher: certify")
    checkpoint = demo.prepared_checkpoint()
    certified: Path = (given.source or publisher).resolve()
    if given.source is None:
        certify(certified)
    demo.say("publisher: publish the kernel with its certificates")
    publish(certified, publisher / "release")
    demo.say("deployer: another directory, an installation of its own, the release, and the publisher's public key")
    site = install(deployer / "site")
    shutil.copytree(publisher / "release", deployer / "release")
    shutil.copy(certified / "frt-key.pub", deployer / "publisher.pub")
    trust(deployer / "publisher.pub", deployer / "frt-trust.toml")
    demo.say("deployer: attach, and refuse")
    return deploy(deployer, site, scene_of(deployer, site, checkpoint))


if __name__ == "__main__":
    sys.exit(main())
