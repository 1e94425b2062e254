"""The contract checks: each tries one way a host is handled while seats are attached, and names what went wrong."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable
from threading import Thread

import torch
from torch import Tensor, nn

from pytest_frt.errors import GuardRefused, SwapRefused
from pytest_frt.seat.bench import Bench, addresses, same
from pytest_frt.seat.guard import SELF_DETACH_AFTER, SeatWarning
from pytest_frt.seat.swap import attach


def detach_is_exact(bench: Bench) -> str:
    """Attach, run, detach: module identity, attributes, tensors and output are the host's."""
    before = {path: (id(module), frozenset(vars(module))) for path, module in bench.model.named_modules()}
    tensors = addresses(bench.model)
    with bench.attached():
        bench.run()
    after = {path: (id(module), frozenset(vars(module))) for path, module in bench.model.named_modules()}
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    if changed:
        return f"modules differ after detach: {', '.join(changed)}"
    if addresses(bench.model) != tensors:
        return "tensors of the state differ after detach"
    return "" if torch.equal(bench.run(), bench.expected) else "the output differs after detach"


def state_is_unchanged(bench: Bench) -> str:
    """While attached, state_dict, parameters and buffers have the host's names and are the host's tensors."""

    def names(model: nn.Module) -> list[tuple[str, int]]:
        return [(name, id(one)) for name, one in (*model.named_parameters(), *model.named_buffers())]

    tensors, wanted = addresses(bench.model), names(bench.model)
    with bench.attached():
        if list(addresses(bench.model).items()) != list(tensors.items()):
            return "state_dict differs while attached"
        return "" if names(bench.model) == wanted else "parameter or buffer names differ while attached"


def out_of_band_runs_host(bench: Bench) -> str:
    """Rows outside the band run the host bit for bit and are counted as band dispatch."""
    for replay in bench.replays:
        x = replay.rows(replay.seat.guard.form.rows[1] + 1)
        wanted = replay.play(replay.hosts, x)
        with bench.attached(only=[replay]) as attachment:
            got = replay.play(bench.members(replay), x)
            (entry,) = attachment.ledger.entries()
        if not same(got, wanted):
            return f"{entry.seat}: {x.shape[-2]} rows differ from the host"
        if (entry.served, entry.band, entry.fallbacks) != (0, 1, 0):
            return f"{entry.seat}: {x.shape[-2]} rows were counted as {entry}"
    return ""


def autocast_runs_host(bench: Bench) -> str:
    """Under autocast the host runs bit for bit, and the fallback is counted and warned of."""
    for replay in bench.replays:
        kind = replay.seat.guard.form.device.type
        with torch.autocast(kind, torch.bfloat16):
            wanted = replay.play(replay.hosts, replay.low)
        with bench.attached(only=[replay]) as attachment:
            with torch.autocast(kind, torch.bfloat16), warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                got = replay.play(bench.members(replay), replay.low)
            (entry,) = attachment.ledger.entries()
        if not same(got, wanted):
            return f"{entry.seat}: differs from the host under autocast"
        if not entry.fallbacks or not any(issubclass(one.category, SeatWarning) for one in heard):
            return f"{entry.seat}: a fallback was not counted or not warned of: {entry}"
    return ""


def training_runs_host(bench: Bench) -> str:
    """``train()`` runs the host; back in ``eval()`` the seat serves again and the host's modes are as before."""
    for replay in bench.replays:
        with bench.attached(only=[replay]) as attachment, warnings.catch_warnings():
            warnings.simplefilter("ignore", SeatWarning)
            modes = {path: module.training for path, module in bench.model.named_modules()}
            bench.model.train()
            for member in bench.members(replay):  # a host's own train() may leave frozen parts out
                member.train()
            try:
                replay.play(bench.members(replay), replay.low)
            finally:
                for path, module in bench.model.named_modules():
                    module.training = modes[path]
            (entry,) = attachment.ledger.entries()
            if entry.served:
                return f"{entry.seat}: the impl answered in training mode"
            attachment.ledger.reset()
            replay.play(bench.members(replay), replay.low)
            (entry,) = attachment.ledger.entries()
            if entry.served != 1:
                return f"{entry.seat}: does not serve after training mode: {entry}"
    return ""


def second_thread_agrees(bench: Bench) -> str:
    """A second thread that calls first gets the answer that this one gets, bit for bit."""
    for replay in bench.replays:
        with bench.attached(only=[replay]):
            members = bench.members(replay)
            got = _in_another_thread(lambda: replay.play(members, replay.low))  # noqa: B023 (called here only)
            wanted = replay.play(members, replay.low)
        if not got or not same(got, wanted):
            return f"{replay.seat.bound.facts.id}: a second thread got another answer"
    return ""


def _in_another_thread(work: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    got: list[tuple[Tensor, ...]] = []

    @torch.no_grad()  # gradient mode belongs to a thread
    def target() -> None:
        got.append(work())

    thread = Thread(target=target)
    thread.start()
    thread.join()
    return got[0] if got else ()


def copies_are_host(bench: Bench) -> str:
    """Deepcopy and pickle of a seated module give a plain host module with the host's answer."""
    for replay in bench.replays:
        wanted = replay.play(replay.hosts, replay.low)
        with bench.attached(only=[replay]):
            members = bench.members(replay)
            file = io.BytesIO()
            torch.save(members, file)
            file.seek(0)
            for twins in (copy.deepcopy(members), torch.load(file, weights_only=False)):
                if [type(one) for one in twins] != [type(one) for one in replay.hosts]:
                    return f"{replay.seat.bound.facts.id}: a copy is {[type(one).__name__ for one in twins]}"
                if not same(replay.play(twins, replay.low), wanted):
                    return f"{replay.seat.bound.facts.id}: a copy differs from the host"
    return ""


def moving_is_refused(bench: Bench) -> str:
    """``.to(dtype)`` is refused before the first tensor is converted; a conversion that changes nothing is not."""
    tensors = addresses(bench.model)
    with bench.attached() as attachment:
        other = torch.float64 if attachment.seated[0].guard.form.dtype is not torch.float64 else torch.float32
        try:
            bench.model.to(other)
        except SwapRefused:
            if addresses(bench.model) != tensors:
                return f"the refusal of .to({other}) left converted tensors behind"
        else:
            return f".to({other}) was not refused"
        bench.model.to(attachment.seated[0].guard.form.device)
    return "" if addresses(bench.model) == tensors else "moving to the same device changed tensors"


def loading_is_refused(bench: Bench) -> str:
    """``load_state_dict`` is refused before the first tensor is loaded, strict or not."""
    tensors = addresses(bench.model)
    name, tensor = next(iter(bench.model.named_parameters()))
    with bench.attached():
        for strict in (True, False):
            try:
                bench.model.load_state_dict({name: torch.zeros_like(tensor)}, strict=strict)
            except SwapRefused:
                continue
            return f"load_state_dict(strict={strict}) was not refused"
    return "" if addresses(bench.model) == tensors else f"{name} was loaded before the refusal"


def hooks_fire_once(bench: Bench) -> str:
    """Hooks from before attaching and from while attached fire once per call, whoever answers, and go when removed."""
    replay = bench.first()
    inputs = (replay.low, replay.rows(replay.seat.guard.form.rows[1] + 1))
    heard: list[str] = []
    before = replay.hosts[0].register_forward_hook(lambda *_: heard.append("before"))
    try:
        with bench.attached(only=[replay]):
            members = bench.members(replay)
            during = members[0].register_forward_pre_hook(lambda *_: heard.append("during"))
            for x in inputs:
                replay.play(members, x)
            during.remove()
            replay.play(members, replay.low)
    finally:
        before.remove()
    wanted = ["during", "before"] * len(inputs) + ["before"]
    return "" if heard == wanted else f"the hooks ran as {', '.join(heard)}; wanted {', '.join(wanted)}"


def double_attach_is_refused(bench: Bench) -> str:
    """Attaching over a seat is refused, names it, and changes nothing."""
    replay = bench.first()
    with bench.attached():
        before = [id(module) for module in bench.model.modules()]
        try:
            attach(bench.model, [replay.seat.bound])
        except SwapRefused as refusal:
            if replay.seat.bound.facts.id not in refusal.message:
                return f"the refusal does not name the seat: {refusal.message}"
        else:
            return "a second attachment over the same seat was not refused"
        return "" if [id(module) for module in bench.model.modules()] == before else "the refusal changed the model"


def detach_in_any_order(bench: Bench) -> str:
    """Two attachments detach in either order to the same host."""
    with bench.attached() as attachment:
        bound = [one.bound for one in attachment.seated]
    if len(bound) == 1:
        return ""
    before = [id(module) for module in bench.model.modules()]
    for turn in (0, 1):
        pair = [attach(bench.model, bound[:1]), attach(bench.model, bound[1:])]
        pair.pop(turn).detach()
        bench.run()
        pair.pop().detach()
        if [id(module) for module in bench.model.modules()] != before or not torch.equal(bench.run(), bench.expected):
            return f"the host differs when the {('first', 'second')[turn]} attachment is detached first"
    return ""


def strict_raises_first(bench: Bench) -> str:
    """Strict mode raises on a call outside the certified form before it counts or runs anything."""
    for replay in bench.replays:
        with bench.attached(strict=True, only=[replay]) as attachment:
            members = bench.members(replay)
            try:
                with torch.autocast(replay.seat.guard.form.device.type, torch.bfloat16):
                    replay.play(members, replay.low)
            except GuardRefused:
                (entry,) = attachment.ledger.entries()
                if entry.fallbacks or entry.served:
                    return f"{entry.seat}: the refused call was counted: {entry}"
            else:
                return f"{replay.seat.bound.facts.id}: strict mode ran a call outside the form"
    return ""


def misfits_are_given_back(bench: Bench) -> str:
    """After the declared number of fallbacks in a row the host's own modules are back at the seat."""
    for replay in bench.replays:
        with bench.attached(only=[replay]) as attachment, warnings.catch_warnings():
            warnings.simplefilter("ignore", SeatWarning)
            with torch.autocast(replay.seat.guard.form.device.type, torch.bfloat16):
                for _ in range(SELF_DETACH_AFTER):
                    replay.play(bench.members(replay), replay.low)
            (entry,) = attachment.ledger.entries()
            if not entry.restored or bench.members(replay) != replay.hosts:
                return f"{entry.seat}: not given back after {SELF_DETACH_AFTER} fallbacks: {entry}"
    return ""


def compiles_whole(bench: Bench) -> str:
    """``torch.compile(fullgraph=True)`` of a seat answers as in eager mode, and the calls in the graph are counted."""
    for replay in bench.replays:
        with bench.attached(only=[replay]) as attachment:
            members = bench.members(replay)
            wanted = replay.play(members, replay.low)
            attachment.ledger.reset()
            # The kernels run as in eager mode; what is tried is that the whole call can be traced.
            compiled = torch.compile(lambda x: replay.play(members, x), fullgraph=True, backend="aot_eager")  # noqa: B023
            got = [compiled(replay.low) for _ in range(2)][-1]
            (entry,) = attachment.ledger.entries()
        torch.compiler.reset()
        if not same(got, wanted):
            return f"{entry.seat}: the compiled call differs from the eager one"
        if (entry.served, entry.band, entry.fallbacks) != (2, 0, 0):
            return f"{entry.seat}: two compiled calls were counted as {entry}"
    return ""
