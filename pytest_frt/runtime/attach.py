"""Attach: a lookup. Verify, match, verify bytes while copying, bind, smoke, then swap all seats or none.

It holds no timer and no tolerance, opens no socket, and executes nothing a certificate names before that certificate
was accepted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from torch import nn

from pytest_frt.certs import policy as trust_file
from pytest_frt.certs.policy import Policy
from pytest_frt.certs.verify import Outcome, Refused, verdict_on
from pytest_frt.registry import Registry
from pytest_frt.runtime import asked
from pytest_frt.runtime.choose import PLAN, Chosen, sets_of
from pytest_frt.runtime.facts import LiveProcess
from pytest_frt.runtime.handle import FileDecision, Handle
from pytest_frt.runtime.lookup import seek
from pytest_frt.runtime.match import Wish
from pytest_frt.runtime.memory import Kept, StateChoice, state_place
from pytest_frt.runtime.prepare import Scene
from pytest_frt.runtime.sources import Places
from pytest_frt.seat import swap
from pytest_frt.seat.alone import alone


@dataclass(frozen=True, slots=True)
class _Request:
    """What ``attach`` was asked for; see there."""

    model: nn.Module
    certificates: str | Path | Sequence[str | Path]
    trust: str | Path | Policy
    strict: bool
    allow_warn: bool
    now: datetime | None
    form: str
    phase: str
    kernels: Mapping[str, str | Path]
    host: str | Path | None
    state: StateChoice


def attach(  # noqa: PLR0913 (a name and a default for each)
    model: nn.Module,
    *,
    certificates: str | Path | Sequence[str | Path],
    trust: str | Path | Policy,
    strict: bool = False,
    allow_warn: bool = False,
    now: datetime | None = None,
    form: str = "eager",
    phase: str = "",
    kernels: Mapping[str, str | Path] | None = None,
    host: str | Path | None = None,
    state: StateChoice = None,
) -> Handle:
    """Activate on ``model`` exactly what its certificates prove, and nothing else.

    What is refused leaves the host's own module in place, and ``handle.explain()`` says why. Threads attach one after
    the other.

    Args:
        model: The host, loaded and in evaluation mode.
        certificates: Files, directories, projects or kernel repos, ``owner/name@revision`` of a release in the kernel
            client's cache, or ``dist:NAME`` of an installed distribution; calibration artefacts lie beside them.
        trust: Trust policy (``frt trust init`` writes one), or one loaded before.
        strict: Calls outside the certified form raise ``GuardRefused`` instead of running the host.
        allow_warn: Also accept gates that reached only their warning band.
        now: The present moment; None reads the clock.
        form: Deployment form (``eager``, ``compiled`` or ``captured``): certificates of other forms are refused.
        phase: Row regime; empty takes any.
        kernels: Kernel repo id to a local build, for kernels that are not part of this distribution and do not lie
            beside their certificates.
        host: Folder of a host entry that is not installed.
        state: File that remembers what was activated, so that older policies, indexes and certificates are refused.
            None keeps one per policy file below ``$XDG_STATE_HOME/pytest-frt`` (``~/.local/state``), and none for a
            policy that is no file. False neither reads nor writes one.

    Returns:
        The handle; inactive when nothing was accepted.

    Raises:
        CertificateRefused: the trust policy or the state file cannot be used, or was overtaken by another process.
        UsageFault: a path is missing, unreadable or none; ``form`` is not known; ``now`` has no time zone.
        KernelMismatch: a link of a cached release leads out of it.
        TreeInvalid: a cached release has a file with a name that is not plain.
        StorageFault: the state file, or a copy of a cached release, cannot be written; nothing was activated.
        SwapRefused: a seat is taken, in training mode or compiled in place; the model is as it was.
    """
    given = {} if kernels is None else kernels
    request = _Request(model, certificates, trust, strict, allow_warn, now, form, phase, given, host, state)
    with alone():  # while certified code is imported, the table of modules is not what others expect
        return _attach(request)


def _attach(request: _Request) -> Handle:
    trust, host = request.trust, request.host
    asked.check_form(request.form)
    asked.check_paths(request.certificates, trust, host, request.state, *request.kernels.values())
    moment = asked.moment(request.now)
    policy = trust if isinstance(trust, Policy) else trust_file.load(trust)
    policy = replace(policy, allow_warn=policy.allow_warn or request.allow_warn)
    sought = seek(request.certificates, os.environ)
    kept = Kept(state_place(request.state, trust), policy, moment)
    verdict = verdict_on(sought.paths, policy, kept.moment, state=kept.read())
    kept.commit(verdict)
    outcomes = verdict.outcomes
    registry = Registry.load() if host is None else Registry.load().with_host(host)
    builds = sought.builds(outcomes, {repo: Path(path) for repo, path in request.kernels.items()})
    model = request.model
    root = getattr(model, "_orig_mod", model)  # torch.compile wraps the model; seats go into what it wraps
    places, wish = Places(registry, builds, sought.paths), Wish(request.form, request.phase)
    scene, chosen = Scene(root, LiveProcess(root), places, wish), Chosen(single=policy.composition == PLAN)
    for one in sets_of(outcomes, policy):
        chosen.consider(one, scene)
    kept.commit(verdict, chosen.among(outcomes))
    attachment = swap.attach(root, chosen.bound, strict=request.strict) if chosen.bound else None
    return Handle(attachment, chosen.seats, _unread(outcomes), chosen.plan, sought.labels)


def _unread(outcomes: Iterable[Outcome]) -> Iterator[FileDecision]:
    """Yield what never reached a seat: refused lines, and cells that no accepted plan names."""
    for one in outcomes:
        if isinstance(one, Refused):
            yield FileDecision(one.source, one.title, one.code, one.message)
        elif not one.activates:
            reason = "the policy activates plans, and no accepted plan names this cell"
            yield FileDecision(one.source, one.certificate.title, "NO_PLAN", reason)
