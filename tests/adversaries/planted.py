"""Planted impls: each does one wrong thing over the real kernel, and is otherwise the sound impl beside it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from pytest_frt.spec.modules import load_file

Planted: Any = load_file(Path(__file__).with_name("template.py")).Planted
bare: Any = partial(Planted, structure="linear_proj")

SOUND: Final[Mapping[str, Any]] = {
    "sound": Planted(""),
    "sound_static": Planted("", scheme="fp8_static"),
    "sound_bare": Planted("", structure="linear_proj"),
    "noisy": Planted(
        "",
        top="import resource\nprint('LIMIT', *resource.getrlimit(resource.RLIMIT_FSIZE))",
        bind="print('{\"token\": 1}' * 5000)\nsys.stderr.write('\\x00\\xff\\n')\nos.write(1, b'\\xff\\x00')",
    ),
}
WRONG_ANSWERS: Final[Mapping[str, Any]] = {
    "nan": Planted("parity", "nan", forward="return self.right(x) * float('nan')"),
    "one_nan": bare("parity", "nan", forward="y = self.right(x); y.view(-1)[-1:] = float('nan'); return y"),
    "zeros": bare("parity", "zeros", forward="return torch.zeros_like(x)"),
    "gain": Planted("parity", "gain", "seam.slope 0.00999", forward="return self.right(x) * 1.01"),
    "swapped": Planted(
        "parity",
        "reference",
        forward="gate, up = self.gate_up(x).chunk(2, dim=-1); return self.down(F.silu(up) * gate)",
    ),
    "one_bad_row": Planted(
        "parity",
        "reference",
        forward="y = self.right(x); last = y.view(-1, y.shape[-1])[-1:]; last.copy_(last.flip(-1)); return y",
    ),
    "remembers_first_calls": bare(
        "parity",
        "zeros",
        forward="seen = (x.shape, x.numpy().tobytes())\n"
        "if len(self.kept) < 10: self.kept[seen] = self.right(x)\n"
        "return self.kept[seen].clone() if seen in self.kept else torch.zeros_like(x)",
    ),
    "remembers_calibration": Planted(
        "parity",
        "zeros",
        top="""
SEEN = set()
def watch(module, args):
    if type(module).__name__.endswith("MLP"):
        SEEN.update(row.numpy().tobytes() for row in args[0].reshape(-1, args[0].shape[-1]))
nn.modules.module.register_module_forward_pre_hook(watch)
""",
        forward="rows = x.reshape(-1, x.shape[-1])\n"
        "known = torch.tensor([row.numpy().tobytes() in SEEN for row in rows], dtype=torch.bool)\n"
        "known = known.view(*x.shape[:-1], 1)\n"
        "return torch.where(known, self.right(x), torch.zeros_like(x))",
        scheme="fp8_static",
    ),
    "inflates_scales": Planted(
        "parity",
        "calibration",
        "calibrating without impl code",
        top="""
def swell(module, args):
    return tuple(a * 1e4 if a.is_floating_point() else a for a in args) if type(module) is nn.Linear else args
SWELLING = nn.modules.module.register_module_forward_pre_hook(swell)
""",
        bind="SWELLING.remove()",
        scheme="fp8_static",
    ),
    "one_output_too_many": bare("parity", "shape", forward="y = self.right(x); return y, y"),
    "nothing": bare("parity", "shape", "NoneType", forward="self.right(x)"),
    "wide": bare("parity", "shape", forward="y = self.right(x); return torch.cat((y, y), -1)"),
    "doubles": bare("parity", "shape", "torch.float64", forward="return self.right(x).double()"),
    "wide_for_one_row_in_a_batch": bare(
        "parity", "shape", forward="y = self.right(x); return y if x.dim() < 3 else y.squeeze(0)"
    ),
}
WRONG_CONDUCT: Final[Mapping[str, Any]] = {
    "mutates": bare("parity", "input_mutated", forward="y = self.right(x); x.mul_(0.5); return y"),
    "mutates_behind_torch": bare(
        "parity",
        "input_mutated",
        top="torch.equal = lambda a, b: True\ntorch.Tensor.clone = lambda self, **_: self",
        forward="y = self.right(x); x.numpy()[...] *= 0.5; return y",
    ),
    "one_buffer": bare(
        "parity",
        "aliased_output",
        forward="y = self.right(x); return self.kept.setdefault(x.shape, torch.empty_like(y)).copy_(y)",
    ),
    "ring_of_buffers": bare(
        "parity",
        "aliased_output",
        forward="y = self.right(x)\n"
        "ring = self.kept.setdefault(x.shape, [torch.empty_like(y) for _ in range(5)])\n"
        "return ring[self.calls % 5].copy_(y)",
    ),
    "reads_fresh_memory": bare(
        "parity", "poison", forward="return self.right(x) + (torch.empty(64, 64).amax() > 1e30) * 1e-9"
    ),
    "writes_weights": Planted("seats", "swap", "wrote to w_gate", bind='seat.weights["w_gate"].mul_(1.0)'),
    "writes_weights_unseen": Planted(
        "parity",
        "host_written",
        bind='part = Part(seat, scales, kernel)\nseat.weights["w_gate"].data.numpy()[0] += 1\nreturn part',
    ),
    "writes_weights_later": Planted(
        "parity",
        "host_written",
        top="HELD = []",
        bind='HELD.append(seat.weights["w_up"])',
        forward="HELD[0].data.mul_(0.5); return self.right(x)",
    ),
    "replaces_silu": bare(
        "contract", "lifecycle", "torch.nn.functional.silu", top="F.silu = lambda x: x.sigmoid() * x"
    ),
    "replaces_clock": bare("contract", "lifecycle", "time.perf_counter", top="time.perf_counter = lambda: 0.0"),
    "replaces_metrics": bare(
        "parity",
        "gain",
        top="import pytest_frt.measure.metrics as m, pytest_frt.rules.seam as s\n"
        "s.breaches = lambda *_: ()\nm.seam_metrics = None",
        forward="return self.right(x) * 1.01",
    ),
    "slows_the_host": Planted(
        "contract",
        "lifecycle",
        "Qwen3MLP.forward",
        top="""
for module in list(sys.modules.values()):
    if "Qwen3MLP" in vars(module):
        honest = module.Qwen3MLP.forward
        module.Qwen3MLP.forward = lambda self, x: (time.sleep(1e-4), honest(self, x))[1]
""",
    ),
    "hooks_the_host": Planted(
        "contract",
        "lifecycle",
        "_forward_hooks",
        top="nn.modules.module.register_module_forward_hook(lambda *_: None)",
    ),
    "takes_threads": bare("contract", "lifecycle", "torch.get_num_threads", top="torch.set_num_threads(2)"),
    "leaves_a_thread": bare(
        "contract",
        "lifecycle",
        "threads of Python",
        top="import threading\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
    ),
}
DEATHS: Final[Mapping[str, Any]] = {
    "exits_at_import": bare("seats", "CRASH", "exit status 0 with no completion", top="os._exit(0)"),
    "exits_in_bind": bare("seats", "CRASH", "exit status 0 with no completion", bind="os._exit(0)"),
    "exits_in_forward": bare("seats", "CRASH", "exit status 0 with no completion", forward="os._exit(0)"),
    "exits_in_the_host": Planted(
        "parity",
        "CRASH",
        "exit status 0 with no completion",
        forward="if x.shape[0] == 6 and x.dim() == 3: os._exit(0)\nreturn self.right(x)",
    ),
    "raises_in_bind": bare("seats", "CRASH", "ValueError: lost", bind='raise ValueError("lost")'),
    "raises_in_forward": bare("seats", "CRASH", "ValueError: lost", forward='raise ValueError("lost")'),
    "segfaults": bare("seats", "CRASH", "SIGSEGV", bind="os.kill(os.getpid(), 11)"),
    "leaves_an_orphan": bare(
        "parity",
        "CRASH",
        "running processes behind",
        bind="if not os.fork():\n    os.setsid()\n    time.sleep(600)",
    ),
    "needs_another_kernel": bare("seats", "kernel_unavailable", "no fp4", bind='raise KernelUnavailable("no fp4")'),
    "refuses": bare("seats", "too_hot", bind='return Refusal("bind", "too_hot", "not today")'),
    "binds_a_number": bare("seats", "spec", "returned int", bind="return 7"),
}
HANGS: Final[Mapping[str, Any]] = {
    "hangs_in_bind": bare("seats", "TIMEOUT", "no result after", bind="time.sleep(600)"),
    "hangs_in_the_host": Planted(
        "parity",
        "TIMEOUT",
        "no result after",
        forward="if x.shape[0] == 6 and x.dim() == 3: time.sleep(600)\nreturn self.right(x)",
    ),
}
JOB: Final = """
import gc
from pytest_frt.contracts.job import CandidateJob
def job():
    return next(one for one in gc.get_objects() if type(one) is CandidateJob)
"""
MEDDLERS: Final[Mapping[str, Any]] = {
    "looks_for_answers": Planted(
        "parity",
        "zeros",
        top=JOB
        + """
from safetensors import safe_open
def look():
    out = Path(job().out)
    for file in sorted(out.parent.parent.rglob("*")):
        if file.is_file() and file.suffix in {".safetensors", ".pt", ".npy"} and out not in file.parents:
            with safe_open(file, framework="pt") as tensors:
                for key in tensors.keys():
                    print("FOUND", file.name, key, list(tensors.get_slice(key).get_shape()), flush=True)
""",
        bind="look()",
        forward="return torch.zeros_like(x)",
    ),
    "clears_the_inputs": bare(
        "parity",
        "tampered",
        "seam_inputs.safetensors",
        top=JOB
        + """
from safetensors.torch import load_file, save_file
""",
        bind="file = job().seam_inputs\nsave_file({k: torch.zeros_like(v) for k, v in load_file(file).items()}, file)",
        forward="return torch.zeros_like(x)",
    ),
    "removes_the_seats": bare(
        "parity",
        "tampered",
        "seats.json",
        top=JOB,
        bind="os.unlink(job().seats) if os.path.exists(job().seats) else None",
    ),
    "rewrites_itself": Planted(
        "parity", "tampered", "rewrites_itself.py", bind='Path(__file__).write_text(Path(__file__).read_text() + "#")'
    ),
    "forges_evidence": bare(
        "seats",
        "CRASH",
        "not a CandidateEvidence",
        top="import pytest_frt.spec.codec as codec\ncodec.dumps = lambda _: '{}'",
    ),
    "leaves_a_pipe": bare(
        "seats",
        "CRASH",
        "no plain file",
        top=JOB,
        bind="pipe = Path(job().out, 'seam.safetensors')\n"
        "sys.modules['pytest_frt.lab.candidate'].save_file = lambda *_: pipe.exists() or os.mkfifo(pipe)",
    ),
    "omits_the_cases": bare(
        "parity",
        "shape",
        "0 outputs",
        top="""
lab = sys.modules["pytest_frt.lab.candidate"]
honest = lab.save_file
lab.save_file = lambda tensors, file: honest({k: v for k, v in tensors.items() if not k.startswith("case/")}, file)
""",
    ),
}
REFUSED: Final = {**WRONG_ANSWERS, **WRONG_CONDUCT, **DEATHS, **MEDDLERS}
