"""Checks of ``autoregressive_decode_pipeline``: each reads requests, runs steps and says what it saw."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

import torch
from pytest_frt.catalog._shared import watch  # type: ignore[import-not-found]
from pytest_frt.catalog._shared.findings import Broken, Finding, Holds, NotShown  # type: ignore[import-not-found]
from torch import Tensor, nn

Sample = Mapping[str, Tensor]
MODALITY, PREFILL, DECODE = "modality_encode", "prefill", "decode"
PIXELS = "modality"
ROWS = (1, 3)  # one token, and several at a time
LONGER = 2  # rows beyond the largest bucket


class Buckets(Protocol):
    """Row counts for which a host has captured its step."""

    @property
    def rows(self) -> tuple[int, ...]:
        """Row counts, ascending."""

    def run(self, state: Any, rows: int, /) -> tuple[Tensor, Any]:  # noqa: ANN401 (the host's own)
        """Run the step through the bucket that the rows fit, or else the host's own."""

    def fallbacks(self) -> int:
        """Return how often the host's own was run so far."""


class Host(Protocol):
    """What these checks may look at; see ``DecodeStages`` of the contracts."""

    @property
    def model(self) -> nn.Module:
        """The host."""

    @property
    def modules(self) -> Mapping[str, tuple[str, ...]]:
        """Stage to modules that are called whenever it runs; for prefill and decode the decoder blocks."""

    @property
    def windows(self) -> Mapping[str, tuple[str, ...]]:
        """Input window to the names that a sample has for it."""

    @property
    def samples(self) -> tuple[Sample, Sample]:
        """Two requests that differ."""

    @property
    def vocabulary(self) -> int:
        """Tokens there are."""

    @property
    def buckets(self) -> Buckets | None:
        """Captured row counts; None where nothing is captured."""

    def read(self, sample: Sample, /) -> Any:  # noqa: ANN401
        """Read the beginning of a request into a state."""

    def step(self, state: Any, rows: int, /) -> tuple[Tensor, Any]:  # noqa: ANN401
        """Return logits ``[rows, V]`` of the next tokens, and the state after them."""

    def whole(self, state: Any, rows: int, /) -> Tensor:  # noqa: ANN401
        """Return the same logits by one pass without a state."""

    def lengths(self, state: Any, /) -> tuple[int, ...]:  # noqa: ANN401
        """Return the positions that each layer has taken in."""

    def held(self, state: Any, /) -> tuple[Tensor, ...]:  # noqa: ANN401
        """Return keys and values that a state holds, ``[..., positions, width]`` each."""

    def select(self, logits: Tensor, /) -> Tensor:
        """Return a token per row of logits."""


def prefill_populates_decode_state(host: Host, *, error_in_eps: float) -> Finding:
    """Hold the positions of each layer to the rows that its blocks were called with, and a step to a whole pass."""
    blocks = host.modules[PREFILL]
    if gone := watch.missing(host.model, (*blocks, *host.modules[DECODE], *host.modules.get(MODALITY, ()))):
        return Broken("no_such_module", f"the host has no module {', '.join(gone)}")
    seen = watch.watch(host.model, blocks, partial(host.read, host.samples[0]))
    entered = seen.at(watch.ENTER, *blocks)
    rows = {seen.events[index].shape[-2] for index in entered}
    counts = {"blocks": len(blocks), "calls": len(entered), "rows": max(rows, default=0)}
    if len(entered) != len(blocks) or len(rows) != 1:
        return Broken("blocks", f"{len(entered)} calls of {len(blocks)} blocks, with rows {sorted(rows)}", counts)
    state = seen.answer
    if rows != set(host.lengths(state)):
        return Broken("length", f"{max(rows)} rows were read, layers hold {sorted(set(host.lengths(state)))}", counts)
    if any(not part.numel() or not part.isfinite().all() for part in host.held(state)):
        return Broken("empty", "a layer of the state is empty or holds NaN or Inf", counts)
    error = _error_in_eps(host.step(state, 1)[0], host.whole(state, 1))
    measured = {**counts, "error_in_eps": error, "limit": error_in_eps}
    if not error <= error_in_eps:
        return Broken("unread", f"a step over the state is {error:.0f} eps away from one pass", measured)
    return Holds(f"{max(rows)} positions in each of {len(host.lengths(state))} layers, and a step reads them", measured)


def _error_in_eps(got: Tensor, want: Tensor) -> float:
    """Return the relative L2 distance in steps of the dtype; not finite where a value is not."""
    if got.shape != want.shape:
        return float("inf")
    return float((got.double() - want.double()).norm() / want.double().norm()) / torch.finfo(want.dtype).eps


def decode_state_update_is_explicit(host: Host) -> Finding:
    """Step over one state with another request between, and hold states and the model to what they were."""
    state, other = (host.read(sample) for sample in host.samples)
    own = [*host.model.parameters(), *host.model.buffers()]
    versions = [tensor._version for tensor in own]  # noqa: SLF001 (its only name)
    for rows in ROWS:
        before, bits = host.lengths(state), [part.clone() for part in host.held(state)]
        logits, after = host.step(state, rows)
        host.step(other, rows)
        grown = {new - old for old, new in zip(before, host.lengths(after), strict=True)}
        if grown != {rows}:
            return Broken("growth", f"a step of {rows} rows lets layers grow by {sorted(grown)}", {"rows": rows})
        if host.lengths(state) != before or not all(map(torch.equal, host.held(state), bits)):
            return Broken("written", f"a step of {rows} rows changes the state it was given", {"rows": rows})
        if changed := sum(not _kept(old, new, rows) for old, new in zip(bits, host.held(after), strict=True)):
            return Broken("rewritten", f"a step of {rows} rows changes positions of {changed} tensors", {"rows": rows})
        if differing := int((host.step(state, rows)[0] != logits).sum()):
            return Broken("elsewhere", "a state answers otherwise after another request", {"differing": differing})
    if versions != [tensor._version for tensor in own]:  # noqa: SLF001
        return Broken("in_the_model", "a step writes a parameter or buffer of the model")
    return Holds(f"steps of {ROWS} rows each add their own, and nothing else changes", {"layers": len(before)})


def _kept(old: Tensor, new: Tensor, rows: int) -> bool:
    """Report whether the positions that two states share are equal: a window drops its first ones as it moves."""
    shared = new.shape[-2] - rows
    return 0 <= shared <= old.shape[-2] and torch.equal(old[..., old.shape[-2] - shared :, :], new[..., :shared, :])


def token_selection_is_outside_decoder_blocks(host: Host) -> Finding:
    """List what ranks values inside of the blocks, and look at what a step answers."""
    blocks = host.modules[DECODE]
    seen = watch.watch(host.model, blocks, partial(host.step, host.read(host.samples[0]), 1), ops=True)
    if not (entered := seen.at(watch.ENTER, *blocks)):
        return NotShown("no block is called in a step")
    for first, last in zip(entered, seen.at(watch.LEAVE, *blocks), strict=True):
        for event in seen.events[first:last]:
            if watch.CHOOSES in event.marks and event.shape and event.shape[-1] >= host.vocabulary:
                detail = f"{event.name} ranks {event.shape[-1]} values in {seen.events[first].name}"
                return Broken("selects_inside", detail, {"ranked": event.shape[-1]})
    logits = seen.answer[0]
    if not logits.is_floating_point() or logits.shape != (1, host.vocabulary):
        detail = f"a step answers {tuple(logits.shape)} of {logits.dtype}, no logits of {host.vocabulary} tokens"
        return Broken("no_logits", detail, {"vocabulary": host.vocabulary})
    token = host.select(logits)
    if token.shape != (1,) or not 0 <= int(token) < host.vocabulary:
        return Broken("no_token", f"select answers {tuple(token.shape)}: {token.tolist()}")
    return Holds(f"{len(blocks)} blocks rank no vocabulary", {"blocks": len(blocks), "vocabulary": host.vocabulary})


def modality_features_have_request_cadence(host: Host) -> Finding:
    """Count the calls of the encoders in a prefill and in a step, and change the image alone."""
    if not (encoders := host.modules.get(MODALITY)):
        return NotShown(f"this host reads text alone: it has no {MODALITY}")
    first, second = host.samples
    seen = watch.watch(host.model, encoders, partial(host.read, first))
    read = {path: len(seen.at(watch.ENTER, path)) for path in encoders}
    if wrong := [path for path, calls in read.items() if calls != 1]:
        return Broken("not_once", f"{read[wrong[0]]} calls of {wrong[0]} in a prefill", {"calls": read[wrong[0]]})
    seen = watch.watch(host.model, encoders, partial(host.step, seen.answer, 1))
    if again := len(seen.at(watch.ENTER, *encoders)):
        return Broken("per_token", f"encoders are called {again} times for a token", {"calls": again})
    other = host.read({**first, **{name: second[name] for name in host.windows[PIXELS]}})
    if torch.equal(host.step(other, 1)[0], seen.answer[0]):
        return Broken("unseen", "another image answers the same: tokens do not see it through the state")
    return Holds(f"{len(encoders)} encoders run once per request and for no token", {"encoders": len(encoders)})


def graph_bucket_fallback_is_reported(host: Host, *, error_in_eps: float) -> Finding:
    """Run each bucket and rows beyond the largest, and hold the count of fallbacks to what must have run."""
    if host.buckets is None:
        return NotShown("nothing is captured: a schedule declares the buckets of a host, and this run has none")
    state, expected = host.read(host.samples[0]), host.buckets.fallbacks()
    for rows in (*host.buckets.rows, host.buckets.rows[-1] + LONGER):
        got, _ = host.buckets.run(state, rows)
        expected += rows > host.buckets.rows[-1]
        error = _error_in_eps(got, host.step(state, rows)[0])
        counts = {"rows": rows, "reported": host.buckets.fallbacks(), "expected": expected, "error_in_eps": error}
        if host.buckets.fallbacks() != expected:
            return Broken("unreported", f"{rows} rows: {counts['reported']} fallbacks told, {expected} ran", counts)
        if not error <= error_in_eps:
            return Broken("answer", f"{rows} rows: the bucket is {error:.0f} eps away from the host's step", counts)
    return Holds(f"{len(host.buckets.rows)} buckets, and one fallback counted", counts)
