"""The seat-level battery as a class of tests: subclass it, fill four attributes, run pytest.

    class TestMine(ImplTests):
        structure = "linear_proj"
        impl = "impls/linear_proj/mine.py"
        scheme = "none"
        dims = {"K": 64, "N": 48}

It certifies nothing: it finds, in a second and in the author's own process, what a certifying run would refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from pytest_frt import markers

if TYPE_CHECKING:
    from pytest_frt.fixtures.trial import Trial

__all__ = ["ImplTests"]

PLACEHOLDERS: Final[tuple[Any, ...]] = ("", None, {})
"""Values of attributes that were not filled."""


class ImplTests:
    """Every test of one impl in one scheme on one host, or on a bare seat.

    Subclasses are collected when their name is a test's, e.g. ``TestMine``. A test whose cause is a failure of an
    earlier one is skipped as ``NOT_RUN``.

    Attributes:
        structure: Catalog name.
        impl: The impl's file (relative to the test file), its module, or the name of an installed one.
        scheme: Scheme to bind for.
        host: Installed host or the folder of one, built at ``size``; leave empty with ``dims``.
        dims: Symbol to size, for a bare seat with drawn weights; leave empty with ``host``.
        rows: Inclusive row band; None for the impl's own.
        variant: Axis to value of a bare seat.
        device: Device profile.
        size: Size of the host.
        phase: Row regime of the host; empty for its first.
        kernel: Folder of a local kernel build.
        seed: Draws weights and inputs.
    """

    structure: ClassVar[str] = ""
    impl: ClassVar[str | Path | ModuleType] = ""
    scheme: ClassVar[str] = ""
    host: ClassVar[str] = ""
    dims: ClassVar[Mapping[str, int]] = {}
    rows: ClassVar[tuple[int, int] | None] = None
    variant: ClassVar[Mapping[str, str]] = {}
    device: ClassVar[str] = "cpu"
    size: ClassVar[str] = "tiny"
    phase: ClassVar[str] = ""
    kernel: ClassVar[str] = ""
    seed: ClassVar[int] = 0

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrise the contract battery by its checks."""
        if "frt_check" in metafunc.fixturenames:
            from pytest_frt.seat import lifecycle

            names = (lifecycle.NEVER_CALLED, *(check.__name__ for check in lifecycle.CHECKS))
            metafunc.parametrize("frt_check", names)

    @pytest.fixture(scope="class")
    @classmethod
    def frt_trial(cls, request: pytest.FixtureRequest) -> Trial:
        """The battery over the cell that the attributes describe."""
        markers.apart(request.config)
        from pytest_frt.fixtures.specs import WORDS
        from pytest_frt.fixtures.trial import Trial

        words = {word: getattr(cls, word) for word in WORDS if getattr(cls, word, None) not in PLACEHOLDERS}
        for word in ("structure", "impl", "scheme"):
            if word not in words:
                pytest.fail(f"{cls.__name__}: fill {word} = ... in the class", pytrace=False)
        return Trial(markers.live(words, Path(request.path).parent))

    def test_declaration_speaks_of_its_structure(self, frt_trial: Trial) -> None:
        """Every word of ``IMPL`` is one that structure and registry know."""
        from pytest_frt.fixtures import envelope, trial

        cell = frt_trial.cell
        with frt_trial.step("declaration"):
            trial.say(list(envelope.unknown_words(cell.impl, cell.structure, cell.registry.schemes)))

    def test_envelope_refuses_one_step_outside(self, frt_trial: Trial) -> None:
        """Each declared bound refuses the size, row, variant, dtype, scheme and scale just beyond it."""
        from pytest_frt.fixtures import envelope, trial

        with frt_trial.step("envelope", after=("declaration",)):
            trial.say(envelope.admitted_outside(frt_trial.cell))

    def test_binds(self, frt_trial: Trial) -> None:
        """Every seat is bound."""
        with frt_trial.step("binding"):
            self._say(frt_trial.refusals())

    def test_outputs_have_the_form_of_the_seam(self, frt_trial: Trial) -> None:
        """One tensor per output, in the shape and dtype of the seam, on real rows and on every case."""
        with frt_trial.step("form", after=("binding",)):
            self._say(frt_trial.misfits())

    def test_inputs_are_left_alone(self, frt_trial: Trial) -> None:
        """No call writes to its input."""
        with frt_trial.step("inputs", after=("binding", "form")):
            self._say(frt_trial.mutated())

    def test_parity_on_real_rows(self, frt_trial: Trial) -> None:
        """Both oracles hold on what the host feeds its seats."""
        with frt_trial.step("parity", after=("binding", "form")):
            self._say(frt_trial.parity_real())

    def test_parity_on_layouts(self, frt_trial: Trial) -> None:
        """Both oracles hold whatever strides and storage offset an input has."""
        with frt_trial.step("layouts", after=("binding", "form", "parity")):
            self._say(frt_trial.parity_layouts())

    def test_parity_on_cases(self, frt_trial: Trial) -> None:
        """Both oracles hold on the structure's discriminating cases: band edges, M = 0, outliers, zeros, ramps."""
        with frt_trial.step("cases", after=("binding", "form", "parity", "layouts")):
            self._say(frt_trial.parity_cases())

    def test_parity_in_every_variant(self, frt_trial: Trial) -> None:
        """Both oracles hold on a bare seat of every variant that the impl admits."""
        from pytest_frt.fixtures import envelope

        with frt_trial.step("variants", after=("declaration", "binding", "form", "parity", "layouts", "cases")):
            cell = frt_trial.cell
            for variant in envelope.variants(cell):
                self._say(frt_trial.elsewhere(variant, cell.facts.dims))

    def test_parity_at_the_lowest_sizes(self, frt_trial: Trial) -> None:
        """Both oracles hold on a bare seat of the lowest sizes that the impl admits."""
        from pytest_frt.fixtures import envelope

        with frt_trial.step("sizes", after=("declaration", "binding", "form", "parity", "layouts", "cases")):
            cell = frt_trial.cell
            dims = envelope.lowest_sizes(cell)
            if (count := envelope.elements(cell.structure, dims)) > envelope.MOST_ELEMENTS:
                pytest.skip(
                    f"NOT_RUN: the lowest sizes have {count} elements, at most {envelope.MOST_ELEMENTS} are built"
                )
            self._say(frt_trial.elsewhere(dict(cell.facts.variant), dims))

    def test_outputs_are_not_written_again(self, frt_trial: Trial) -> None:
        """An output that was returned keeps its values."""
        with frt_trial.step("aliasing", after=("binding", "form")):
            self._say(frt_trial.aliased())

    def test_unwritten_memory_plays_no_part(self, frt_trial: Trial) -> None:
        """Two fills of fresh memory give the same bits."""
        with frt_trial.step("poison", after=("binding", "form")):
            self._say(frt_trial.poisoned())

    def test_answers_are_repeatable(self, frt_trial: Trial) -> None:
        """One input gets one answer, bit for bit, whatever was asked in between."""
        with frt_trial.step("determinism", after=("binding", "form", "poison")):
            self._say(frt_trial.unsteady())

    def test_ledger(self, frt_trial: Trial) -> None:
        """Attached, every seat answers as often as the host calls it, and nothing falls back."""
        from pytest_frt.fixtures.tools import Ledgers

        with frt_trial.step("ledger", after=("binding", "form")):
            Ledgers(frt_trial.cell)()

    @pytest.mark.lifecycle
    def test_lifecycle(self, frt_trial: Trial, frt_check: str) -> None:
        """Every way a host is handled while seats are attached ends in its declared outcome."""
        with frt_trial.step("lifecycle", after=("binding", "form", "inputs", "aliasing", "poison", "determinism")):
            check = frt_trial.checks.get(frt_check)
            if check is None:
                pytest.skip("NOT_RUN: no seat is ever called")
            self._say([] if check.ok else [f"{check.name}: {check.detail}"])

    def test_nothing_else_is_touched(self, frt_trial: Trial) -> None:
        """Executing, binding and running the impl leaves functions, hooks and settings of others as they were."""
        with frt_trial.step("census", after=("binding", "form")):
            self._say(frt_trial.meddling())

    @staticmethod
    def _say(faults: list[str]) -> None:
        from pytest_frt.fixtures.trial import say

        say(faults)
