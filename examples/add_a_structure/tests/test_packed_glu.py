"""The battery over ``fp16_weights``, on a bare seat and on the host; and the limits over what is nearly right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from acme_frt.catalog.packed_glu.cases import near_misses
from acme_frt.catalog.packed_glu.reference import reference

from pytest_frt.testing import ImplTests

STRUCTURE = "packed_glu"
IMPL = Path(__file__).parents[1] / "acme_frt" / "impls" / STRUCTURE / "fp16_weights.py"
BARE = {"structure": STRUCTURE, "impl": str(IMPL), "scheme": "w16a32", "dims": {"D": 64, "F": 160}}


class TestBare(ImplTests):
    """One seat with drawn weights."""

    structure, impl, scheme = STRUCTURE, IMPL, "w16a32"
    dims = {"D": 64, "F": 160}  # noqa: RUF012 (annotated by the base class)


class TestHosted(ImplTests):
    """Every seat of the host."""

    structure, impl, scheme = STRUCTURE, IMPL, "w16a32"
    host = "modernbert"


@pytest.mark.frt(**BARE, variant={"activation": "gelu_erf"})
@pytest.mark.frt(**BARE, variant={"activation": "silu"})
def test_near_misses_are_refused(frt_cell: Any, frt_reference: Any, frt_inputs: Any) -> None:  # noqa: ANN401
    """A part that computes a near miss is over the limits; the same part without it is not."""
    x, variant = frt_inputs["real"], frt_cell.facts.variant
    slots = dict(frt_cell.model.get_submodule(frt_cell.facts.seat.places[0]).named_parameters())
    halved = {name: w.half().float() for name, w in slots.items()}
    frt_reference.check(reference(x=x, **halved, **variant), x)
    for miss in near_misses(variant):
        taken = {**halved, **{name: take(halved[name]) for name, take in miss.slots.items()}}
        with pytest.raises(pytest.fail.Exception, match="needs <="):
            frt_reference.check(reference(**{"x": x, **taken, **variant, **miss.keywords}), x, miss.name)
