"""Planted impls over the bare host that reach out: for the judge, for files of the run, for processes and memory.

``WHERE`` names what lies around the run; an impl of a stranger would have to search for it, these are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from pytest_frt.spec.modules import load_file

bare: Any = partial(load_file(Path(__file__).with_name("template.py")).Planted, structure="linear_proj")
WHERE: Final = "where.json"
"""File beside the impls: ``out``, ``key``, ``kernel``, ``structure``, ``impls``."""
TOLD: Final = f"""
import json, gc
from pytest_frt.contracts.job import CandidateJob
WHERE = {{name: Path(path) for name, path in json.loads(Path(__file__).with_name("{WHERE}").read_text()).items()}}
OUT = Path(next(one for one in gc.get_objects() if type(one) is CandidateJob).out)
"""
ANCESTORS: Final = """
def ancestors():
    pid = os.getppid()
    while pid > 1:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
"""
OTHER: Final = "return self.right(x).double()"
"""Is seen at once by the worker itself, which spares the rest of the judgement."""


def spies(top: str, bind: str = "pass") -> Any:
    """Return an impl whose answers are of another dtype: what it does beside that must not help it."""
    return bare("parity", "shape", top=top, bind=bind, forward=OTHER)


def writes(says: str, bind: str, forward: str = OTHER) -> Any:
    """Return an impl that writes to a source of the run, which weighs more than what it answers."""
    return bare("parity", "tampered", says, top=TOLD, bind=bind, forward=forward)


SPIES: Final[Mapping[str, Any]] = {
    "looks_for_the_key": spies(
        TOLD
        + ANCESTORS
        + """
secret = WHERE["key"].read_bytes()[:24]
print("READ", len(secret))
for pid in [os.getpid(), *ancestors()]:
    for name in ("environ", "cmdline"):
        print(name, pid, "FOUND" if secret in Path(f"/proc/{pid}/{name}").read_bytes() else "nothing")
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        where, rights, *_, inode = line.split()[:5]
        start, end = (int(edge, 16) for edge in where.split("-"))
        if rights.startswith("rw") and inode == "0" and pid != os.getpid():
            try:
                with open(f"/proc/{pid}/mem", "rb", 0) as memory:
                    memory.seek(start)
                    print("memory", pid, "FOUND" if secret in memory.read(min(end - start, 1 << 27)) else "nothing")
            except OSError as fault:
                print("memory", pid, fault.strerror)
""",
    ),
    "looks_for_secrets": spies("print('SECRETS', [name for name in os.environ if name.endswith(('TOKEN', 'KEY'))])"),
    "imports_pytest": spies(
        """
import _pytest.config, _pytest.main, pytest
found = [one for one in gc.get_objects() if isinstance(one, (_pytest.main.Session, _pytest.config.Config))]
print("SESSIONS", len(found))
pytest.exit = _pytest.main.wrap_session = lambda *_, **__: 0
"""
    ),
    "plants_a_statement": spies(
        TOLD,
        'where = WHERE["out"] / "bare" / "host_cpu"\nwhere.mkdir(parents=True, exist_ok=True)\n'
        'for end in ("statement.json", "frt.intoto.jsonl"):\n    (where / f"planted.{end}").write_text("{}")',
    ),
    "writes_the_verdict": spies(
        TOLD,
        'for name in ("parity.json", "oracle.json", "verdict.json", "completion.json", "report.json"):\n'
        '    (OUT / name).write_text(\'{"seam": [], "host": [], "zeroed": []}\')',
    ),
    "writes_at_exit": spies(
        TOLD + 'import atexit\natexit.register(lambda: (OUT / "seam.safetensors").unlink(missing_ok=True))'
    ),
    "resets_the_attempts": spies(
        TOLD, 'WHERE["out"].mkdir(exist_ok=True)\n(WHERE["out"] / "attempts.json").unlink(missing_ok=True)'
    ),
}
WRITERS: Final[Mapping[str, Any]] = {
    "rewrites_the_kernel": writes("kernel", 'next(WHERE["kernel"].rglob("__init__.py")).open("a").write("#")'),
    "adds_to_the_kernel": writes(
        "kernel", 'next(WHERE["kernel"].rglob("__init__.py")).with_name("more.py").write_text("#")'
    ),
    "rewrites_the_structure": writes("structure.yaml", '(WHERE["structure"] / "structure.yaml").open("a").write("#")'),
    "rewrites_the_reference": writes("reference.py", '(WHERE["structure"] / "reference.py").open("a").write("#")'),
    "rewrites_the_cases": writes("cases.py", '(WHERE["structure"] / "cases.py").open("a").write("#")'),
    "rewrites_the_host": writes("host.py", '(WHERE["host"] / "host.py").open("a").write("#")'),
    "rewrites_another_impl": writes(
        "sound_bare.py",
        '(WHERE["impls"] / "linear_proj" / "sound_bare.py").open("a").write("#")',
        forward="return self.right(x)",
    ),
}
FORGERS: Final[Mapping[str, Any]] = {
    "forges_the_completion": bare(
        "seats",
        "CRASH",
        "left no candidate.json",
        top=TOLD
        + """
frame = sys._getframe()
while frame and "token" not in frame.f_locals:
    frame = frame.f_back
(OUT / "completion.json").write_text(json.dumps({"token": frame.f_locals["token"], "fault": None}))
os._exit(0)
""",
    ),
    "guesses_the_completion": bare(
        "seats",
        "CRASH",
        "not this run's",
        top=TOLD + '(OUT / "completion.json").write_text(\'{"token": "0", "fault": null}\')\nos._exit(0)',
    ),
    "links_its_evidence": bare(
        "seats", "CRASH", "no plain file", top=TOLD + '(OUT / "candidate.json").symlink_to(OUT / "elsewhere")'
    ),
    "links_its_outputs": bare(
        "seats",
        "CRASH",
        "no plain file",
        top=TOLD
        + """
lab = sys.modules["pytest_frt.lab.candidate"]
honest = lab.save_file
def linked(tensors, file):
    honest(tensors, f"{file}.other")
    Path(file).symlink_to(f"{file}.other")
lab.save_file = linked
""",
    ),
    "forges_its_scores": bare(
        "seats",
        "CRASH",
        "holds 0 scores",
        top=TOLD
        + """
lab = sys.modules["pytest_frt.lab.candidate"]
honest = lab.save_file
lab.save_file = lambda tensors, file: honest({} if Path(file).name == "scores.safetensors" else tensors, file)
from pytest_frt.lab.census import Census
Census.changed = lambda self: ()
""",
    ),
    "leaves_huge_evidence": bare(
        "seats",
        "CRASH",
        "over the cap",
        top=TOLD
        + """
for part in range(2):
    with open(OUT / f"part{part}", "wb") as file:
        file.truncate((1 << 31) - 1)
""",
    ),
}
GLUTTONS: Final[Mapping[str, Any]] = {
    "fills_a_file": bare(
        "seats", "CRASH", "File too large", top=TOLD, bind='open(OUT / "part", "wb").truncate(1 << 40)'
    ),
    "bombs_memory": bare(
        "seats",
        "CRASH",
        "Cannot allocate memory",
        bind="import mmap\nNORESERVE = 0x4000\n"
        "mmap.mmap(-1, 1 << 45, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)",
    ),
    "uses_up_descriptors": bare(
        "seats",
        "CRASH",
        "Too many open files",
        bind="import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))\n"
        "held = [os.open('/dev/null', 0) for _ in range(1 << 12)]",
    ),
    "recurses": bare("seats", "CRASH", "RecursionError", bind="bind(seat, scales, kernel)"),
}
DAEMONS: Final[Mapping[str, Any]] = {
    "leaves_a_daemon": bare(
        "parity",
        "CRASH",
        "running processes behind",
        bind="if not os.fork():\n    os.setsid()\n    if os.fork():\n        os._exit(0)\n"
        "    for fd in range(3): os.close(fd)\n    time.sleep(600)",
    ),
    "execs_a_daemon": bare(
        "parity",
        "CRASH",
        "running processes behind",
        bind='import subprocess\nsubprocess.Popen(["sleep", "600"], start_new_session=True, env={})',
    ),
    "leaves_many_processes": bare(
        "parity",
        "CRASH",
        "running processes behind",
        bind="for _ in range(20):\n    if not os.fork():\n        time.sleep(600)",
    ),
    "kills_its_supervisor": bare(
        "seats", "CRASH", "the supervisor of the job was killed", bind="os.kill(os.getppid(), 9)"
    ),
}
HANGS: Final[Mapping[str, Any]] = {
    "hangs_at_import": bare("seats", "TIMEOUT", "no result after", top="time.sleep(600)"),
    "hangs_in_forward": bare("seats", "TIMEOUT", "no result after", forward="time.sleep(600)"),
    "hangs_deaf_to_signals": bare(
        "seats",
        "TIMEOUT",
        "no result after",
        bind="import signal\nfor one in (signal.SIGTERM, signal.SIGINT): signal.signal(one, signal.SIG_IGN)\n"
        "while True: pass",
    ),
}
ALL: Final = {**SPIES, **WRITERS, **FORGERS, **GLUTTONS, **DAEMONS}
