"""Commands that change one file at once lose nothing of one another: what exits 0 is in the file."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_frt.certs import dsse, index_build, keys, policy, store
from pytest_frt.certs.index import build_index

if TYPE_CHECKING:
    from tests.certs.conftest import World

PROCESSES = 8
HALF = [f"{number:x}" * 64 for number in range(PROCESSES // 2)]
AHEAD = 5_000_000_000
# Everyone waits for the gate, and pauses after reading: without a lock all read the same file and one write remains.
RUN = textwrap.dedent("""
    import sys, time
    from contextlib import nullcontext
    from pathlib import Path
    from pytest_frt.certs import files, index_build, policy_edit, store
    from pytest_frt.cli import main

    def slow(module, name):
        read = getattr(module, name)
        def later(*args, **options):
            answer = read(*args, **options)
            time.sleep(0.05)
            return answer
        setattr(module, name, later)

    slow(policy_edit, "read_owned"); slow(store, "read_some"); slow(index_build, "previous")
    if sys.argv[1] == "no lock":
        for module in (policy_edit, store):
            module.locked = lambda *_, **__: nullcontext()
    gate = Path(sys.argv[2])
    print("ready", flush=True)
    while not gate.exists():
        time.sleep(0.005)
    sys.exit(main(sys.argv[3:]))
""")


def at_once(folder: Path, commands: Sequence[Sequence[str]], how: str = "as it is") -> None:
    """Run the commands together, and fail unless each exits 0; ``no lock`` runs the mutant that takes none."""
    gate = folder / "gate"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", RUN, how, str(gate), *argv],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for argv in commands
    ]
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    gate.touch()
    said = [process.communicate()[1].decode() for process in running]
    assert [process.returncode for process in running] == [0] * len(running), said


def test_keys_and_denials_at_once_are_all_kept(trust: Path) -> None:
    texts = [keys.generate().public.text for _ in HALF]
    more = [["trust", "add-key", text, "--owner", f"o{n}"] for n, text in enumerate(texts)]
    at_once(trust.parent, [*more, *(["trust", "revoke", "--tree", one, "--reason", "bad"] for one in HALF)])
    loaded = policy.load(trust)
    assert {key.public.text for key in loaded.keys} >= set(texts)
    assert ({one.value for one in loaded.deny}, loaded.version) == (set(HALF), 7 + PROCESSES)


def withdraw(world: World, folder: Path, how: str) -> tuple[set[str], int]:
    """Build an index and withdraw trees, all at once; return which trees it then names, and how often it was written.

    The first version is far ahead of the clock, so that each writing adds one to it.
    """
    keys.write_private(folder / "alice.pem", world.alice)
    (folder / "certs").mkdir()
    far = datetime(2100, 1, 1, tzinfo=UTC)
    first = build_index(issuer="acme", version=AHEAD, issued_at=far, expires=far + timedelta(days=1), current=())
    (folder / "certs" / store.INDEX_NAME).write_text(f"{dsse.sign(first, world.alice)}\n")
    rest = ["certs", "--key", "alice.pem"]
    less = [["index", "revoke", *rest, "--tree", one, "--reason", "bad"] for one in HALF]
    at_once(folder, [*less, *(["index", "build", *rest] for _ in HALF)], how)
    found = index_build.previous(folder / "certs", world.alice.public)
    assert found is not None
    return {one.sha256 for one in found.index.revoked}, found.index.version - AHEAD


def test_builds_and_withdrawals_at_once_are_all_kept(world: World, tmp_path: Path) -> None:
    assert withdraw(world, tmp_path, "as it is") == (set(HALF), PROCESSES)


def test_without_the_lock_some_are_lost(world: World, tmp_path: Path) -> None:
    named, times = withdraw(world, tmp_path, "no lock")
    assert named <= set(HALF)
    assert times < PROCESSES


def test_eight_signatures_at_once_are_all_kept(world: World, tmp_path: Path) -> None:
    path = store.write_statement(tmp_path / "certs", world.payload())
    signers = [keys.generate() for _ in range(PROCESSES)]
    for number, key in enumerate(signers):
        keys.write_private(tmp_path / f"{number}.pem", key)
    at_once(tmp_path, [["sign", "--key", f"{number}.pem", str(path)] for number in range(PROCESSES)])
    (found,) = store.read(tmp_path / "certs")
    assert isinstance(found, store.SetFile)
    stated = {one.keyid for line in found.lines for one in dsse.parse_envelope(line).signatures}
    assert stated == {key.public.keyid for key in signers}
    assert {file.suffix for file in path.parent.iterdir()} == {".json", ".jsonl"}
