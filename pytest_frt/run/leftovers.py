"""What a candidate left, read as what it is: files that untrusted code may have written."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_frt.errors import EvidenceError
from pytest_frt.lab.store import CAP_BYTES, folder_bytes

if TYPE_CHECKING:
    from torch import Tensor

TEXT_CAP: Final = 64 << 20
"""Bytes of a JSON file: facts of a thousand seats and cases are a tenth of it."""


def regular(file: Path, cap: int) -> Path:
    """Return ``file`` when it is a plain file within the cap: a pipe or a device would hold the judge for ever.

    Raises:
        EvidenceError: it is missing, something else, or too long.
    """
    try:
        found = file.lstat()
    except OSError as fault:
        raise EvidenceError(f"the candidate left no {file.name}: {fault.strerror}") from fault
    if not stat.S_ISREG(found.st_mode):
        raise EvidenceError(f"{file.name} of the candidate is no plain file")
    if found.st_size > cap:
        raise EvidenceError(f"{file.name} of the candidate has {found.st_size} bytes, over the cap of {cap}")
    return file


def within_cap(folder: Path) -> None:
    """Require that all that a job left is within the cap, whatever it is called.

    Raises:
        EvidenceError: it is more.
    """
    size = folder_bytes(folder)
    if size > CAP_BYTES:
        raise EvidenceError(f"the candidate left {size} bytes, over the cap of {CAP_BYTES}")


def text(file: Path) -> str:
    """Return a text file's content.

    Raises:
        EvidenceError: as :func:`regular`, or it is no UTF-8.
    """
    try:
        return regular(file, TEXT_CAP).read_text(encoding="utf-8")
    except UnicodeDecodeError as fault:
        raise EvidenceError(f"{file.name} of the candidate is no UTF-8 text") from fault


def scores(file: Path, count: int | None = None) -> list[Tensor]:
    """Return the tensors of a score file and remove it.

    Args:
        file: Tensors by index.
        count: How many there must be; None takes as many as there are.

    Raises:
        EvidenceError: as :func:`regular`, or it holds something else.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(regular(file, CAP_BYTES))
    except SafetensorError as fault:
        raise EvidenceError(f"{file.name} of the candidate cannot be read: {fault}") from fault
    file.unlink()
    wanted = len(tensors) if count is None else count
    if tensors.keys() != {str(index) for index in range(wanted)}:
        raise EvidenceError(f"{file.name} of the candidate holds {len(tensors)} scores, needs {wanted}")
    return [tensors[str(index)] for index in range(wanted)]
