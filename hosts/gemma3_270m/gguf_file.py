"""Reading a GGUF file: all metadata at once, tensors one by one.

The layout is that of GGUF version 2 and 3: magic, version, counts, key-value pairs, tensor table, aligned data. The
``gguf`` package reads it too, but builds one array object per token of the vocabulary, which takes longer than
everything else in a conversion.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pytest_frt.sdk import CheckpointError

MAGIC: Final = b"GGUF"
STRING: Final = 8
ARRAY: Final = 9
SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
BLOCK_ROWS: Final = 4096  # rows expanded at a time, so that a large table needs little memory beside its result

Value = int | float | bool | str | list[Any] | NDArray[Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of the file.

    Attributes:
        shape: As torch writes it, outermost axis first.
        kind: ggml type number.
        offset: First byte, from the start of the file.
    """

    shape: tuple[int, ...]
    kind: int
    offset: int


class GgufFile:
    """A GGUF file, memory-mapped.

    Args:
        path: The file.

    Attributes:
        metadata: Key to value; numeric arrays are numpy arrays, string arrays lists.
        entries: Tensor name to its place.

    Raises:
        CheckpointError: the file is no GGUF file, or ends before its tables do.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = len(MAGIC)
        try:
            self.metadata, self.entries = self._tables()
        except (struct.error, UnicodeDecodeError, ValueError, KeyError) as fault:
            raise CheckpointError(f"{path} is no readable GGUF file: {fault}", hint="fetch the file again") from fault

    def tensor(self, name: str) -> Tensor:
        """Return one tensor in float32, expanded from its blocks.

        Raises:
            CheckpointError: the file has no such tensor, or ends before it does.
        """
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

        if name not in self.entries:
            raise CheckpointError(f"{self._path} has no tensor {name}", hint="fetch the file again")
        entry = self.entries[name]
        kind = GGMLQuantizationType(entry.kind)
        per_block, block_bytes = GGML_QUANT_SIZES[kind]
        *outer, inner = entry.shape
        rows, row_bytes = int(np.prod(outer, dtype=np.int64)), inner // per_block * block_bytes
        if entry.offset + rows * row_bytes > len(self._bytes):
            raise CheckpointError(
                f"{self._path} has {len(self._bytes)} bytes and ends before tensor {name} does",
                hint="fetch the file again",
            )
        raw = np.frombuffer(self._bytes, np.uint8, rows * row_bytes, entry.offset).reshape(rows, row_bytes)
        result = np.empty((rows, inner), np.float32)

        def expand(first: int) -> None:
            result[first : first + BLOCK_ROWS] = dequantize(raw[first : first + BLOCK_ROWS], kind)

        with ThreadPoolExecutor() as pool:  # numpy leaves the interpreter lock while it computes
            for _ in pool.map(expand, range(0, rows, BLOCK_ROWS)):
                pass
        return torch.from_numpy(result).reshape(entry.shape)

    def _tables(self) -> tuple[dict[str, Value], dict[str, Entry]]:
        if self._bytes[: len(MAGIC)] != MAGIC:
            raise ValueError(f"it starts with {self._bytes[: len(MAGIC)]!r}")
        version = self._scalar("I")
        if version not in {2, 3}:
            raise ValueError(f"format version {version}, this reader knows 2 and 3")
        tensors, pairs = self._scalar("Q"), self._scalar("Q")
        metadata = {self._string(): self._value(self._scalar("I")) for _ in range(pairs)}
        table = [(self._string(), self._shape(), self._scalar("I"), self._scalar("Q")) for _ in range(tensors)]
        align = metadata.get("general.alignment", 32)
        if not isinstance(align, int):
            raise ValueError(f"alignment {align!r}")  # noqa: TRY004 (the file is wrong, not the caller)
        start = -(-self._at // align) * align
        return metadata, {name: Entry(shape, kind, start + offset) for name, shape, kind, offset in table}

    def _scalar(self, code: str) -> Any:  # noqa: ANN401 (the type follows the code)
        (value,) = struct.unpack_from(f"<{code}", self._bytes, self._at)
        self._at += struct.calcsize(f"<{code}")
        return value

    def _string(self) -> str:
        length = self._scalar("Q")
        self._at += length
        return self._bytes[self._at - length : self._at].decode()

    def _shape(self) -> tuple[int, ...]:
        return tuple(reversed(tuple(self._dimensions())))

    def _dimensions(self) -> Iterator[int]:
        for _ in range(self._scalar("I")):
            yield self._scalar("Q")

    def _value(self, kind: int) -> Value:
        if kind == STRING:
            return self._string()
        if kind != ARRAY:
            return self._scalar(SCALARS[kind])  # type: ignore[no-any-return]
        kind, count = self._scalar("I"), self._scalar("Q")
        if kind not in SCALARS:
            return [self._value(kind) for _ in range(count)]
        array = np.frombuffer(self._bytes, np.dtype(f"<{SCALARS[kind]}"), count, self._at)
        self._at += array.nbytes
        return array
