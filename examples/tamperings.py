"""What an attacker, an accident or time does to a release: one thing spoiled at a time, and repaired afterwards."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch
from torch import nn

from pytest_frt.certs.dsse import parse_envelope
from pytest_frt.certs.statement import PlanCertificate, parse_payload


@dataclass(frozen=True, slots=True)
class Scene:
    """What the deployer has; ``certificate_story.py`` writes it.

    Attributes:
        model: File with ``build(argument) -> (model, run)``; ``run()`` returns the tensor that is compared.
        argument: What ``build`` is called with.
        release: The publisher's kernel project with ``certificates/`` beside ``build/``.
        trust: The deployer's policy, of version 2.
        state: The deployer's memory of what was accepted.
        repo: Repo id of the kernel.
        kernel_file, impl_file, structure_file: Files that certificates bind.
        weight: Name of a tensor of a certified seat.
        phase: Row regime; empty takes any.
        now: Moment of deployment, ``YYYY-MM-DDTHH:MM:SS+00:00``; empty reads the clock.
        late_days: After so many days the certificates, and not the policy, have expired.
    """

    model: Path
    argument: str
    release: Path
    trust: Path
    state: Path
    repo: str
    kernel_file: Path
    impl_file: Path
    structure_file: Path
    weight: str
    phase: str
    now: str
    late_days: int

    @property
    def certificates(self) -> Path:
        """Where the publisher laid the certificates."""
        return self.release / "certificates"

    @property
    def moment(self) -> datetime:
        """When the deployer attaches."""
        return datetime.fromisoformat(self.now) if self.now else datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Place:
    """The scene and the live model, which tamperings may touch."""

    scene: Scene
    model: nn.Module


Options: TypeAlias = dict[str, Any]
Tampering: TypeAlias = Callable[[Place], Iterator[Options]]
TAMPERINGS: Final[dict[str, Callable[[Place], AbstractContextManager[Options]]]] = {}


def tampering(title: str) -> Callable[[Tampering], Tampering]:
    """Register a generator that spoils one thing, yields options of the call to attach, and repairs it."""

    def register(spoil: Tampering) -> Tampering:
        TAMPERINGS[title] = contextmanager(spoil)
        return spoil

    return register


@contextmanager
def rewritten(path: Path, change: Callable[[bytes], bytes]) -> Iterator[Options]:
    """Change the bytes of a file while the block runs."""
    before = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(change(before))
    try:
        yield {}
    finally:
        path.write_bytes(before)


def rewriting(title: str, file: Callable[[Scene], Path], change: Callable[[bytes], bytes]) -> None:
    """Register the tampering that changes the bytes of one file."""
    TAMPERINGS[title] = lambda place: rewritten(file(place.scene), change)


def one_byte(data: bytes, start: int = 0) -> bytes:
    """Return ``data`` with one letter exchanged for another: the first from ``start``, by default from its middle."""
    at = next(at for at in range(start or len(data) // 2, len(data)) if data[at : at + 1].isalpha())
    return data[:at] + (b"b" if data[at : at + 1] == b"a" else b"a") + data[at + 1 :]


def sets_of(scene: Scene, *, plan: bool) -> list[Path]:
    """Return the certificate files of plans, or of cells."""
    found = sorted(scene.certificates.rglob("*.frt.intoto.jsonl"))
    return [path for path in found if _is_plan(path) == plan]


def _is_plan(path: Path) -> bool:
    line = path.read_bytes().splitlines()[0]
    return isinstance(parse_payload(parse_envelope(line).payload), PlanCertificate)


def _cell(scene: Scene) -> Path:
    return sets_of(scene, plan=False)[0]


rewriting("a byte of the certificate", _cell, one_byte)


@tampering("the payloads of two valid certificates exchanged")
def _payloads(place: Place) -> Iterator[Options]:
    files = [sets_of(place.scene, plan=plan)[0] for plan in (False, True)]
    lines = [json.loads(path.read_bytes().splitlines()[0]) for path in files]
    with ExitStack() as undo:
        for path, line, other in zip(files, lines, reversed(lines), strict=True):
            changed = json.dumps(line | {"payload": other["payload"]}).encode() + b"\n"
            undo.enter_context(rewritten(path, lambda _, data=changed: data))
        yield {}


rewriting("the plan without one of its cells", _cell, lambda _: b"")
rewriting("a byte of the impl's source", lambda scene: scene.impl_file, one_byte)
rewriting(
    "a byte of structure.yaml",
    lambda scene: scene.structure_file,
    lambda text: one_byte(text, text.index(b"summary: ") + len(b"summary: ")),
)
rewriting("a byte of a kernel file", lambda scene: scene.kernel_file, one_byte)


@tampering("one more file beside the kernel")
def _extra(place: Place) -> Iterator[Options]:
    extra = place.scene.kernel_file.with_name("more.py")
    extra.write_text("GAIN = 2\n", encoding="utf-8")
    yield {}
    extra.unlink()


@tampering("bytecode beside the kernel's source")
def _bytecode(place: Place) -> Iterator[Options]:
    folder = place.scene.kernel_file.with_name("__pycache__")
    folder.mkdir()
    (folder / f"{place.scene.kernel_file.stem}.{sys.implementation.cache_tag}.pyc").write_bytes(b"\0" * 16)
    yield {}
    shutil.rmtree(folder)


@tampering("one weight, by one part in a thousand")
def _weight(place: Place) -> Iterator[Options]:
    tensor = place.model.get_parameter(place.scene.weight)
    with torch.no_grad():
        before = tensor.detach().clone()
        tensor.view(-1)[0] = tensor.view(-1)[0] * 1.001 + 1e-6
        yield {}
        tensor.copy_(before)


@tampering("another number of threads of the device")
def _device(_: Place) -> Iterator[Options]:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    yield {}
    torch.set_num_threads(before)


@tampering("another version of torch installed")
def _software(place: Place) -> Iterator[Options]:
    folder = place.scene.state.parent / "other-software"
    info = folder / "torch-0.0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 0.0.1\n", encoding="utf-8")
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    yield {}
    sys.path.remove(str(folder))
    importlib.invalidate_caches()


rewriting(
    "the key revoked by the deployer",
    lambda scene: scene.trust,
    lambda text: text.replace(b'"active"', b'"revoked"'),
)
rewriting(
    "the policy rolled back to an older version",
    lambda scene: scene.trust,
    lambda text: text.replace(b"version = 2", b"version = 1"),
)


@tampering("the certificates past their end")
def _expired(place: Place) -> Iterator[Options]:
    yield {"now": place.scene.moment + timedelta(days=place.scene.late_days)}
