"""The main job, end to end, on a trained model: certify, sign, verify, attach in a fresh process, detach.

Usage: python examples/demo.py [--quick] [--main] [--work DIR]

Certifies a cell of Gemma-3-270M in decode on this machine's CPU; the clock of the main job covers that, the audit and
the deployment. Beside it, on a clock of its own: a second structure, what is refused, what does not pay, and the
compiled host. The first run converts the packaged weights once.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from pytest_frt.registry import Registry, load_module
from pytest_frt.sdk import BuildRequest
from pytest_frt.settings import default_cache

HOST = "gemma3_270m"
MAIN = ("linear_proj-torch_packed-*-w16a32-*@eager.decode.*",)  # the head and the output projections, in float16
QUICK = ("decoder_ffn-torch_packed-*-none-*@eager.decode.*",)
BESIDE = (
    "decoder_ffn-torch_packed-*-w16a32-*@eager.verify.*",  # the feed-forward blocks at several tokens per step
    "decoder_ffn-torch_int8-*-w8a8_dynamic-*@eager.decode.*",  # dynamic int8: the fastest, and wrong on trained weights
    "decoder_ffn-torch_packed-*-none-*@eager.decode.*",  # merged gate and up in float32: exact, and not faster
)
HERE = Path(__file__).resolve().parent


def say(text: str) -> None:
    """Print a heading."""
    print(f"\n== {text}", flush=True)


def run(*command: str | Path, allow: tuple[int, ...] = (0,)) -> float:
    """Run a command, show it, and return its seconds.

    Raises:
        SystemExit: it ended with another exit code than allowed.
    """
    words = [str(word) for word in command]
    print("$ " + " ".join([Path(words[0]).name, *words[1:]]), flush=True)
    began = time.monotonic()
    code = subprocess.run(words, check=False, env={**os.environ, "HF_HUB_OFFLINE": "1"}).returncode
    if code not in allow:
        raise SystemExit(f"exit code {code}")
    return time.monotonic() - began


def prepared_checkpoint() -> Path:
    """Convert the packaged weights once and return the checkpoint directory."""
    entry = Registry.load().host(HOST)
    program = load_module(entry.folder / "host.py")
    request = BuildRequest(size="real", seed=0, checkpoint=None, device="cpu", cache=str(default_cache()))
    next(iter(program.samples(request)))
    return Path(program.checkpoint(request).files[0]).parent


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="provisional timing of one cell; certifies nothing")
    parser.add_argument("--main", action="store_true", help="the main job alone")
    parser.add_argument("--work", type=Path, default=Path("frt-demo"), help="folder for key, policy and certificates")
    given = parser.parse_args()
    work: Path = given.work
    work.mkdir(parents=True, exist_ok=True)
    frt, pytest = (Path(sys.executable).with_name(name) for name in ("frt", "pytest"))
    key, trust, certificates = work / "frt-key.pem", work / "frt-trust.toml", work / "frt-certs"

    say("installation, part 2: convert the trained weights once")
    checkpoint = prepared_checkpoint()
    if not key.exists():
        run(frt, "keygen", key)
        run(frt, "trust", "init", "--key", key.with_suffix(".pub"), "-o", trust)

    def certify(name: str, records: tuple[str, ...], *options: str, allow: tuple[int, ...]) -> None:
        out = (
            f"--frt-out={certificates}",
            f"--frt-sign-key={key}",
            f"--frt-json={work / name}.json",
            f"--frt-html={work / name}.html",
        )
        chosen = (f"--frt-host={HOST}", *(f"--frt-record={glob}" for glob in records))
        run(pytest, "-q", *chosen, "--frt-no-comparison", *options, *out, allow=allow)

    began = time.monotonic()
    if given.quick:
        say("provisional")
        certify("quick", QUICK, "--frt-quick", allow=(6,))
        print(f"\nquick form: {time.monotonic() - began:.0f} s")
        return
    say("certify")
    certify("main", MAIN, allow=(0,))
    say("verify, offline")
    run(frt, "verify", certificates, "--trust", trust)
    say("deploy in a fresh process")
    deployed = (checkpoint, certificates, trust)
    run(sys.executable, HERE / "deploy.py", *deployed)
    print(f"\nmain job: {time.monotonic() - began:.0f} s")
    if given.main:
        return

    say("beside it: a second structure, and what is refused")
    began = time.monotonic()
    # 1: a refusal by parity is a failure of the run, and part of the story here.
    certify("beside", BESIDE, allow=(1,))
    run(frt, "verify", certificates, "--trust", trust)
    say("beside it: the compiled host")
    run(sys.executable, HERE / "compare.py", *deployed)
    print(f"\nbeside it: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
