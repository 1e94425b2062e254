"""The bytes of a state file: they say a memory exactly, and damage is refused and never taken for a first use."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_frt.certs import state
from pytest_frt.certs.state import Memory, Seen
from pytest_frt.errors import CertificateRefused
from tests.certs.conftest import NOW, RECORD
from tests.certs.test_state import PAYLOADS, seen

COUNTERS = st.dictionaries(
    st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), max_size=40),
    st.builds(Seen, st.integers(0, 2**53 - 1), st.just(RECORD.kernel.tree_digest)),
    max_size=4,
)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**53 - 1), COUNTERS, COUNTERS)
def test_memory_survives_the_file(version: int, indexes: dict[str, Seen], certificates: dict[str, Seen]) -> None:
    memory = Memory(version, NOW, indexes, certificates)
    assert state.parse_memory(state.memory_bytes(memory)) == memory


GOOD = state.memory_bytes(seen(PAYLOADS[0], last_seen=NOW, indexes={"acme": Seen(3, "a" * 64)}))
DAMAGED: dict[str, tuple[str, str]] = {
    "half a file": (GOOD.decode()[-40:], ""),
    "another schema": ("frt-state/1", "frt-state/2"),
    "negative version": ('"policyVersion":0', '"policyVersion":-1'),
    "float version": ('"policyVersion":0', '"policyVersion":0.0'),
    "time with an offset": ("T00:00:00Z", "T00:00:00+00:00"),
    "short digest": ("a" * 64, "a" * 63),
    "unknown member": ('"schema"', '"note":"x","schema"'),
    "member twice": ('"policyVersion":0', '"policyVersion":0,"policyVersion":9'),
    "unknown member of a counter": ('"number":', '"note":1,"number":'),
    "no counters": ('"indexes":[', '"index":['),
    "one place twice": ('"indexes":[', '"indexes":[{"number":1,"of":"acme","payload":"' + "b" * 64 + '"},'),
}


@pytest.mark.parametrize(("old", "new"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_memory_is_refused_and_never_taken_for_none(old: str, new: str) -> None:
    text = GOOD.decode()
    assert old in text
    with pytest.raises(CertificateRefused) as caught:
        state.parse_memory(text.replace(old, new, 1).encode())
    assert caught.value.refusal_code == "STATE_CORRUPT"


def test_empty_and_binary_memory_is_refused() -> None:
    for data in (b"", b"\xff\xfe", b"[]", b"null"):
        with pytest.raises(CertificateRefused, match="damaged"):
            state.parse_memory(data)
