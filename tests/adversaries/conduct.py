"""Planted impls over the bare host: answers not computed when they are asked for, and hands on what others share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from pytest_frt.spec.modules import load_file

bare: Any = partial(load_file(Path(__file__).with_name("template.py")).Planted, structure="linear_proj")


def touches(says: str, top: str) -> Any:
    """Return an impl that is right and changes something that is not its own when it is imported."""
    return bare("contract", "lifecycle", says, top=top)


ANSWERS: Final[Mapping[str, Any]] = {
    "keeps_by_shape": bare(
        "parity",
        "reference",
        forward="if x.shape not in self.kept: self.kept[x.shape] = self.right(x)\nreturn self.kept[x.shape].clone()",
    ),
    "keeps_by_pointer": bare(
        "parity",
        "reference",
        forward="at = (x.untyped_storage().data_ptr(), x.shape)\n"
        "if at not in self.kept: self.kept[at] = self.right(x)\n"
        "return self.kept[at].clone()",
        other="layout",
    ),
    "keeps_by_fingerprint": bare(
        "parity",
        "reference",
        forward="seen = (x.shape, int(x.flatten()[:1].sum()))\n"
        "if seen not in self.kept: self.kept[seen] = self.right(x)\n"
        "return self.kept[seen].clone()",
    ),
    "answers_when_looked_at": bare(
        "parity",
        "shape",
        "Lazy",
        top="""
class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return function(*(a.compute() if type(a) is Lazy else a for a in args), **(kwargs or {}))
""",
        forward="late = torch.empty_like(x).as_subclass(Lazy)\nlate.compute = lambda: self.right(x)\nreturn late",
    ),
    "answers_from_a_thread": bare(
        "parity",
        "zeros",
        top="""
def fill(out, part, x):
    time.sleep(5)
    with torch.no_grad():
        out.copy_(part.right(x))
""",
        forward="out = torch.zeros_like(x)\nthreading.Thread(target=fill, args=(out, self, x)).start()\nreturn out",
    ),
    "answers_from_a_child": bare(
        "parity",
        "zeros",
        forward="out = torch.zeros_like(x).share_memory_()\n"
        "if self.calls < 4 and not os.fork():\n    time.sleep(5)\n    out.copy_(self.right(x))\n    os._exit(0)\n"
        "return out",
    ),
    "returns_its_input": bare("parity", "aliased_output", "the input's memory", forward="return x"),
    "answers_in_its_input": bare("parity", "input_mutated", forward="x.copy_(self.right(x)); return x"),
    "right_for_captured_rows": bare(
        "parity",
        "zeros",
        top="""
from safetensors.torch import load_file
from pytest_frt.contracts.job import CandidateJob
job = next(one for one in gc.get_objects() if type(one) is CandidateJob)
KNOWN = {row.numpy().tobytes() for rows in load_file(job.seam_inputs).values() for row in rows}
""",
        forward="rows = x.reshape(-1, x.shape[-1])\n"
        "known = all(row.numpy().tobytes() in KNOWN for row in rows)\n"
        "return self.right(x) if known else torch.zeros_like(x)",
    ),
}
HANDS: Final[Mapping[str, Any]] = {
    "replaces_the_other_clock": touches("time.monotonic", "time.monotonic = lambda: 0.0"),
    "replaces_the_event": touches("torch.cuda.Event.elapsed_time", "torch.cuda.Event.elapsed_time = lambda *_: 1e-3"),
    "replaces_the_call": touches(
        "nn.modules.module.Module.__call__",
        "honest = nn.Module.__call__\nnn.Module.__call__ = lambda self, *a, **k: honest(self, *a, **k)",
    ),
    "replaces_code": touches(
        "torch.nn.functional.softmax", "F.softmax.__code__ = F.softmax.__code__.replace(co_name='other')"
    ),
    "replaces_our_guard": touches(
        "seat.guard.Guard.missed",
        "from pytest_frt.seat.guard import Guard\nhonest = Guard.missed\nGuard.missed = lambda *args: honest(*args)",
    ),
    "replaces_a_module": touches(
        "sys.modules: time",
        "from types import ModuleType\ntwin = ModuleType('time')\nvars(twin).update(vars(time))\n"
        "sys.modules['time'] = twin",
    ),
    "traces": touches("sys.gettrace", "sys.settrace(lambda *_: None)"),
    "profiles": touches("sys.getprofile", "sys.setprofile(lambda *_: None)"),
    "stops_the_collector": touches("gc.isenabled", "gc.disable()"),
    "hooks_the_collector": touches("gc.callbacks", "gc.callbacks.append(lambda *_: None)"),
    "sets_the_default_dtype": touches("torch.get_default_dtype", "torch.set_default_dtype(torch.float64)"),
    "sets_the_precision": bare(  # between its own answers: a CPU with matrix units in bfloat16 obeys
        "contract",
        "lifecycle",
        "float32_matmul_precision",
        forward="torch.set_float32_matmul_precision('highest')\ny = self.right(x)\n"
        "torch.set_float32_matmul_precision('medium')\nreturn y",
    ),
    "sets_determinism": touches("deterministic_algorithms", "torch.use_deterministic_algorithms(True)"),
    "pushes_a_mode": touches(
        "torch function modes",
        "from torch.overrides import BaseTorchFunctionMode\nMODE = BaseTorchFunctionMode()\nMODE.__enter__()",
    ),
    "changes_the_environment": touches("os.environ", "os.environ['OMP_NUM_THREADS'] = '64'"),
}
CLAIMS: Final[Mapping[str, Any]] = {
    "never_uses_its_kernel": bare(
        "seats",
        "kernel_unused",
        "pytest-frt/frt-cpu",
        top="class Plain(nn.Linear):\n    def __init__(self, w):\n        super().__init__(*w.shape, bias=False)\n"
        "        self.weight.data.copy_(w.t())",
        bind='return Plain(seat.weights["w"])',
    ),
}
ALL: Final = {**ANSWERS, **HANDS, **CLAIMS}
