"""Watching a model at work: which modules are called, with what, in which order, and by which operations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

STEP: Final = "step of the loop"
"""Name under which the calls of a loop are noted."""
ENTER, LEAVE, RUNS = "enter", "leave", "runs"
COMPUTES: Final = "computes"
"""Mark of an operation whose multiplications torch counts: products, convolutions, attention."""
BLOCKS: Final = "blocks"
"""Mark of an operation that a CUDA graph cannot capture: it waits for a value, or copies from or to the processor."""
DRAWS: Final = "draws"
"""Mark of an operation that takes random numbers."""
CHOOSES: Final = "chooses"
"""Mark of an operation that ranks values."""
RANKS: Final = frozenset({"argmax", "argmin", "topk", "sort", "multinomial", "kthvalue", "max", "min"})
READS: Final = frozenset({"tolist", "numpy", "__array__"})
"""Methods that read a tensor past the dispatcher."""
COPIES: Final = frozenset({"_to_copy", "copy_", "copy"})
CHANCES: Final = frozenset({"p", "dropout_p", "dropout"})
"""Arguments that are the chance of leaving a value out: at 0 an operation draws nothing."""
BUILT_ON_HOST: Final = "aten::lift_fresh"
"""What torch runs when a tensor is made from Python values."""


class Loop(Protocol):
    """The call that a fixed-step loop makes once per step."""

    @property
    def path(self) -> str:
        """Module that is called, or whose method is."""

    @property
    def steps(self) -> int:
        """Calls that the host's configuration asks for."""

    @property
    def moving(self) -> tuple[str, ...]:
        """Arguments that are another value in each step; all others are the condition."""

    @property
    def method(self) -> str:
        """``forward`` for the module itself."""


@dataclass(frozen=True, slots=True)
class Event:
    """A module or the step of a loop was entered or left, or an operation with a mark ran.

    Attributes:
        what: ``enter``, ``leave`` or ``runs``.
        name: Path of the module, ``STEP``, or name of the operation.
        form: Dtype and shape of each tensor that was handed in, by its place.
        marks: Marks of an operation.
        shape: Of the first tensor.
    """

    what: str
    name: str
    form: tuple[str, ...] = ()
    marks: frozenset[str] = frozenset()
    shape: tuple[int, ...] = ()


@dataclass(slots=True)
class Watched:
    """Everything that was seen of one piece of work, in order."""

    events: list[Event] = field(default_factory=list)
    answer: Any = None

    def at(self, what: str, *names: str) -> list[int]:
        """Return where in the order modules of these names are entered or left."""
        return [index for index, event in enumerate(self.events) if event.what == what and event.name in names]

    def bounds(self, *names: str) -> tuple[int, int]:
        """Return where modules of these names are entered first and left last; they must have been called."""
        return min(self.at(ENTER, *names)), max(self.at(LEAVE, *names))

    def forms(self, name: str) -> list[tuple[str, ...]]:
        """Return the forms of each call of a module, or of the step."""
        return [self.events[index].form for index in self.at(ENTER, name)]

    def marked(self, mark: str, first: int = 0, last: int | None = None) -> dict[str, float]:
        """Return how often each operation with a mark ran between two places of the order."""
        counts: dict[str, float] = {}
        for event in self.events[first:last]:
            if mark in event.marks:
                counts[event.name] = counts.get(event.name, 0) + 1
        return counts


def tensors(value: object, at: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield every tensor in a value with its place: mappings, sequences and attributes of plain objects are opened."""
    return _tensors(value, at, set())


def _tensors(value: Any, at: str, seen: set[int]) -> Iterator[tuple[str, Tensor]]:  # noqa: ANN401 (any argument)
    if isinstance(value, Tensor):
        yield at, value
        return
    if id(value) in seen or isinstance(value, nn.Module | type) or callable(value):
        return
    seen.add(id(value))
    items: Iterable[tuple[object, object]] = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    elif hasattr(value, "__dict__"):
        items = vars(value).items()
    for name, one in list(items):
        yield from _tensors(one, f"{at}.{name}" if at else str(name), seen)


def form(value: object) -> tuple[str, ...]:
    """Return dtype and shape of each tensor in a value, by its place."""
    return tuple(f"{at} {one.dtype} {tuple(one.shape)}" for at, one in tensors(value))


def missing(model: nn.Module, paths: Iterable[str]) -> list[str]:
    """Return the paths at which a model has no module."""
    known = {name for name, _ in model.named_modules(remove_duplicate=False)}
    return sorted({path for path in paths if path not in known})


@contextmanager
def on_calls(
    owner: nn.Module, method: str, before: Callable[[dict[str, Any]], None], after: Callable[[Any], None]
) -> Iterator[None]:
    """Have each call of a module, or of one of its methods, seen inside the block.

    Args:
        owner: The module.
        method: ``forward`` for the call of the module itself.
        before: Gets the arguments by name.
        after: Gets what is returned.
    """
    signature = inspect.signature(getattr(owner, method))
    if method == "forward":
        pre = owner.register_forward_pre_hook(
            lambda _module, args, kwargs: before(_named(signature, args, kwargs)), with_kwargs=True
        )
        post = owner.register_forward_hook(lambda _module, _args, output: after(output))
        try:
            yield
        finally:
            pre.remove()
            post.remove()
        return
    whole, kept = getattr(owner, method), vars(owner).get(method)

    def seen(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (whatever the method takes)
        before(_named(signature, args, kwargs))
        answer = whole(*args, **kwargs)
        after(answer)
        return answer

    vars(owner)[method] = seen
    try:
        yield
    finally:
        if kept is None:
            del vars(owner)[method]
        else:
            vars(owner)[method] = kept


def _named(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by the names that a signature gives them; those it gathers keep their own."""
    bound = dict(signature.bind(*args, **kwargs).arguments)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            bound |= bound.pop(parameter.name, {})
    return bound


def watch(
    model: nn.Module, paths: Iterable[str], work: Callable[[], object], loop: Loop | None = None, *, ops: bool = False
) -> Watched:
    """Carry out work and return what was seen of it.

    Args:
        model: The host.
        paths: Modules whose calls are noted; each must exist.
        work: What is done.
        loop: Its steps are noted as well.
        ops: Note operations that have a mark, too.
    """
    found = Watched()

    def noted(name: str) -> tuple[Callable[[dict[str, Any]], None], Callable[[Any], None]]:
        def enter(given: dict[str, Any]) -> None:
            first = next((tuple(one.shape) for _, one in tensors(given)), ())
            found.events.append(Event(ENTER, name, form(given), shape=first))

        return enter, lambda _answer: found.events.append(Event(LEAVE, name))

    with ExitStack() as stack:
        for path in dict.fromkeys(paths):
            stack.enter_context(on_calls(model.get_submodule(path), "forward", *noted(path)))
        if loop is not None:
            stack.enter_context(on_calls(model.get_submodule(loop.path), loop.method, *noted(STEP)))
        if ops:
            stack.enter_context(_Reads(found.events))
            stack.enter_context(_Operations(found.events))
        found.answer = work()
    return found


class _Reads(TorchFunctionMode):
    """Notes the methods that read a tensor without an operation."""

    def __init__(self, events: list[Event]) -> None:
        super().__init__()
        self._events = events

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 (torch's protocol)
        if (name := getattr(func, "__name__", "")) in READS:
            self._events.append(Event(RUNS, f"Tensor.{name}", marks=frozenset({BLOCKS})))
        return func(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):
    """Notes the operations that have a mark."""

    def __init__(self, events: list[Event]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch annotates no part of it
        self._events = events

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 (torch's protocol)
        given = {**dict(zip((one.name for one in func._schema.arguments), args, strict=False)), **(kwargs or {})}  # noqa: SLF001 (its only name)
        answer = func(*args, **(kwargs or {}))
        if marks := _marks(func, given, answer):
            first = next((tuple(one.shape) for _, one in tensors(given)), ())
            self._events.append(Event(RUNS, func.name(), marks=marks, shape=first))
        return answer


def _marks(func: Any, given: Mapping[str, Any], answer: object) -> frozenset[str]:  # noqa: ANN401
    asked = {
        COMPUTES: func.overloadpacket in flop_registry,
        BLOCKS: _blocks(func, given, answer),
        DRAWS: _draws(func, given),
        CHOOSES: func.overloadpacket.__name__ in RANKS,
    }
    return frozenset(mark for mark, has in asked.items() if has)


def _blocks(func: Any, given: Mapping[str, Any], answer: object) -> bool:  # noqa: ANN401
    if torch.Tag.data_dependent_output in func.tags or func.name() == BUILT_ON_HOST:
        return True
    places = {one.device.type for _, one in (*tensors(given), *tensors(answer))}
    if func.overloadpacket.__name__ in COPIES and len(places) > 1 and "cpu" in places:
        return True
    if torch.Tag.dynamic_output_shape not in func.tags:
        return False
    if "indices" in given:  # of an index the shape depends on values only where it is a mask
        return any(one.dtype in {torch.bool, torch.uint8} for _, one in tensors(given["indices"]))
    return given.get("output_size") is None


def _draws(func: Any, given: Mapping[str, Any]) -> bool:  # noqa: ANN401
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    declared = {one.name: one.default_value for one in func._schema.arguments if one.name in CHANCES}  # noqa: SLF001
    return not declared or any(given.get(name, default) for name, default in declared.items())
