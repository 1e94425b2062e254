"""Seats: where an impl may sit on a host. A closed type of three members."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModuleSeat:
    """One module of the host tree, e.g. ``model.layers.0.mlp``."""

    path: str

    @property
    def places(self) -> tuple[str, ...]:
        """Dotted module paths this seat replaces."""
        return (self.path,)


@dataclass(frozen=True, slots=True)
class RoutedSeat:
    """A function a module reaches at call time (attention, rope, recurrence)."""

    path: str
    function: str

    @property
    def places(self) -> tuple[str, ...]:
        """Dotted module paths this seat replaces."""
        return (self.path,)


@dataclass(frozen=True, slots=True)
class PairSeat:
    """One producer and the modules that consume what it computed; always seated together.

    ``qkv_pack`` is producer q with consumers k and v; a post-norm FFN split over
    two modules is producer ``intermediate`` with consumer ``output``.
    """

    producer: str
    consumers: tuple[str, ...]

    @property
    def places(self) -> tuple[str, ...]:
        """Dotted module paths this seat replaces, producer first."""
        return (self.producer, *self.consumers)


Seat = ModuleSeat | RoutedSeat | PairSeat


def seat_id(seat: Seat) -> str:
    """Return the printable, unique id of a seat, e.g. ``model.layers.0.mlp`` or ``a.q_proj+k_proj+v_proj``."""
    match seat:
        case ModuleSeat(path):
            return path
        case RoutedSeat(path, function):
            return f"{path}:{function}"
        case PairSeat(producer, consumers):
            parent = producer.rpartition(".")[0]
            short = [c.removeprefix(f"{parent}.") if parent else c for c in consumers]
            return "+".join((producer, *short))


@dataclass(frozen=True, slots=True)
class SlotRef:
    """Which host tensor fills a weight slot.

    Attributes:
        tensor: Dotted name as in ``named_parameters()``/``named_buffers()`` of the host.
        transpose: True when the host stores ``[out, in]`` and the slot's layout is ``[in, out]``.
    """

    tensor: str
    transpose: bool = False


@dataclass(frozen=True, slots=True)
class PointAt:
    """Where a calibration point is read: the first tensor argument of a module call.

    Attributes:
        module: Dotted path of the module whose input is the point.
    """

    module: str


@dataclass(frozen=True, slots=True)
class SeatFacts:
    """Everything known about one seat of one host, found by slots and run-time facts.

    Attributes:
        structure: Catalog name.
        seat: Where.
        variant: One value per variant axis of the structure, e.g. ``{"activation": "gelu_tanh"}``.
        dims: Symbol to size, e.g. ``{"D": 640, "F": 2048}``.
        slots: Slot name to host tensor; optional slots the host lacks are absent.
        constants: Scalars the reference takes, e.g. ``{"eps": 1e-6}``.
        dtype: Boundary dtype, e.g. ``float32``.
        points: Calibration point name to where it is observed.
    """

    structure: str
    seat: Seat
    variant: dict[str, str]
    dims: dict[str, int]
    slots: dict[str, SlotRef]
    constants: dict[str, float]
    dtype: str
    points: dict[str, PointAt]

    @property
    def id(self) -> str:
        """The seat's printable id."""
        return seat_id(self.seat)


@dataclass(frozen=True, slots=True)
class NotReplaced:
    """A linear or norm of the host that is in no seat, and why."""

    path: str
    kind: str
    reason: str
