"""How often a record has been tried in a row without passing: repeated luck must not certify."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from pytest_frt.cell import RecordKey
from pytest_frt.errors import EvidenceError
from pytest_frt.lab.store import writing

FILE: Final = "attempts.json"
_SCHEMA: Final = 1
_REPAIR: Final = "restore it, or remove it to start counting again"


class Attempts:
    """Consecutive non-passing net-win attempts per record key and digest of what was tried.

    A pass, or a change of the impl or kernel bytes, starts a count again. A file that cannot be read
    is a fault, never an empty ledger: deleting the count is a person's decision. One that a program
    deletes or lowers while a run lasts is remembered by the run.

    Args:
        folder: Output folder that holds ``attempts.json``.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        try:
            self._before = self._read()
        except EvidenceError:
            self._before = {}  # told when a count is asked for

    def next(self, key: RecordKey | str, digest: str) -> int:
        """Return the number of the attempt about to be made, from 1.

        Args:
            key: Record key, or the name of a plan.
            digest: Digest over impl and kernel bytes.

        Raises:
            EvidenceError: the file is damaged.
        """
        ledgers = (self._read(), self._before)
        entries = [ledger[_name(key)] for ledger in ledgers if _name(key) in ledger]
        return 1 + max((entry["non_passes"] for entry in entries if entry["digest"] == digest), default=0)

    def note(self, key: RecordKey | str, digest: str, *, passed: bool) -> None:
        """Record how an attempt ended.

        Raises:
            EvidenceError: the file is damaged.
            StorageFault: it cannot be written.
        """
        with writing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self._path.with_suffix(".lock"))
        with lock:
            count = 0 if passed else self.next(key, digest)
            noted = {_name(key): {"digest": digest, "non_passes": count}}
            self._before |= noted
            records = self._read() | noted
            with writing(self._path):
                self._write(records)

    def _read(self) -> dict[str, Any]:
        try:
            told = json.loads(self._path.read_bytes())
            records = told["records"]
            sound = told["schema"] == _SCHEMA and all(_sound(entry) for entry in records.values())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
            raise EvidenceError(f"{self._path} is damaged: {fault}", hint=_REPAIR) from fault
        if not sound:
            raise EvidenceError(f"{self._path} is damaged: an entry has another form", hint=_REPAIR)
        return dict(records)

    def _write(self, records: Mapping[str, Any]) -> None:
        handle, name = tempfile.mkstemp(prefix=".attempts-", dir=self._path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"schema": _SCHEMA, "records": records}, file, indent=1, sort_keys=True)
            Path(name).replace(self._path)
        finally:
            Path(name).unlink(missing_ok=True)


def _name(key: RecordKey | str) -> str:
    return key if isinstance(key, str) else key.id


def _sound(entry: Any) -> bool:  # noqa: ANN401 (JSON from a file)
    count = entry["non_passes"]
    return isinstance(entry["digest"], str) and isinstance(count, int) and not isinstance(count, bool) and count >= 0
