"""What is raced for: a tiny certified world, hostile contents for each of its files, and processes that exchange them.

The world is the one of the tests of the runtime. Every file of code in it, good or hostile, notes in ``sys.frt_ran``
that it was executed, so that what ran is read from the content that ran and not from a path.
"""

from __future__ import annotations

import copy
import os
import random
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final

from pytest_frt.certs import keys
from pytest_frt.spec.modules import load_file

TESTS: Final = Path(__file__).resolve().parent.parent / "tests" / "runtime"
NOTE: Final = "\nimport sys as _sys\n\n_sys.__dict__.setdefault('frt_ran', []).append('{who} {what}')\n"
CODE: Final = {
    "kernel": "kernel/build/torch-cpu/inner.py",
    "kernel_top": "kernel/build/torch-cpu/__init__.py",
    "impl": "impls/toy_ffn/toy.py",
    "impl_shared": "impls/_shared/more.py",
    "host": "hosts/toy/host.py",
}
GOOD, EVIL = "good", "evil"
HOLD_S: Final = 0.004
"""Mean time that a hostile content stays: about as long as reading the file it stands in takes."""
REST_S: Final = 0.03
"""Mean time between two exchanges of one process: attaching sees none of them, or several."""


@dataclass(frozen=True, slots=True)
class Target:
    """A file that is exchanged.

    Attributes:
        path: Where it lies.
        good: Its certified content.
        evil: Hostile contents.
        mode: Mode of the certified file.
        evil_mode: Mode of the hostile ones.
    """

    path: Path
    good: bytes
    evil: tuple[bytes, ...]
    mode: int = 0o644
    evil_mode: int = 0o644


def build(root: Path, settings: Any, *, library: bool = True) -> tuple[Any, tuple[Target, ...]]:  # noqa: ANN401
    """Certify a fresh world below ``root`` and return it with what may be exchanged in it.

    Args:
        root: A folder to make the world in.
        settings: The module of the tests that makes worlds.
        library: Give the kernel a compiled module as well.
    """
    shutil.copytree(settings.FILES, root / "world", ignore=shutil.ignore_patterns("__pycache__"))
    model = load_file(root / "world" / "model.py").Model().eval().requires_grad_(requires_grad=False)
    world = settings.World(root / "world", model, copy.deepcopy(model)).rename_kernel()
    # No other world of this process has these bytes, so that nothing of them is in its memory.
    unique = f"\n# {secrets.token_hex(8)}\n"
    texts = {what: (world.root / file).read_text() + unique for what, file in CODE.items()}
    libraries = _libraries(root) if library else {}
    if libraries:
        texts["kernel"] += "\nfrom . import _native\n"
        texts["kernel"] += "\n__import__('sys').__dict__.setdefault('frt_ran', []).append(_native.mark())\n"
    sides = _Sides(world, texts, libraries, settings)
    evil, good = sides.contents(EVIL), sides.contents(GOOD)
    evil_policy = good["policy"].replace(settings.KEY.public.text.encode(), evil["key"])
    return world, tuple(_targets(world, good, evil, evil_policy))


def _libraries(root: Path) -> dict[str, bytes]:
    native = load_file(TESTS / "native.py")
    if shutil.which("gcc") is None:
        return {}
    at = root / f"_native{native.SUFFIX}"
    return {
        who: native.compiled(native.MODULE, at, "_native", f"{who} library").read_bytes() for who in (GOOD, EVIL)
    } | {"name": at.name.encode()}


@dataclass(frozen=True, slots=True)
class _Sides:
    world: Any
    texts: Mapping[str, str]
    libraries: Mapping[str, bytes]
    settings: Any

    def contents(self, who: str) -> dict[str, bytes]:
        """Write one side's files, certify them with its key, and return all contents by name."""
        world, settings = self.world, self.settings
        for what, file in CODE.items():
            (world.root / file).write_text(self.texts[what] + NOTE.format(who=who, what=what))
        if self.libraries:
            (world.kernel / self.libraries["name"].decode()).write_bytes(self.libraries[who])
        shutil.rmtree(world.out, ignore_errors=True)
        honest = settings.KEY
        settings.KEY = key = honest if who == GOOD else keys.generate()
        world.certify()
        settings.KEY = honest
        found = {what: (world.root / file).read_bytes() for what, file in CODE.items()}
        found |= {"cell": _only(world, "*toy_ffn*.jsonl"), "plan": _only(world, "plan-*.jsonl")}
        found |= {"library": self.libraries.get(who, b""), "key": key.public.text.encode()}
        return found | {"policy": world.trust().read_bytes()}


def _only(world: Any, pattern: str) -> bytes:  # noqa: ANN401
    (path,) = world.out.rglob(pattern)
    content: bytes = path.read_bytes()
    return content


def _targets(world: Any, good: dict[str, bytes], evil: dict[str, bytes], policy: bytes) -> Iterator[Target]:  # noqa: ANN401
    for what, file in CODE.items():
        yield Target(world.root / file, good[what], (evil[what], evil[what][:40]))
    for path in world.kernel.glob("_native*"):
        yield Target(path, good["library"], (evil["library"],))
    for what, pattern in (("cell", "*toy_ffn*.jsonl"), ("plan", "plan-*.jsonl")):
        (path,) = world.out.rglob(pattern)
        flipped = good[what].replace(b"A", b"B", 1)
        yield Target(path, good[what], (evil[what], flipped, good[what][:-9], good[what] + evil[what]))
    # Whoever may write to a policy decides; the runtime refuses one that others may write to, whatever it says.
    yield Target(world.root / "trust.toml", good["policy"], (policy, policy[:99]), mode=0o600, evil_mode=0o666)


def put(target: Target, content: bytes, mode: int, how: str, spare: Path) -> None:
    """Write a content: ``rename`` exchanges the file, ``rewrite`` changes it in place, ``link`` puts a link there."""
    if how == "rewrite" and target.path.is_file() and not target.path.is_symlink():
        with target.path.open("r+b") as file:
            file.write(content)
            file.truncate()
        target.path.chmod(mode)
        return
    fresh = spare / f"{os.getpid()}-{target.path.name}"
    fresh.write_bytes(content)
    fresh.chmod(mode)
    if how == "link":
        kept = spare / f"{os.getpid()}-linked"
        fresh.replace(kept)
        fresh.symlink_to(kept)
    fresh.replace(target.path)


def rewrite(targets: tuple[Target, ...], spare: Path, seed: int, stop: Event) -> None:
    """Exchange one or several files at a time for hostile ones and back, until told to stop."""
    rng = random.Random(seed)  # noqa: S311 (a schedule)
    while not stop.is_set():
        chosen = rng.sample(targets, rng.choice((1, 1, 2, len(targets))))
        for target in chosen:
            how = rng.choice(("rename", "rewrite", "rewrite", "link"))
            put(target, rng.choice(target.evil), target.evil_mode, how, spare)
        time.sleep(rng.expovariate(1 / HOLD_S))
        for target in reversed(chosen):
            put(target, target.good, target.mode, "rename" if target.path.is_symlink() else "rewrite", spare)
        time.sleep(rng.expovariate(1 / REST_S))


@contextmanager
def rewriters(targets: tuple[Target, ...], spare: Path, seed: int, count: int) -> Iterator[None]:
    """Let processes exchange files while the block runs; all files are good afterwards."""
    context = get_context("fork")
    stop = context.Event()
    work: Callable[..., None] = rewrite
    started = [context.Process(target=work, args=(targets, spare, seed + n, stop), daemon=True) for n in range(count)]
    for process in started:
        process.start()
    try:
        yield
    finally:
        stop.set()
        for process in started:
            process.join()
        for target in targets:
            put(target, target.good, target.mode, "rename", spare)


def ran() -> list[str]:
    """Return what code of the world says that it was executed in this process."""
    return list(getattr(sys, "frt_ran", []))
