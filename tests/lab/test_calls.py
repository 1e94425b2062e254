"""What a seat was called with, as it is kept and found again."""

from __future__ import annotations

import torch

from pytest_frt.lab import calls
from pytest_frt.lab.calls import Call

C, D = 6, 8


def test_calls_are_saved_and_found_again() -> None:
    groups = [Call(torch.ones(3, D) * turn, (torch.ones(1, C) * turn,)) for turn in range(3)]
    held = dict(calls.saved("denoise", "a.norm", groups))
    found = calls.read(held, "denoise", "a.norm", 2)
    assert [(one.x[0, 0].item(), one.sides[0][0, 0].item()) for one in found] == [(0, 0), (1, 1), (2, 2)]
    assert calls.read(held, "denoise", "other", 2) == calls.read(held, "denoise", "a.norm2", 1) == []


def test_rows_of_calls_alike_are_kept_under_the_name_of_the_seat_alone() -> None:
    held = dict(calls.saved("decode", "a.mlp", [Call(torch.ones(3, D))]))
    assert list(held) == ["decode/a.mlp"]
    (found,) = calls.read(held, "decode", "a.mlp", 1)
    assert (found.rows, found.sides) == (3, ())


def test_parts_lie_in_the_band_and_keep_what_comes_with_the_rows() -> None:
    cond = torch.ones(1, C)
    found = calls.parts(Call(torch.arange(7.0)[:, None], (cond,)), (2, 3))
    assert [(one.rows, one.x[0].item(), one.sides[0] is cond) for one in found] == [
        (2, 0, True),
        (3, 2, True),
        (2, 5, True),
    ]
