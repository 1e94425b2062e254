"""Where the structures of a catalog sit on a host: by slots, shapes and behaviour, never by class name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from torch import nn

from pytest_frt.contracts.host import HostSpec
from pytest_frt.contracts.seat import NotReplaced, SeatFacts
from pytest_frt.contracts.structure import SeamRule, Structure
from pytest_frt.seat import tree
from pytest_frt.seat.rules import Candidate, Refused, match, present
from pytest_frt.seat.seam_probe import Reference
from pytest_frt.spec.modules import load_file

LINEAR, NORM = "linear", "norm"
"""Kinds of :class:`NotReplaced`; a refused seam has its structure's name as kind."""


NO_PLACE = "no structure looked for has a place for it here"


def load_reference(structure: Structure) -> Reference:
    """Execute a structure's reference.py and return its ``reference``.

    Raises:
        SpecError: the file cannot be read.
        AttributeError: it defines no ``reference``.
    """
    reference: Reference = load_file(Path(structure.folder) / "reference.py").reference
    return reference


@dataclass
class _Search:
    """State of one discovery: seats found, and reasons by path."""

    model: nn.Module
    exclude: dict[str, str]
    paths: dict[int, list[str]]
    seats: list[SeatFacts] = field(default_factory=list)
    claimed: list[str] = field(default_factory=list)
    refused: dict[tuple[str, str], Refused] = field(default_factory=dict)

    def excluded(self, path: str) -> str:
        """Return the host's reason for leaving ``path`` out; empty when it does not."""
        for name in tree.ancestors(path):
            for glob, reason in self.exclude.items():
                if fnmatchcase(name, glob):
                    return f"left out by the host: {reason}"
        return ""

    def places(self, structure: str = "") -> list[str]:
        """Return the places of all seats, or of one structure's."""
        return [place for seat in self.seats if structure in ("", seat.structure) for place in seat.seat.places]

    def in_seat(self, path: str) -> bool:
        """Return whether ``path`` is or lies below the place of a seat."""
        return tree.under_any(path, self.places())

    def overlaps(self, path: str, structure: str = "") -> bool:
        """Return whether ``path`` shares modules with a seat of ``structure``, or with any that claims them."""
        places = self.places(structure) if structure else self.claimed
        return tree.under_any(path, places) or any(tree.under(place, path) for place in places)

    def offer(self, candidate: Candidate) -> None:
        """Hold a rule against a module and keep what comes of it."""
        if not present(candidate):
            return
        structure, remaining = candidate.structure.name, candidate.rule.remaining
        places = candidate.places()
        if any(self.overlaps(place, "" if remaining else structure) for place in places):
            return
        if any(self.excluded(place) for place in places):
            return
        found = match(candidate)
        key = (places[0], structure)
        match found:
            case SeatFacts():
                self.seats.append(found)
                self.claimed += () if candidate.rule.shares else found.seat.places
                self.refused.pop(key, None)
            case Refused():
                if key not in self.refused or self.refused[key].stage < found.stage:
                    self.refused[key] = found


def discover(
    model: nn.Module,
    structures: Sequence[Structure],
    host_spec: HostSpec | None = None,
    *,
    reference_of: Callable[[Structure], Reference] = load_reference,
) -> tuple[tuple[SeatFacts, ...], tuple[NotReplaced, ...]]:
    """Find every seat of a host and account for every linear and norm that is in none.

    Seats of different structures may overlap where a host offers it; each lists its places. A rule marked
    ``remaining`` takes only what no other seat covers, so give the whole catalog for its answer to be complete.

    Args:
        model: The host, in evaluation mode, with its weights loaded.
        structures: The catalog.
        host_spec: Says which structures to look for and which paths to leave out; None leaves nothing out.
        reference_of: Gives a structure's reference.

    Returns:
        Seats in the order of structures and of the module tree; then, by path, linears and norms in no seat and
        seams that were refused, each with its reason.
    """
    wanted = [s for s in structures if host_spec is None or not host_spec.structures or s.name in host_spec.structures]
    search = _Search(model, dict(host_spec.exclude) if host_spec else {}, tree.paths_of(model))
    references = {structure.name: reference_of(structure) for structure in wanted}
    for remaining in (False, True):
        for structure in wanted:
            rules = [rule for rule in structure.seams if rule.remaining is remaining]
            _search_structure(search, structure, rules, references[structure.name])
    order = {structure.name: index for index, structure in enumerate(structures)}
    seats = sorted(search.seats, key=lambda seat: order[seat.structure])
    return tuple(seats), tuple(_not_replaced(search))


def _search_structure(search: _Search, structure: Structure, rules: list[SeamRule], reference: Reference) -> None:
    for path, module in search.model.named_modules() if rules else ():
        for rule in rules:
            search.offer(Candidate(search.model, path, module, structure, rule, reference, search.paths))


def _not_replaced(search: _Search) -> Iterator[NotReplaced]:
    """Yield, in the order of the module tree, seams that were refused and layers that are in no seat."""
    seams: dict[str, list[NotReplaced]] = {}
    layers: dict[str, str] = {}
    for (path, structure), why in search.refused.items():
        if why.remaining:
            layers[path] = f"{structure}: {why.reason}"
        else:
            seams.setdefault(path, []).append(NotReplaced(path, structure, why.reason))
    for path, module in search.model.named_modules():
        yield from seams.get(path, ())
        kind = LINEAR if tree.is_matrix_layer(module) else NORM if tree.is_norm(module) else ""
        if kind and not search.in_seat(path):
            yield NotReplaced(path, kind, search.excluded(path) or layers.get(path, NO_PLACE))
