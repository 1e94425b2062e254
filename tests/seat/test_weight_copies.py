"""The order of copies and hashes: a buffer is never written while it is copied to or read, and copies run ahead."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from pytest_frt.seat.weight_copies import Conveyor, HostEngine, fill
from pytest_frt.spec.weights_digest import CHUNK, leaves, runs

SIZE = 2 * CHUNK


class Device:
    """A fake accelerator: a copy takes place when it is waited for, as late as a real one may."""

    def __init__(self, count: int) -> None:
        self.held = [torch.zeros(SIZE, dtype=torch.uint8) for _ in range(count)]
        self.queued: dict[int, Sequence[Tensor]] = {}
        self.reading = [0] * count
        self.log: list[str] = []
        self.lock = threading.Lock()

    @property
    def buffers(self) -> int:
        return len(self.held)

    @property
    def size(self) -> int:
        return SIZE

    def start(self, index: int, views: Sequence[Tensor]) -> None:
        assert index not in self.queued, f"buffer {index} is being copied to"
        assert self.reading[index] == 0, f"buffer {index} is being hashed"
        self.log.append(f"start {index}")
        self.queued[index] = views

    def finish(self, index: int) -> memoryview:
        size = fill(self.held[index], self.queued.pop(index))
        self.log.append(f"finish {index}")
        self.reading[index] = -(-size // CHUNK)
        return self.held[index][:size].numpy().data

    def hashed(self, chunk: memoryview) -> bytes:
        """Hash as the pool does, and note that the buffer is free of one more reader."""
        found = leaves(chunk)
        start = torch.frombuffer(chunk, dtype=torch.uint8).data_ptr()
        index = next(i for i, one in enumerate(self.held) if one.data_ptr() <= start < one.data_ptr() + SIZE)
        with self.lock:
            self.reading[index] -= 1
        return found


def expected(tensor: Tensor) -> list[bytes]:
    return [leaves(chunk) for chunk in runs(memoryview(tensor.contiguous().numpy().tobytes()))]


def drawn(rows: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 255, (rows, 1024), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("buffers", [1, 2, 4])
def test_no_buffer_is_written_while_it_is_in_use(buffers: int) -> None:
    device, tensors = Device(buffers), [drawn(11 * 1024 + 3, seed).T for seed in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        conveyor = Conveyor(device, lambda chunk: pool.submit(device.hashed, chunk))
        if buffers == 1:  # a copy cannot run ahead without a second buffer
            with pytest.raises(AssertionError, match="being copied"):
                conveyor.send(tensors[0])
            return
        digests = [[future.result() for future in conveyor.send(tensor)] for tensor in tensors]
    assert digests == [expected(tensor) for tensor in tensors]


def test_the_next_copy_is_queued_before_the_last_one_is_waited_for() -> None:
    device = Device(2)
    with ThreadPoolExecutor(1) as pool:
        Conveyor(device, lambda chunk: pool.submit(device.hashed, chunk)).send(drawn(8 * 1024))
    assert device.log == [
        f"{what} {i}"
        for what, i in zip(
            ["start", "start", "finish"] + ["start", "finish"] * 2 + ["finish"], [0, 1, 0, 0, 1, 1, 0, 1], strict=True
        )
    ]


def test_a_buffer_waits_for_the_slowest_hash_of_what_it_held() -> None:
    device = Device(2)

    def submit(chunk: memoryview) -> Future[bytes]:
        future: Future[bytes] = Future()
        threading.Timer(0.02, lambda: future.set_result(device.hashed(chunk))).start()
        return future

    tensor = drawn(9 * 1024)
    digests = [future.result() for future in Conveyor(device, submit).send(tensor)]
    assert digests == expected(tensor)


def test_host_buffers_take_no_memory_before_they_are_used() -> None:
    engine = HostEngine(SIZE, 4)
    engine.start(2, [drawn(3)])
    assert [one.numel() for one in engine._held] == [0, 0, SIZE, 0]
    assert bytes(engine.finish(2)) == drawn(3).numpy().tobytes()
