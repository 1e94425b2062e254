"""An installed impl that does not know the certified scheme is not asked to bind."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_frt.errors import CertificateRefused
from pytest_frt.runtime import prepare
from pytest_frt.spec.literals import read_impl
from pytest_frt.spec.load import load_structure

if TYPE_CHECKING:
    from tests.runtime.conftest import World


def test_scheme_that_the_installed_impl_does_not_run(world: World) -> None:
    record, entries = world.record(), world.registry
    structure = load_structure(entries.structure("toy_ffn").folder)
    impl = read_impl(entries.impl("toy_ffn", "toy").file)
    prepare._check_versions(record, structure, impl)
    with pytest.raises(CertificateRefused, match="certified for toy, installed runs other") as refused:
        prepare._check_versions(record, structure, replace(impl, schemes=("other",)))
    assert refused.value.refusal_code == "CELL_SCHEME"
