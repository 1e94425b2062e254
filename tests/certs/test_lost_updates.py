"""Commands that change one file at once lose nothing of one another: what exits 0 is in the file."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import dsse, index_build, keys, lock, policy, policy_edit, store
from pytest_frt.certs.index import build_index
from pytest_frt.errors import CertificateRefused

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


@pytest.fixture
def trust(world: World, tmp_path: Path) -> Path:
    path = tmp_path / "frt-trust.toml"
    path.write_text(world.policy_text)
    path.chmod(0o644)
    return path


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


def _add(place: Path) -> None:
    store.add_line(place, "{}")


def _edit(place: Path) -> None:
    with policy_edit.held(place):
        pass


def _index(place: Path) -> None:
    index_build.cosign(place.parent, keys.generate())


WRITERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "set": (f"one{store.CERTIFICATE_SUFFIX}", _add),
    "policy": ("frt-trust.toml", _edit),
    "index": (store.INDEX_NAME, _index),
}


@pytest.mark.parametrize(("name", "write"), WRITERS.values(), ids=WRITERS)
def test_a_lock_that_is_never_given_back_is_refused(
    trust: Path, monkeypatch: pytest.MonkeyPatch, name: str, write: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(lock, "WAIT_S", 0.05)
    place = trust.with_name(name)
    with Path(f"{place}{lock.SUFFIX}").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(CertificateRefused, match="held by another process") as caught:
            write(place)
    assert caught.value.refusal_code == "FILE_BUSY"


def test_a_lock_whose_file_was_removed_is_not_the_lock(tmp_path: Path) -> None:
    """The waiter of a removed file would otherwise work beside the holder of the new one."""
    place = tmp_path / "one"
    with lock.locked(place, special="SET_FILE"):
        old = (tmp_path / "one.lock").stat().st_ino
        spare = (tmp_path / "spare").open("w")  # keeps the number from being used again
        (tmp_path / "one.lock").rename(tmp_path / "gone")
        with lock.locked(place, special="SET_FILE"):
            assert (tmp_path / "one.lock").stat().st_ino != old
    spare.close()
