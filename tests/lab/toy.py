"""A toy host whose one projection wastes time, and impls that do well, do nothing, cheat or die."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from pytest_frt.contracts.host import BuildRequest
from pytest_frt.contracts.job import HostRef, TimingJob, UnitRef
from pytest_frt.contracts.seat import ModuleSeat, PointAt, SeatFacts, SlotRef
from pytest_frt.seat.noarch import build_noarch, read_project
from pytest_frt.spec import codec
from pytest_frt.spec.tree import tree_digest, tree_files

EDGE = 768
HOST_YAML = """
name: toy
summary: One wasteful projection.
output: values
sizes: [tiny]
weights: {tiny: random}
forms: [eager, compiled]
phases: [{name: decode, rows: [1, 8], timed_rows: 4, score_positions: 1}]
calibration_samples: 1
heldout_samples: 1
"""
HOST = f"""
import torch
from torch import nn

class Wasteful(nn.Linear):
    turns = 3

    def forward(self, x):
        for _ in range(self.turns):
            y = super().forward(x)
        return y

class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = Wasteful({EDGE}, {EDGE}, bias=False)

    def forward(self, x):
        return self.proj(x)

def build(request):
    torch.manual_seed(request.seed)
    return Toy()

def samples(request):
    generator = torch.Generator().manual_seed(request.seed)
    while True:
        yield {{"x": torch.randn(1, 4, {EDGE}, generator=generator)}}

def prepare(model, samples, phase):
    return samples[0]["x"]

def fresh(model, state, seed):
    return torch.randn(state.shape, generator=torch.Generator().manual_seed(seed))

def run(model, state):
    return model(state)

def compile(model, phase):
    model.proj.turns = 1
"""
IMPL = """
import torch
from torch import nn
from pytest_frt.sdk import Impl

IMPL = Impl(
    name="{name}", structure="linear_proj", version=1, schemes=("none",), kernel="toy/toy", rows={{"none": (1, 8)}}
)

class Part(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = w.T.clone()

    def forward(self, x):
        for _ in range({turns}):
            y = nn.functional.linear(x, self.w)
        return y{spoil}

def bind(seat, scales, kernel):
    return Part(seat.weights["w"])
"""
SLEEP_IN_BASE = """
import sys, time
for module in list(sys.modules.values()):
    if "Wasteful" in vars(module):
        honest = module.Wasteful.forward
        def slow(self, x):
            time.sleep(0.001)
            return honest(self, x)
        module.Wasteful.forward = slow
"""
HALVE_THE_CLOCK = """
import gc
for found in gc.get_objects():
    if type(found).__name__ == "Clock":
        found._read = lambda read=found._read: read() / 4
"""
KEEP_ANSWERS = """
honest, answers = Part.forward, {}
def kept(self, x):
    seen = x.numpy().tobytes()
    if seen not in answers:
        answers[seen] = honest(self, x)
    return answers[seen]
Part.forward = kept
"""
IMPLS = {
    "faster": IMPL.format(name="faster", turns=1, spoil=""),
    "equal": IMPL.format(name="equal", turns=3, spoil=""),
    "wrong": IMPL.format(name="wrong", turns=1, spoil=" * torch.tensor([1.0, 0.0]).repeat(x.shape[-1] // 2)"),
    "sleeps_in_base": IMPL.format(name="sleeps_in_base", turns=3, spoil="") + SLEEP_IN_BASE,
    "keeps_answers": IMPL.format(name="keeps_answers", turns=3, spoil="") + KEEP_ANSWERS,
    "lies": IMPL.format(name="lies", turns=3, spoil="") + HALVE_THE_CLOCK,
}
SEAT = SeatFacts(
    structure="linear_proj",
    seat=ModuleSeat("proj"),
    variant={"bias": "none"},
    dims={"K": EDGE, "N": EDGE},
    slots={"w": SlotRef("proj.weight", transpose=True)},
    constants={},
    dtype="float32",
    points={"x": PointAt("proj")},
)


class Toy:
    """The toy's files in one folder.

    Args:
        folder: Where to write them.
        repository: The clone, for a structure and a scheme.
    """

    def __init__(self, folder: Path, repository: Path) -> None:
        self._folder, self._repository = folder, repository
        for name, text in {"toy/host.yaml": HOST_YAML, "toy/host.py": HOST, "seats.json": codec.dumps((SEAT,))}.items():
            self._write(name, text)
        for name, text in IMPLS.items():
            self._write(f"impls/linear_proj/{name}.py", text)
        self._write("kernel/build.toml", _BUILD_TOML)
        self._write("kernel/torch-ext/toy/__init__.py", "")
        (self._variant,) = build_noarch(read_project(folder / "kernel"), folder / "kernel" / "build")

    def job(self, *impls: str, base_form: str = "eager", states: int = 3) -> TimingJob:
        """Return a timing job with one arm per impl."""
        host = HostRef("toy", str(self._folder / "toy"), BuildRequest("tiny", 0, None, "cpu", ""), 1)
        arms = {"base": (), **{name: (self._unit(name),) for name in impls}}
        seats = str(self._folder / "seats.json")
        return TimingJob(host, arms, seats, {}, ("decode",), "eager", base_form, states, "")

    def _unit(self, impl: str) -> UnitRef:
        digest = tree_digest(tree_files(self._variant))
        structure, scheme = (
            self._repository / "catalog" / "linear_proj",
            self._repository / "pytest_frt" / "schemes" / "none.py",
        )
        file = str(self._folder / "impls" / "linear_proj" / f"{impl}.py")
        return UnitRef(
            "linear_proj",
            str(structure),
            impl,
            file,
            "none",
            str(scheme),
            "toy/toy",
            str(self._variant),
            digest,
            (1, 8),
        )

    def _write(self, name: str, text: str) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


_BUILD_TOML = dedent("""
    [general]
    name = "toy"
    version = 1
    edition = 5
    license = "MIT"
    backends = ["cpu"]
    [general.hub]
    repo-id = "toy/toy"
    [torch-noarch]
""")
