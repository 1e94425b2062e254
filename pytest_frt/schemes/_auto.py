"""``--frt-scheme=auto``: the scheme that a device's facts speak for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_frt.contracts.device import DeviceFacts

AUTO: Final = "auto"
NATIVE: Final = "fp8_static"
PLAIN: Final = "none"
FIRST_FP8: Final = 89
"""The first NVIDIA architecture whose matrix units take e4m3: SM 8.9."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What ``auto`` is on one device.

    Attributes:
        device: Name of its profile.
        scheme: Scheme name.
        because: The fact that decided.
    """

    device: str
    scheme: str
    because: str

    def __str__(self) -> str:
        """Say device, scheme and reason."""
        return f"{AUTO} is {self.scheme} on {self.device}: {self.because}"


def choose(device: str, facts: DeviceFacts | None) -> Choice:
    """Return ``fp8_static`` where the facts show matrix units for FP8, else ``none``.

    Args:
        device: Name of the device's profile.
        facts: Of the present device, with its architecture; None where it is absent.
    """
    if facts is None:
        return Choice(device, PLAIN, "it is not present, so nothing shows that it multiplies FP8")
    found = re.fullmatch(r"sm_(\d+)", facts.arch)
    if found is None:
        return Choice(device, PLAIN, f"{facts.arch or facts.name} declares no FP8 multiplication")
    if int(found[1]) < FIRST_FP8:
        return Choice(device, PLAIN, f"{facts.arch} does not multiply FP8, sm_{FIRST_FP8} is the first that does")
    return Choice(device, NATIVE, f"{facts.arch} multiplies FP8, as all do from sm_{FIRST_FP8}")
