"""The main job, end to end, on a trained model: certify, sign, verify, attach in a fresh process, detach.

Usage: python examples/demo.py [--quick] [--work DIR]

Certifies cells of Gemma-3-270M in decode on this machine's CPU. The first run converts the packaged weights once.
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
RECORDS = (
    "linear_proj-torch_packed-*-w16a32-*@eager.decode.*",  # the head and the output projections, weights in float16
    "decoder_ffn-torch_packed-*-w16a32-*@eager.verify.*",  # the feed-forward blocks at several tokens per step
    "decoder_ffn-torch_int8-*-w8a8_dynamic-*@eager.decode.*",  # dynamic int8: the fastest, and wrong on trained weights
    "decoder_ffn-fused_fp32-*-none-*@eager.decode.*",  # merged gate and up in float32: exact, and not faster
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
    parser.add_argument("--quick", action="store_true", help="provisional timing; certifies nothing")
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

    say("certify")
    began = time.monotonic()
    quick = ("--frt-quick",) if given.quick else ()
    out = (f"--frt-out={certificates}", f"--frt-sign-key={key}", f"--frt-json={work / 'report.json'}")
    # 1: the refused cells are part of the story, and a refusal by parity is a failure of the run.
    run(
        pytest, "-q", f"--frt-host={HOST}", *(f"--frt-record={glob}" for glob in RECORDS), *quick, *out, allow=(0, 1, 6)
    )
    if given.quick:
        print(f"\nquick main job: {time.monotonic() - began:.0f} s")
        return

    say("verify, offline")
    run(frt, "verify", certificates, "--trust", trust)
    say("deploy in a fresh process")
    run(sys.executable, HERE / "deploy.py", checkpoint, certificates, trust)
    print(f"\nmain job: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
