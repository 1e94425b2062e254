"""Run by test_audit.py in a process of its own: attach and verify under an audit hook, and print what was heard.

A hook cannot be removed, so one process goes through all scenarios; each gets a world whose files and kernel id nothing
in this process has seen, so that no memory of an earlier one hides what runs.
"""

from __future__ import annotations

import copy
import ctypes
import io
import json
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_frt import cli
from pytest_frt.registry import Registry
from pytest_frt.runtime import attach as attaching
from pytest_frt.runtime import prepare, sources
from pytest_frt.runtime.imports import PRIVATE_PREFIX, execute
from pytest_frt.spec.modules import load_file

HERE = Path(__file__).parent
SETTINGS = load_file(HERE / "conftest.py")
REFUSALS = load_file(HERE / "test_attach_refusals.py")
HAZARDS = load_file(HERE / "test_hazards.py")
LOADING = ("ctypes.dlopen", "socket.", "subprocess.", "os.exec", "os.posix_spawn", "os.system", "os.fork")
HEARD: list[str] = []


class Ear:
    """Notes code executed from some folders, imports of some names, libraries, sockets and processes.

    Compiling is not noted: the registry reads what an entry states from its syntax tree, and executes none of it.
    """

    def __init__(self) -> None:
        self.on = False
        self.root = ""

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if self.on and (said := self.hear(event, args)):
            HEARD.append(said)

    def hear(self, event: str, args: tuple[Any, ...]) -> str:
        """Return what an event says when it is one that must not happen."""
        if event.startswith(LOADING):
            return f"{event} {args!r:.100}"
        if event == "exec":
            file = args[0].co_filename
            return f"exec {file}" if file.startswith(self.root) or "frt-verified-" in file else ""
        if event == "import":
            library = args[1] is not None
            ours = args[0].startswith(("toy_world_", PRIVATE_PREFIX))
            return f"import {args[0]}" if library or ours else ""
        return ""


EAR = Ear()


@contextmanager
def listening(root: Path) -> Iterator[list[str]]:
    HEARD.clear()
    EAR.root, EAR.on = str(root), True
    try:
        yield HEARD
    finally:
        EAR.on = False


def fresh_world(folder: Path) -> Any:
    """Return a world of files that nothing has executed yet."""
    root = SETTINGS.shutil.copytree(SETTINGS.FILES, folder / "world", ignore=lambda *_: ["__pycache__"])
    model = load_file(root / "model.py").Model().eval().requires_grad_(requires_grad=False)
    world = SETTINGS.World(root, model, copy.deepcopy(model))
    for file in ("hosts/toy/host.py", "impls/toy_ffn/toy.py", "kernel/build/torch-cpu/inner.py"):
        path = root / file
        path.write_text(f"{path.read_text()}\n# {secrets.token_hex(8)}\n")
    Registry.load = classmethod(lambda _cls: world.registry)  # type: ignore[method-assign,assignment]
    return world.rename_kernel()


RULE = '[[rule]]\nissuer = "acme"\nsigners = [{}]'
KEY = (
    '[[key]]\nowner = "bob"\npublic = "{}"\nfrom = "2026-01-01T00:00:00Z"\nuntil = "2027-06-01T00:00:00Z"\n'
    'status = "active"\n'
)
BOB, TWICE = KEY.format(SETTINGS.keys.generate().public.text), KEY.format(SETTINGS.KEY.public.text)
POLICIES: dict[str, tuple[str, str, str]] = {
    "policy_expired": ('expires = "2027-03-01T00:00:00Z"', 'expires = "2026-11-25T00:00:00Z"', "POLICY_EXPIRED"),
    "unknown_key": (SETTINGS.KEY.public.text, SETTINGS.keys.generate().public.text, "SIG_NONE"),
    "revoked_key": ('status = "active"', 'status = "revoked"', "SIG_REVOKED"),
    "key_window": ('from = "2026-01-01T00:00:00Z"', 'from = "2026-11-30T00:00:00Z"', "KEY_WINDOW"),
    "structure_without_rule": ('structures = ["*"]', 'structures = ["other@1"]', "NO_RULE"),
    "threshold_without_owners": ('signers = ["alice"]', 'signers = ["alice"]\nthreshold = 2', "POLICY_SCHEMA"),
    "threshold": (RULE.format('"alice"'), BOB + RULE.format('"alice", "bob"') + "\nthreshold = 2", "THRESHOLD"),
    "key_of_two_owners": (RULE.format('"alice"'), TWICE + RULE.format('"alice"'), "POLICY_DUPKEY"),
    "software_missing": ('software = ["torch"]', 'software = ["torch", "triton"]', "SOFTWARE_MISSING"),
    "serial_below": ('schemes = ["*"]', 'schemes = ["*"]\nmin_serial = 2', "SERIAL_MIN"),
}
TERMS: dict[str, tuple[dict[str, Any], str]] = {
    "expired": ({"expires_at": SETTINGS.NOW - timedelta(days=1)}, "EXPIRED"),
    "not_yet": ({"issued_at": SETTINGS.NOW + timedelta(days=5)}, "NOT_YET"),
    "life_of_ten_years": ({"expires_at": SETTINGS.NOW + timedelta(days=3650)}, "LIFETIME"),
}
CLAIMS: dict[str, tuple[dict[str, Any], str]] = {
    "software": ({"software": {"torch": "0.0"}}, "SOFTWARE"),
    "impl_version": ({"impl_version": 4}, "CELL_IMPL"),
    "structure_version": ({"structure_version": 2}, "CELL_STRUCTURE"),
}


def nothing(_world: Any) -> None:
    """Leave the world as it is."""


def denied_tree(world: Any) -> tuple[str, str]:
    digest = world.record().kernel.tree_digest
    key = '[[key]]\nowner = "alice"'
    return key, f'[[deny]]\ntree = "{digest}"\nreason = "bad"\n{key}'


@dataclass(frozen=True)
class Scenario:
    """One way to be refused.

    Attributes:
        name: What is wrong.
        code: Expected refusal code; empty where several are right.
        before: What happens to the world before it is certified.
        after: What happens to it afterwards.
        change: Returns what is replaced in the policy, and by what.
        options: Of attach.
    """

    name: str
    code: str
    before: Callable[[Any], object] = nothing
    after: Callable[[Any], object] = nothing
    change: Callable[[Any], tuple[str, str] | None] = nothing  # type: ignore[assignment]
    options: Mapping[str, Any] = field(default_factory=dict)


def scenarios() -> Iterator[Scenario]:
    for name, (old, new, code) in POLICIES.items():
        yield Scenario(name, code, change=lambda _, pair=(old, new): pair)
    for name, (terms, code) in TERMS.items():
        yield Scenario(name, code, before=lambda world, terms=terms: world.terms.update(terms))
    for name, (claims, code) in CLAIMS.items():
        yield Scenario(name, code, before=lambda world, claims=claims: world.claims.update(claims))
    yield Scenario("form", "FORM", options={"form": "compiled"})
    yield Scenario("certificate_byte", "", after=REFUSALS.other_certificate)
    yield Scenario("denied_tree", "DENIED", change=denied_tree)
    for name, (spoil, code, _) in REFUSALS.DISK.items():
        yield Scenario(name, code, after=spoil)
    for name, (plant, code, _) in HAZARDS.HAZARDS.items():
        if "unverified" not in name and "two builds" not in name:  # those execute the kernel beforehand, on purpose
            yield Scenario(name, code, before=plant)


def codes_of(call: Any) -> list[str]:
    try:
        handle = call()
    except SETTINGS.statement.CertificateRefused as refusal:
        return [refusal.refusal_code]
    assert not handle.active
    return sorted({one.code for one in (*handle.seats, *handle.refused)} - {"NOT_CERTIFIED"})


def verified(world: Any) -> int:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return cli.main(["verify", str(world.out), "--trust", str(world.trust()), "--at", "2026-12-01T00:00:00Z"])


def refuse(one: Scenario) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        Path(folder).chmod(0o755)
        for variable in (HAZARDS.TRITON, HAZARDS.EXTENSIONS, HAZARDS.INDUCTOR):
            os.environ[variable] = f"{folder}/jit/{variable.lower()}"
        os.environ.pop("LOCAL_KERNELS", None)
        world = fresh_world(Path(folder))
        one.before(world)
        world.certify()
        one.after(world)
        changes = () if (change := one.change(world)) is None else (change,)
        with listening(world.root) as heard:
            codes = codes_of(lambda: world.attach(*changes, state=False, **one.options))
            attached = list(heard)
        with listening(world.root) as heard:
            verified(world)
        return {"name": one.name, "expected": one.code, "codes": codes, "attach": attached, "verify": list(heard)}


def accept() -> dict[str, Any]:
    """Attach for real, and mark the moments of acceptance among what is heard."""
    honest, copies = attaching.verdict_on, prepare.copy_all

    def marked_verify(*args: Any, **options: Any) -> Any:
        outcomes = honest(*args, **options)
        HEARD.append("VERIFIED")
        return outcomes

    def marked_copies(*args: Any) -> Any:
        HEARD.append("COPYING")
        found = copies(*args)
        HEARD.append("COPIED")
        return found

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        world = fresh_world(Path(folder)).certify()
        with listening(world.root) as heard:
            assert verified(world) == 0
            audited = list(heard)
        patch.setattr(attaching, "verdict_on", marked_verify)
        patch.setattr(prepare, "copy_all", marked_copies)
        with listening(world.root) as heard:
            assert world.attach(state=False).active
            return {"attach": list(heard), "verify": audited}


def sabotage() -> dict[str, list[str]]:
    """Return what is heard when a runtime does what it must not: the ear is not deaf."""
    honest = prepare.match

    def execute_first(record: Any, live: Any, wish: Any) -> Any:
        execute(sources.impl_copy(record, sources.Places(Registry.load(), {}, ())))
        return honest(record, live, wish)

    def load_first(*args: Any) -> Any:
        ctypes.CDLL(None)
        socket.socket().close()
        return honest(*args)

    heard = {}
    for name, early in (("executes", execute_first), ("loads", load_first)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(prepare, "match", early)
            heard[name] = refuse(Scenario("form", "FORM", options={"form": "compiled"}))["attach"]
    return heard


def main() -> None:
    sys.addaudithook(EAR)
    warm = accept()  # what our own code and its dependencies import late is imported now
    report = {"warm": warm, "accepted": accept(), "refused": [refuse(one) for one in scenarios()]}
    report["sabotage"] = sabotage()
    print(json.dumps(report))  # noqa: T201


if __name__ == "__main__":
    main()
