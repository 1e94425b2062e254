"""Structures as data: boundary, slots, variants, limits. Read from structure.yaml, never from code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PER_CALL: Final = "1"
"""First axis of a boundary tensor that belongs to a whole call."""


class Join(StrEnum):
    """How the places of a pair belong together.

    Attributes:
        FANOUT: Each place reads the one input and returns its own output.
        RELAY: Each returns its own output, and consumers read what the producer returned.
        CHAIN: The producer returns the result, the consumer hands it on.
    """

    FANOUT = "fanout"
    RELAY = "relay"
    CHAIN = "chain"

    @classmethod
    def of(cls, outputs: int, *, relays: bool) -> Join:
        """Return the join of a pair with so many outputs, of which the first is relayed or not."""
        return cls.RELAY if relays else cls.FANOUT if outputs > 1 else cls.CHAIN


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A boundary tensor: symbolic shape such as ``("M", "D")``; optional ones may be absent.

    Attributes:
        name: Keyword of the reference (inputs).
        shape: The first axis is ``M`` for a tensor with a row per row of the first input, and ``1`` for one that
            belongs to the whole call.
        where: Variant axis to the value under which the tensor exists; empty for always (outputs).
        relayed: True for what the producer of a pair returns and its consumers read (the first output).
    """

    name: str
    shape: tuple[str, ...]
    where: dict[str, str] | None = None
    relayed: bool = False

    def exists(self, variant: Mapping[str, str]) -> bool:
        """Return whether a seat of this variant has the tensor."""
        return all(variant[axis] == value for axis, value in (self.where or {}).items())

    @property
    def per_call(self) -> bool:
        """True when the tensor belongs to the whole call."""
        return self.shape[0] == PER_CALL


@dataclass(frozen=True, slots=True)
class SlotSpec:
    """A weight slot of the structure.

    Attributes:
        name: Keyword of the reference, e.g. ``w_gate``.
        shape: Symbolic shape in the reference's layout.
        role: ``matmul``, ``norm`` or ``bias``; schemes quantise ``matmul`` only.
        out_axis: Axis of the output channels (matmul only).
        optional: True when a host may lack it.
    """

    name: str
    shape: tuple[str, ...]
    role: str
    out_axis: int = -1
    optional: bool = False


@dataclass(frozen=True, slots=True)
class SeamRule:
    """How a seat of this structure is recognised on a host (slots and shapes, never class names).

    Attributes:
        name: Id of the rule inside its structure.
        kind: ``module`` or ``pair``.
        places: Child paths relative to the parent module; ``("",)`` is the module itself. A pair's
            first is the producer.
        slots: Slot name to ``child.tensor`` relative to the parent module.
        transpose: Slots stored ``[out, in]`` by the host.
        absent: Tensors that must not exist (e.g. ``gate_proj.bias``): their presence is a refusal.
        apart: Weights of layers that read something else: each must be there and take another input width than the
            rule's own layers, as the query of cross-attention does beside key and value (linear layers only).
        activation: Child attribute that holds the activation, identified by differential test; empty when none.
        variant: Variant values that this rule fixes.
        points: Point name to the child whose input is the point; ``""`` is the module itself.
        constants: Scalar name to ``child.attribute`` (or ``=number``).
        sizes: Symbol to what it is by sizes that the slots give, e.g. ``{"D": "S/3"}``.
        join: How the places of a pair belong together; None for a module.
        min_elements: Smallest count of matmul weight elements worth a seat.
        remaining: True when the rule takes only modules that no seat of another rule covers.
        shares: Pairs only. True when what a seat of this rule covers still counts as remaining: the host may be served
            by this unit or by seats of its single layers.
        layer: What must own the slots that say what is computed: ``linear`` (matmul slots; ``x w' + b``), ``patches``
            (matmul slots; a convolution that meets every element once, its kernel read as ``[out, everything
            else]``) or ``norm`` (norm slots; it has an epsilon and vectors).
    """

    name: str
    kind: str
    places: tuple[str, ...]
    slots: dict[str, str]
    transpose: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    activation: str = ""
    variant: dict[str, str] | None = None
    points: dict[str, str] | None = None
    constants: dict[str, str] | None = None
    join: Join | None = None
    min_elements: int = 0
    remaining: bool = False
    shares: bool = False
    sizes: dict[str, str] | None = None
    layer: str = "linear"
    apart: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limit:
    """A threshold with its direction and reason; ``op`` is ``>=`` or ``<=``."""

    metric: str
    op: str
    value: float
    because: str


@dataclass(frozen=True, slots=True)
class Structure:
    """One catalog entry.

    Attributes:
        name: Catalog name.
        version: Integer; a change of meaning raises it.
        summary: One sentence for people.
        inputs: Boundary tensors in call order.
        outputs: Boundary tensors returned.
        slots: Weight slots.
        variants: Axis name to allowed values, the first being the default.
        points: Names the reference passes to its ``tap``.
        seams: Recognition rules.
        limits: Structure-level parity limits; schemes add theirs.
        digest: sha256 of the yaml bytes.
        reference_digest: sha256 of reference.py.
        folder: Absolute path of the entry.
        discovery: Limits of the differential tests that recognise a seat (unitless, see each ``because``).
        rowwise: True when a row of every output depends on the same row of the inputs alone.
    """

    name: str
    version: int
    summary: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    slots: tuple[SlotSpec, ...]
    variants: dict[str, tuple[str, ...]]
    points: tuple[str, ...]
    seams: tuple[SeamRule, ...]
    limits: tuple[Limit, ...]
    digest: str
    reference_digest: str
    folder: str
    discovery: tuple[Limit, ...] = ()
    rowwise: bool = False

    @property
    def relays(self) -> bool:
        """True when the consumers of a pair read what its producer returned."""
        return self.outputs[0].relayed

    def join(self, variant: Mapping[str, str]) -> Join:
        """Return how the places of a pair of this variant belong together."""
        return Join.of(len(self.returned(variant)), relays=self.relays)

    def returned(self, variant: Mapping[str, str]) -> tuple[TensorSpec, ...]:
        """Return the outputs that a seat of this variant has."""
        return tuple(output for output in self.outputs if output.exists(variant))
