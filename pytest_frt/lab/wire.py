"""Messages between judge, fork server and workers: JSON lines over a socket pair, capped in length."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from pytest_frt.errors import EvidenceError

MESSAGE_CAP: Final = 1 << 20
"""Bytes of one message: a job of a thousand seats is a tenth of it; tensors travel as files."""
SEND_LIMIT_S: Final = 30.0
"""Seconds a peer may leave a message unread: every message fits the socket's buffer of a peer that reads at all."""
_CHUNK: Final = 1 << 16
_LARGEST: Final = 1e300  # an integer may be too large for a float


class WireFault(EvidenceError):
    """A peer sent a message that is too long, no JSON object, or lacks a field."""

    code = "WIRE"


class PeerGone(EvidenceError):
    """The other end of the channel is closed: its process ended."""

    code = "PEER_GONE"


class PeerSilent(EvidenceError):
    """The other end did not answer within its time limit."""

    code = "PEER_SILENT"


def _no_constant(word: str) -> NoReturn:
    raise WireFault(f"message holds {word}, which is no JSON number")


def decode(line: bytes) -> dict[str, Any]:
    """Read one message.

    Raises:
        WireFault: not a JSON object, nested beyond reason, or with NaN or infinity in it.
    """
    try:
        value = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as fault:
        raise WireFault(f"message of {len(line)} bytes is no JSON: {type(fault).__name__}") from fault
    if not isinstance(value, dict):
        raise WireFault(f"message is a JSON {type(value).__name__}, not an object")
    return value


def encode(message: Mapping[str, object]) -> bytes:
    """Return one message as a line."""
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def number(message: Mapping[str, Any], name: str) -> float:
    """Return a finite, non-negative number of a message from code that is not trusted.

    Raises:
        WireFault: absent, no number, negative, or beyond a float.
    """
    value = message.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WireFault(f"field {name!r} is {type(value).__name__}, not a number")
    if not 0 <= value < _LARGEST:
        raise WireFault(f"field {name!r} is {str(value)[:20]}, not a finite number >= 0")
    return float(value)


def word(message: Mapping[str, Any], name: str) -> str:
    """Return a string of a message from code that is not trusted.

    Raises:
        WireFault: absent or no string.
    """
    value = message.get(name)
    if not isinstance(value, str):
        raise WireFault(f"field {name!r} is {type(value).__name__}, not a string")
    return value


class Channel:
    """One end of a socket pair.

    Args:
        sock: A connected stream socket.
        cap: Longest message taken or sent, bytes.
    """

    def __init__(self, sock: socket.socket, cap: int = MESSAGE_CAP) -> None:
        self._sock = sock
        self._cap = cap
        self._buffer = bytearray()

    @classmethod
    def adopt(cls, fd: int) -> Channel:
        """Take over a descriptor that a parent process handed down; it is closed on the next exec."""
        sock = socket.socket(fileno=fd)
        sock.set_inheritable(False)
        return cls(sock)

    def fileno(self) -> int:
        """Return the descriptor, for selectors."""
        return self._sock.fileno()

    def send(self, message: Mapping[str, object]) -> None:
        """Send one message.

        Raises:
            WireFault: longer than the cap.
            PeerGone: the other end is closed.
            PeerSilent: the other end reads nothing.
        """
        line = encode(message)
        if len(line) > self._cap:
            raise WireFault(f"message has {len(line)} bytes, over the cap of {self._cap}")
        try:
            self._sock.settimeout(SEND_LIMIT_S)
            self._sock.sendall(line)
        except TimeoutError as fault:
            raise PeerSilent(f"a message of {len(line)} bytes was not read within {SEND_LIMIT_S:.0f} s") from fault
        except OSError as fault:
            raise PeerGone(f"the channel is closed: {fault}") from fault

    def receive(self, limit_s: float | None = None) -> dict[str, Any]:
        """Return the next message, waiting at most ``limit_s`` seconds (None: as long as it takes).

        Raises:
            WireFault: over the cap or no JSON object.
            PeerGone: closed before a whole message came.
            PeerSilent: nothing whole within the limit.
        """
        deadline = None if limit_s is None else time.monotonic() + limit_s
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > self._cap:
                raise WireFault(f"message exceeds the cap of {self._cap} bytes")
            self._buffer += self._read(deadline, limit_s)
        if end > self._cap:
            raise WireFault(f"message has {end} bytes, over the cap of {self._cap}")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return decode(line)

    def _read(self, deadline: float | None, limit_s: float | None) -> bytes:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise PeerSilent(f"no answer within {limit_s:.1f} s")
        try:
            self._sock.settimeout(left)
            data = self._sock.recv(_CHUNK)
        except TimeoutError as fault:
            raise PeerSilent(f"no answer within {limit_s:.1f} s") from fault
        except OSError as fault:
            raise PeerGone(f"the channel is closed: {fault}") from fault
        if not data:
            raise PeerGone("the other end closed the channel")
        return data

    def close(self) -> None:
        """Close this end; idempotent."""
        self._sock.close()
