"""The deployer of the certificate story: attach in a clean process without a network, then meet one tampering each.

Usage: python examples/story_deployer.py SCENE.json [TAMPERING ...]

``certificate_story.py`` starts it with an empty environment. It prints a table; the exit status is 1 when a tampering
was accepted, changed the model, or was refused without a code, a reason and a next step.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch
from tamperings import TAMPERINGS, Options, Place, Scene
from torch import Tensor

from pytest_frt import attach
from pytest_frt.certs.codes import next_step
from pytest_frt.errors import CertificateRefused
from pytest_frt.runtime.handle import Handle
from pytest_frt.spec.modules import load_file

NETWORK: Final = ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")
NO_REFUSAL: Final = ("NOT_CERTIFIED", "NO_PLAN")
CONSEQUENCE: Final = "PLAN_MEMBER"  # a member that was refused says why
WIDTH: Final = 110


@dataclass(frozen=True, slots=True)
class Answer:
    """What a deployer reads: whether a seat runs, and if not the code, what differs, and what to do."""

    active: bool
    code: str = ""
    reason: str = ""
    action: str = ""


def call(place: Place, **options: Any) -> Handle:  # noqa: ANN401 (options of attach)
    """Attach as the deployer does, with the publisher's release and the deployer's own policy and memory."""
    scene = place.scene
    given: Options = {
        "certificates": scene.release,
        "trust": scene.trust,
        "state": scene.state,
        "kernels": {scene.repo: scene.release},
        "phase": scene.phase,
        "now": scene.moment,
    }
    return attach(place.model, **(given | options))


def answer(place: Place, **options: Any) -> Answer:  # noqa: ANN401 (options of attach)
    """Return what the deployer reads; whatever became active is detached again."""
    try:
        handle = call(place, **options)
    except CertificateRefused as refusal:
        return Answer(
            active=False,
            code=refusal.refusal_code,
            reason=refusal.message,
            action=refusal.hint or next_step(refusal.refusal_code),
        )
    active = handle.active
    handle.detach()
    told = [(one.code, one.reason, one.hint) for one in handle.seats if one.code and "refused whole" not in one.reason]
    told += [(one.code, one.reason, "") for one in handle.refused]
    for code, reason, hint in sorted(told, key=lambda one: one[0] == CONSEQUENCE):
        if code not in NO_REFUSAL:
            return Answer(active, code, reason, hint or next_step(code))
    return Answer(active)


def refuse_network() -> None:
    """Make every attempt to reach a network an error, for as long as the process lives, and show that it is one.

    Raises:
        SystemExit: an attempt was not stopped.
    """

    def listen(event: str, _: tuple[object, ...]) -> None:
        if event in NETWORK:
            raise PermissionError(f"{event} in a process that must need no network")

    sys.addaudithook(listen)
    try:
        socket.create_connection(("127.0.0.1", 9), timeout=1).close()
    except PermissionError as refusal:
        print(f"network    closed: {refusal}")
    else:
        raise SystemExit("the network is open")


def honest(place: Place, run: Callable[[], Tensor], before: Tensor) -> None:
    """Attach what was published, run it, detach, and compare.

    Raises:
        SystemExit: nothing was attached, or the host is not bit-identical after detach.
    """
    handle = call(place)
    print(textwrap.indent(handle.explain(), "  "))
    if not handle.active:
        raise SystemExit("the honest release was refused")
    difference = float((run() - before).abs().max())
    served = sum(one.served for one in handle.report())
    handle.detach()
    same = torch.equal(run(), before)
    print(f"  {served} calls answered by certified seats, outputs within {difference:.2e} of the host's")
    print(f"  after detach: bit-identical {same}")
    if not (same and served):
        raise SystemExit("the host is not what it was before attach")


def tamper(place: Place, run: Callable[[], Tensor], before: Tensor, titles: Sequence[str]) -> int:
    """Meet each tampering and print one row; return how many were not refused as they should be."""
    bad = 0
    for number, title in enumerate(titles, start=1):
        with ExitStack() as undo:
            found = answer(place, **undo.enter_context(TAMPERINGS[title](place)))
        intact = torch.equal(run(), before)
        good = not found.active and intact and all((found.code, found.reason, found.action))
        bad += not good
        print(f"{number:>2} {'refused ' if good else 'ACCEPTED'} {found.code:<16} {title}")
        for label, text in (("differs", found.reason), ("next", found.action)):
            print(textwrap.fill(text, WIDTH, initial_indent=f"     {label + ':':<9}", subsequent_indent=" " * 14))
    return bad


def read_scene(path: Path) -> Scene:
    """Return the scene of a file; its paths are absolute."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    paths = ("model", "release", "trust", "state", "kernel_file", "impl_file", "structure_file")
    return Scene(**(found | {name: Path(found[name]) for name in paths}))


def main() -> int:
    """Run the deployer's side and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", type=Path, help="what certificate_story.py wrote")
    parser.add_argument("tamperings", nargs="*", choices=[[], *TAMPERINGS], help="only these (default: all)")
    given = parser.parse_args()
    scene, titles = read_scene(given.scene), given.tamperings or list(TAMPERINGS)
    print(f"directory  {Path.cwd()}\nvariables  {', '.join(sorted(os.environ))}")
    refuse_network()
    program: ModuleType = load_file(scene.model)
    model, run = program.build(scene.argument)
    place, before = Place(scene, model), run()
    print("\nas published:")
    honest(place, run, before)
    print("\ntampered with, one thing at a time:")
    bad = tamper(place, run, before, titles)
    print("\nrepaired:")
    honest(place, run, before)
    print(f"\n{len(titles) - bad} of {len(titles)} tamperings refused")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
