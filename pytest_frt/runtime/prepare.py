"""One accepted certificate to bound seats: match, verify while copying, bind with the certified scales, smoke.

Everything that can be refused without executing certified code is refused first: :func:`fits` executes nothing but the
host entry's projection, as its last step, and :func:`prepare` loads kernel and impl.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Final, TypeVar

import torch
from torch import Tensor, nn

from pytest_frt.certs.statement import CellCertificate
from pytest_frt.certs.tree import refusing
from pytest_frt.contracts.impl import Impl
from pytest_frt.contracts.record import Record, SeatRecord
from pytest_frt.contracts.structure import Structure
from pytest_frt.errors import CertificateRefused, FrtError, SwapRefused
from pytest_frt.runtime import sealed, surroundings
from pytest_frt.runtime.facts import LiveProcess
from pytest_frt.runtime.foreign import foreign
from pytest_frt.runtime.host import check_config
from pytest_frt.runtime.imports import execute
from pytest_frt.runtime.match import Reject, Wish, match
from pytest_frt.runtime.sources import Copies, KernelCopy, Places, copy_all, is_private
from pytest_frt.runtime.whole import check_whole
from pytest_frt.seat import kernels
from pytest_frt.seat.artefact import load_artefact
from pytest_frt.seat.bind import BoundSeat, bind_unit
from pytest_frt.seat.guard import version_of
from pytest_frt.seat.identity import IdentityRefused
from pytest_frt.seat.kernel_build import KernelBuild
from pytest_frt.seat.swap import dtype_named
from pytest_frt.seat.weights import slot_tensors
from pytest_frt.spec.dims import SizeMismatch, solve
from pytest_frt.spec.literals import read_impl
from pytest_frt.spec.load import load_structure

T = TypeVar("T")

SMOKE_SEED: Final = 0
LOAD_HINT: Final = "install what it names, or ask the issuer what it needs"


@dataclass(frozen=True, slots=True)
class Ready:
    """What was copied and read of a certificate, and not executed.

    Attributes:
        copies: Verified copies of its files.
        structure: The certified structure.
        declared: The impl as its source states it.
    """

    copies: Copies
    structure: Structure
    declared: Impl


@dataclass(frozen=True, slots=True)
class Scene:
    """What every certificate of one attach is held against.

    Attributes:
        model: The unattached model.
        live: Its facts and those of this process.
        places: Where certified files are looked for.
        wish: What the deployer attaches for.
        environ: The environment: what it says of overrides and compile caches.
        ready: Payload sha256 to what :func:`fits` copied and read of that certificate.
    """

    model: nn.Module
    live: LiveProcess
    places: Places
    wish: Wish
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    ready: dict[str, Ready] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A certificate that does not hold here.

    Attributes:
        cell: The certificate.
        reject: Why.
    """

    cell: CellCertificate
    reject: Reject


def fits(certificate: CellCertificate, scene: Scene) -> Reject | None:
    """Return the first way in which a certificate does not hold for this process, or None. Nothing is bound."""
    verdict = match(certificate.record, scene.live.facts(certificate.record), scene.wish)
    if isinstance(verdict, Reject):
        return verdict
    return _refusing(lambda: _hold(certificate, scene))


def clash(certificates: Iterable[CellCertificate], scene: Scene) -> Misfit | None:
    """Return the first of several certificates that fit whose kernel has the id of another one's, with other bytes."""
    first: dict[str, str] = {}
    for certificate in certificates:
        build = scene.ready[certificate.payload_sha256].copies.kernel.build
        digest = build.facts.tree_digest
        if (other := first.setdefault(build.id, digest)) != digest:
            message = f"kernel id {build.id} is that of two builds, with tree digests {other} and {digest}"
            return Misfit(certificate, Reject("ID_TWICE", message, hint="attach them in processes of their own"))
    return None


def prepare(certificate: CellCertificate, scene: Scene) -> tuple[BoundSeat, ...] | Reject:
    """Return the bound seats of a certificate that fits, or why they cannot be bound. The model is not changed.

    Raises:
        SwapRefused: the impl wrote to the model's tensors while it was bound.
    """
    return _refusing(lambda: _bind(certificate.record, scene.ready[certificate.payload_sha256], scene.model))


def _refusing(step: Callable[[], T]) -> T | Reject:
    try:
        return step()
    except SwapRefused:
        raise
    except CertificateRefused as refusal:
        return Reject(refusal.refusal_code, refusal.message, hint=refusal.hint)
    except FrtError as fault:
        return Reject(fault.code, fault.message, hint=fault.hint)


def _hold(certificate: CellCertificate, scene: Scene) -> Reject | None:
    record = certificate.record
    surroundings.check_overrides(record.kernel.repo, scene.environ)
    copies = copy_all(record, scene.places)
    check_whole(record, scene.places.registry)
    ready = Ready(copies, load_structure(copies.structure), read_impl(copies.impl.folder / copies.impl.main))
    _check_versions(record, ready.structure, ready.declared)
    for seat in record.seats:
        _check_dims(scene.model, seat, ready.structure)
    _check_kernel(copies.kernel, scene.environ)
    scene.ready[certificate.payload_sha256] = ready
    return check_config(scene.model, record, copies.host)


def _check_kernel(copy: KernelCopy, environ: Mapping[str, str]) -> None:
    """Refuse a kernel that something in this process would answer for."""
    build, held = copy.build, kernels.loaded(copy.build.id)
    kernels.check_identity(build)
    if held is None:
        surroundings.check_libraries(build, copy.origin)
        surroundings.check_jit_caches(build, environ)
    elif not is_private(held.folder):
        raise IdentityRefused(
            "ID_LOADED",
            f"kernel id {build.id} was loaded from {held.folder} before, and not from a verified copy",
            hint="attach in a fresh process",
        )


def _bind(record: Record, ready: Ready, model: nn.Module) -> tuple[BoundSeat, ...] | Reject:
    copies, declared = ready.copies, ready.declared
    kernel = _load_kernel(record.kernel.repo, copies.kernel.build)
    loading = partial(foreign, "LOAD", f"impl {record.key.cell.impl} does not load here", hint=LOAD_HINT)
    impl = execute(copies.impl, loading)
    with loading():  # an object of theirs compares itself
        if declared != (found := getattr(impl, "IMPL", None)):
            raise CertificateRefused("ROLE_FILE", f"IMPL at run time is {found!r}, the source says {declared!r}")
    scales = {} if copies.artefact is None else load_artefact(copies.artefact)
    with _unwritten(model, record):
        bound, refused = bind_unit(
            model,
            [seat.facts for seat in record.seats],
            structure=ready.structure,
            impl=impl,
            scheme=record.key.cell.scheme,
            scales=scales,
            kernel=kernel,
            rows=record.rows,
            around=partial(foreign, "BIND", f"impl {record.key.cell.impl} does not bind here", hint="tell the issuer"),
        )
        if refused:
            return Reject("BIND", f"{refused[0].reason}: {refused[0].detail}", refused[0].at)
        for one in bound:
            smoke(one, kernel_device=record.device.kind)
    return bound


@contextmanager
def _unwritten(model: nn.Module, record: Record) -> Iterator[None]:
    """Raise ``SwapRefused`` when the block wrote to a tensor that the seats are bound to, however the block ends."""
    tensors = {
        f"{name} of seat {seat.facts.id}": tensor
        for seat in record.seats
        for name, tensor in slot_tensors(model, seat.facts).items()
    }
    before = {name: version_of(tensor) for name, tensor in tensors.items()}
    try:
        yield
    finally:
        if written := [name for name, tensor in tensors.items() if version_of(tensor) != before[name]]:
            raise SwapRefused(
                f"impl {record.key.cell.impl} wrote to {', '.join(written)}: the model is no longer what was loaded",
                hint="load the model again",
            )


def _load_kernel(repo: str, build: KernelBuild) -> ModuleType:
    loading = partial(foreign, "LOAD", f"kernel {repo} does not load here", hint=LOAD_HINT)
    with refusing(build.folder):
        libraries = sealed.seal_libraries(build) if kernels.loaded(build.id) is None else ()
        with sealed.serving(build, libraries):
            return kernels.load_build(build, loading)


def _check_versions(record: Record, structure: Structure, impl: Impl) -> None:
    cell = record.key.cell
    for code, name, want, have in (
        ("CELL_STRUCTURE", cell.structure, record.structure_version, structure.version),
        ("CELL_IMPL", cell.impl, record.impl_version, impl.version),
    ):
        if want != have:
            raise CertificateRefused(code, f"{name} is certified in version {want}, installed is {have}")
    if cell.scheme not in impl.schemes:
        known = ", ".join(impl.schemes)
        raise CertificateRefused("CELL_SCHEME", f"{cell.impl} is certified for {cell.scheme}, installed runs {known}")


def _check_dims(model: nn.Module, seat: SeatRecord, structure: Structure) -> None:
    shapes = {slot.name: slot.shape for slot in structure.slots}
    actual = {name: tuple(tensor.shape) for name, tensor in slot_tensors(model, seat.facts).items()}
    try:
        dims = solve(shapes, actual)
    except (SizeMismatch, KeyError) as fault:
        raise CertificateRefused(
            "DIMS", f"seat {seat.facts.id} does not have the structure's shapes: {fault}"
        ) from fault
    wrong = {symbol: size for symbol, size in seat.facts.dims.items() if dims.get(symbol, size) != size}
    if wrong:
        message = f"seat {seat.facts.id} is certified with {_said(wrong)}, the model has {_said(dims)}"
        raise CertificateRefused("DIMS", message)


def _said(dims: Mapping[str, int]) -> str:
    return ", ".join(f"{symbol}={size}" for symbol, size in sorted(dims.items()))


@torch.no_grad()
def smoke(bound: BoundSeat, *, kernel_device: str) -> None:
    """Call a bound seat once on standard normal rows: it runs, and returns finite tensors of the right shape.

    It measures nothing: how close the answer is was certified.

    Raises:
        CertificateRefused: ``SMOKE``: it raises, or returns no tensors, a wrong number, shape or dtype of them, a NaN
            or an infinity.
    """
    generator = torch.Generator().manual_seed(SMOKE_SEED)
    rows, dtype = max(bound.rows[0], 1), dtype_named(bound.facts.dtype)
    x, *sides = (
        torch.randn(count, width, generator=generator).to(kernel_device, dtype)
        for count, width in ((rows, bound.width), *((1, side) for side in bound.sides))
    )
    wanted = [(shape, dtype) for shape in bound.shapes(x)]
    calling = partial(foreign, "SMOKE", f"seat {bound.facts.id} does not run here", hint="tell the issuer")
    with calling():
        answer = bound.module(x, *sides)
        outputs = answer if isinstance(answer, tuple | list) else (answer,)
        shapes = [(tuple(one.shape), one.dtype) if isinstance(one, Tensor) else type(one) for one in outputs]
    if shapes != wanted:
        raise CertificateRefused("SMOKE", f"seat {bound.facts.id} returned {shapes}, the structure has {wanted}")
    with calling():  # what they return may be a tensor of a class of theirs
        finite = all(math.isfinite(float(one.abs().sum(dtype=torch.float64))) for one in outputs)
    if not finite:
        raise CertificateRefused("SMOKE", f"seat {bound.facts.id} returned a NaN or an infinity on {rows} normal rows")
