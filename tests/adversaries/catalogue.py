"""Every planted impl by name, and the test each belongs to. An entry that lies in no group here fails a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pytest_frt.spec.modules import load_file

HERE: Final = Path(__file__).parent
planted: Any = load_file(HERE / "planted.py")
conduct: Any = load_file(HERE / "conduct.py")
reach: Any = load_file(HERE / "reach.py")
timed: Any = load_file(HERE / "timed.py")
toy: Any = timed.toy

WHERE: Final = reach.WHERE
SOUND: Final = planted.SOUND
REFUSED: Final = {**conduct.ALL, **reach.ALL, **planted.REFUSED}
"""Refused by a gate before timing, each in the word of its entry."""
HANGS: Final = {**reach.HANGS, **planted.HANGS}
"""As above, under a short time limit."""
JUDGED: Final = {**SOUND, **REFUSED, **HANGS}
TIMED: Final = timed.ENTRIES
"""Right where they are judged; refused when they are timed."""
TIMED_SOUND: Final = timed.SOUND
