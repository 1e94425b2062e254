"""A shortened sample gives the beginning of what the whole one gives, in fewer positions or none fewer."""

from __future__ import annotations

from typing import Any

import torch


@torch.no_grad()
def test_shortened_sample_is_scored_like_the_beginning(tiny: Any) -> None:
    samples = tiny.draw(2)
    for phase in tiny.spec.phases:
        whole = tiny.program.score(tiny.model, samples, phase.name)
        few = [tiny.program.shorter(sample, phase.name) for sample in samples]
        short = tiny.program.score(tiny.model, few, phase.name)
        assert all(
            one["input_ids"].shape[1] <= sample["input_ids"].shape[1] for one, sample in zip(few, samples, strict=True)
        )
        if phase.name in {"decode", "verify"}:
            assert 0 < short[0].shape[0] < whole[0].shape[0]
            assert all(torch.allclose(a, b[: len(a)], atol=1e-4) for a, b in zip(short, whole, strict=True))


@torch.no_grad()
def test_shortened_sample_stays_in_its_regime(tiny: Any) -> None:
    *_, layer = (m for name, m in tiny.model.named_modules() if name.endswith((".mlp", ".intermediate")))
    (sample,) = tiny.draw(1)
    for phase in tiny.spec.phases:
        rows: list[int] = []
        hook = layer.register_forward_pre_hook(lambda _, args, rows=rows: rows.append(args[0].shape[:-1].numel()))
        tiny.program.score(tiny.model, [tiny.program.shorter(sample, phase.name)], phase.name)
        hook.remove()
        assert phase.rows[0] <= rows[-1] <= phase.rows[1] or phase.name == "verify"  # one stream of several
