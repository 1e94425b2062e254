"""A certified record against the live process: pure comparison, every difference named with both values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TypeAlias

from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.contracts.record import Record, SeatRecord
from pytest_frt.errors import CertificateRefused

ABSENT = "nothing"
CELL_FACTS = ("kind", "arch")
"""Facts that make it another device; the others tell two of one architecture, or two settings of one, apart."""


TORCH = "torch"
"""The distribution whose layers may lie below any place."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the deployer attaches for; an empty ``phase`` takes any.

    Attributes:
        form: Deployment form, e.g. ``eager``.
        phase: Row regime, e.g. ``decode``.
    """

    form: str
    phase: str = ""


@dataclass(frozen=True, slots=True)
class Odd:
    """A module at or below a place that does something else than its class's source says, or holds something else.

    Attributes:
        code: ``HOST`` where its class is another, ``SEAT`` where the instance is, ``WEIGHTS_FORM`` where a slot's
            tensor is computed.
        path: Dotted path of the module.
        why: What is odd.
    """

    code: str
    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Inner:
    """A module below a place. A certificate names the classes of the places alone.

    Attributes:
        path: Dotted path.
        label: ``module.QualName`` of its class.
        libraries: Distributions that define its class; empty for a local class.
        source: Digest of its class's source file; empty when there is none.
    """

    path: str
    label: str
    libraries: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class LiveSeat:
    """What lies at a certified seat in the live model.

    Attributes:
        classes: ``module.QualName`` of the module at each place that exists.
        device: Device kind of its slot tensors; empty when a tensor is missing.
        missing: Places and tensors that the model does not have.
        seated: Id of the seat that is attached there already; empty when none is.
        slots: Each slot with its tensor's name, dtype and shape, as people read it.
        odd: What is not as the classes' sources say, and tensors in no slot.
        inner: The modules below the places.
    """

    classes: tuple[str, ...]
    device: str
    missing: tuple[str, ...] = ()
    seated: str = ""
    slots: tuple[str, ...] = ()
    odd: tuple[Odd, ...] = ()
    inner: tuple[Inner, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveFacts:
    """The live process. The mappings may compute an answer when it is asked for; hashing weights comes last.

    Attributes:
        device: The present machine.
        software: Distribution name to installed version; absent ones are missing.
        distributions: ``<name>-<version>`` to the digest of its RECORD file.
        host_class: ``module.QualName`` of the model.
        library: Distribution and version that define the model's class.
        sources: ``module.QualName`` of a module class to the digest of its source file.
        seats: Seat id to what lies there.
        weights: Seat id to the digest of its slot tensors in memory.
    """

    device: DeviceFacts
    software: Mapping[str, str]
    distributions: Mapping[str, str]
    host_class: str
    library: Mapping[str, str]
    sources: Mapping[str, str]
    seats: Mapping[str, LiveSeat]
    weights: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Accept:
    """The record holds for this process."""


@dataclass(frozen=True, slots=True)
class Reject:
    """The record does not hold here.

    Attributes:
        code: Stable refusal code.
        message: What differs, with both values.
        seat: Seat id, when one seat differs.
        hint: The next step; empty when there is none.
    """

    code: str
    message: str
    seat: str = ""
    hint: str = ""


Match: TypeAlias = Accept | Reject


def match(record: Record, live: LiveFacts, wish: Wish) -> Match:
    """Compare a record with the live process; the first difference rejects.

    The order is form, device, software, host, seats: what is cheap to ask comes first, weights are hashed only for a
    record that fits otherwise. The host's configuration is compared by :func:`match_config`, since asking for it runs
    certified code.
    """
    return next(_differences(record, live, wish), Accept())


def match_config(record: Record, config_digest: str) -> Match:
    """Compare the digest of the host's configuration projection."""
    if record.host.config_digest == config_digest:
        return Accept()
    message = f"host configuration is certified with digest {record.host.config_digest}, this model has {config_digest}"
    return Reject("HOST", message, hint="load the checkpoint and settings that were certified")


def _differences(record: Record, live: LiveFacts, wish: Wish) -> Iterator[Reject]:
    yield from _form(record, wish)
    yield from _device(record.device, live.device)
    yield from _software(record, live)
    yield from _host(record, live)
    for seat in record.seats:
        yield from _seat(record, seat, live)


def _form(record: Record, wish: Wish) -> Iterator[Reject]:
    for what, certified, wanted in (("form", record.key.form, wish.form), ("phase", record.key.phase, wish.phase)):
        if wanted and certified != wanted:
            yield Reject("FORM", f"certified for the {certified} {what}, attached for {wanted}")


def _device(certified: DeviceFacts, live: DeviceFacts) -> Iterator[Reject]:
    for field in fields(DeviceFacts):
        want, have = getattr(certified, field.name), getattr(live, field.name)
        if want != have:
            hint = f"torch.set_num_threads({want})" if field.name == "threads" else ""
            message = f"device {field.name} is certified as {_said(want)}, here it is {_said(have)}"
            yield Reject("CELL_DEVICE" if field.name in CELL_FACTS else "DEVICE", message, hint=hint)


def _software(record: Record, live: LiveFacts) -> Iterator[Reject]:
    for name, version in sorted(record.software.items()):
        have = live.software.get(name, ABSENT)
        if have != version:
            yield Reject("SOFTWARE", f"{name} is certified as {version}, installed is {have}")
    for subject in record.subjects:
        role, _, name = subject.name.partition("/")
        if role == "dist" and live.distributions.get(name) != subject.sha256:
            have = live.distributions.get(name, ABSENT)
            yield Reject("SOFTWARE", f"RECORD of {name} is certified as {subject.sha256}, installed is {have}")


def _host(record: Record, live: LiveFacts) -> Iterator[Reject]:
    host = record.host
    if host.host_class != live.host_class:
        yield Reject("CELL_HOST", f"certified for the host class {host.host_class}, this model is {live.host_class}")
    for name, version in sorted(host.library.items()):
        have = live.library.get(name, ABSENT)
        if have != version:
            yield Reject("HOST", f"{name}, which defines the model, is certified as {version}, here it is {have}")


def _seat(record: Record, seat: SeatRecord, live: LiveFacts) -> Iterator[Reject]:
    found, name = live.seats[seat.facts.id], seat.facts.id
    if found.seated:
        yield Reject("SEATED", f"seat {found.seated} is attached already", name, "detach it first")
    if found.missing:
        yield Reject("SEAT", f"the model has no {', '.join(found.missing)}", name)
    for label in found.classes:
        want, have = record.host.module_source.get(label, ABSENT), live.sources.get(label, ABSENT)
        if want != have or have == ABSENT:
            yield Reject("HOST", f"source of {label} is certified as {want}, here it is {have}", name)
    yield from _modules(record, found, name)
    if found.device != record.device.kind:
        yield Reject("DEVICE", f"its tensors are on {found.device or ABSENT}, certified is {record.device.kind}", name)
    if seat.facts.dtype != record.dtype:
        yield Reject("DTYPE", f"its boundary is {seat.facts.dtype}, the record's is {record.dtype}", name)
    try:
        weights = live.weights.get(name, ABSENT)
    except CertificateRefused as refusal:  # a tensor that cannot be hashed
        yield Reject(refusal.refusal_code, refusal.message, name, refusal.hint)
        return
    if weights != seat.weights_digest:
        message = f"weights are certified with digest {seat.weights_digest}, in memory they have {weights}"
        held = f" ({'; '.join(found.slots)})" if found.slots else ""
        yield Reject("WEIGHTS", message + held, name, "load the checkpoint that was certified, as it was cast")


def _modules(record: Record, found: LiveSeat, seat: str) -> Iterator[Reject]:
    for odd in found.odd:
        yield Reject(odd.code, f"{odd.path}: {odd.why}", seat, "load the model anew, and attach before it is changed")
    bound = {TORCH, *record.host.library, *record.software}
    for inner in found.inner:
        if bound.isdisjoint(inner.libraries) and inner.source not in record.host.module_source.values():
            message = (
                f"{inner.path} is a {inner.label}, a class of neither {', '.join(sorted(bound))} nor a bound source"
            )
            yield Reject("HOST", message, seat, "define it in the file of the module that the seat replaces")


def _said(value: object) -> str:
    return ", ".join(map(str, value)) or ABSENT if isinstance(value, tuple) else str(value) or ABSENT
