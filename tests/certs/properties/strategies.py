"""Records, documents and texts as hypothesis draws them, and the settings all properties share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from pytest_frt.certs.strict_json import MAX_INT, printable, real_text
from pytest_frt.contracts.record import CalibrationFacts, FileDigest, KernelFacts, Record, SeatRecord
from pytest_frt.contracts.seat import ModuleSeat, PairSeat, PointAt, RoutedSeat, Seat, SeatFacts, SlotRef
from tests.certs.vectors import world

# The same examples in every run: what is new is looked for by fuzzing, which keeps what it finds.
FEW: Final = settings(
    max_examples=40, deadline=5_000, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
MANY: Final = settings(FEW, max_examples=120)

PRINTABLE: Final = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30).filter(printable)
NAMES: Final = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
DIGESTS: Final = st.binary(min_size=32, max_size=32).map(bytes.hex)
COUNTS: Final = st.integers(0, MAX_INT)
FLOATS: Final = st.floats(1e-40, 1e14, allow_nan=False) | st.floats(-1e14, -1e-40) | st.just(0.0)
PATHS: Final = st.lists(NAMES, min_size=1, max_size=3).map(".".join)
SCALARS: Final = st.none() | st.booleans() | st.integers(-MAX_INT, MAX_INT) | PRINTABLE
# Keys that differ in case only are another property.
KEYS: Final = PRINTABLE.map(str.casefold).filter(lambda key: key == key.casefold() and printable(key))
DOCUMENTS: Final = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)

EVIDENCE: Final = st.builds(FileDigest, NAMES.map(lambda name: f"evidence/x{name}.json"), DIGESTS)


def maps(keys: SearchStrategy[str], values: SearchStrategy[Any], least: int = 0) -> SearchStrategy[dict[str, Any]]:
    return st.dictionaries(keys, values, min_size=least, max_size=4)


def places(number: int) -> SearchStrategy[Seat]:
    """Return seats whose places no other number has."""
    path = PATHS.map(lambda text: f"{text}.m{number}")
    return st.one_of(
        st.builds(ModuleSeat, path),
        st.builds(RoutedSeat, path, NAMES),
        st.builds(lambda one, names: PairSeat(one, tuple(f"{one}.{name}" for name in names)), path,
                  st.lists(NAMES, min_size=1, max_size=3, unique=True)),
    )  # fmt: skip


def seats(number: int) -> SearchStrategy[SeatRecord]:
    facts = st.builds(
        SeatFacts,
        structure=st.just("decoder_ffn"),
        seat=places(number),
        variant=maps(NAMES, PRINTABLE),
        dims=maps(NAMES, COUNTS),
        slots=maps(NAMES, st.builds(SlotRef, PATHS, transpose=st.booleans())),
        constants=maps(NAMES, FLOATS),
        dtype=st.just("float32"),
        points=maps(NAMES, st.builds(PointAt, PATHS)),
    )
    return st.builds(SeatRecord, facts, DIGESTS, maps(NAMES, FLOATS.map(real_text)))


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Return an honest record whose every fact is drawn, but for its gates."""
    count = draw(st.integers(1, 3))
    files = draw(maps(NAMES.map(lambda name: f"dist/{name}-1.0"), DIGESTS))
    named = tuple(FileDigest(name, digest) for name, digest in sorted(files.items()))
    low = draw(COUNTS)
    return replace(
        world.RECORD,
        seats=tuple(draw(seats(number)) for number in range(count)),
        subjects=world.RECORD.subjects + named,
        kernel=KernelFacts("acme/frt-cpu", draw(DIGESTS)[:40], "torch-noarch", draw(DIGESTS)),
        host=replace(world.HOST, module_source=draw(maps(PRINTABLE, DIGESTS)), checkpoint=draw(PRINTABLE)),
        device=replace(world.DEVICE, name=draw(PRINTABLE), isa=tuple(draw(st.lists(NAMES, max_size=3)))),
        software=draw(maps(NAMES, PRINTABLE)),
        refused=draw(maps(PRINTABLE, PRINTABLE)),
        rows=(low, draw(st.integers(low, MAX_INT))),
        calibration=draw(st.none() | st.builds(
            CalibrationFacts, st.just(FileDigest("scales.safetensors", "a" * 64)), PRINTABLE,
            st.integers(1, MAX_INT), DIGESTS, DIGESTS)),
        seed=draw(COUNTS),
        evidence=tuple(draw(st.lists(EVIDENCE, max_size=3))),
    )  # fmt: skip


@st.composite
def edited(draw: st.DrawFn, data: bytes) -> bytes:
    """Return bytes after one to three cuts, insertions or flips anywhere."""
    found = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(found)))
        width = draw(st.integers(0, 3))
        found[at : at + width] = draw(st.binary(max_size=3))
    return bytes(found)
