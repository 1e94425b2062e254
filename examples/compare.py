"""Time certified seats against the compiled host, pairwise in one process: a line for people, never a certificate.

Usage: python examples/compare.py CHECKPOINT CERTIFICATES TRUST
"""

from __future__ import annotations

import argparse
import copy
import random
import time
import warnings
from statistics import median

import torch
from transformers import AutoTokenizer, DynamicCache, Gemma3ForCausalLM
from transformers.utils import logging

from pytest_frt import attach

PROMPT = "A harness that proves a piece of a model before anyone runs it has to answer three questions. " * 4
BLOCKS = 10
"""Blocks of two pairs, AB BA or BA AB by a fair draw: a bias of the second place cancels inside a block."""


class Decoder:
    """One decode step of a model after a prompt, repeatable.

    Args:
        model: The model.
        prompt: Token ids ``[1, P]``.
    """

    def __init__(self, model: Gemma3ForCausalLM, prompt: torch.Tensor) -> None:
        self._model, self._next = model, prompt[:, -1:]
        self._cache = DynamicCache(config=model.config)
        model(prompt, past_key_values=self._cache, use_cache=True)

    def seconds(self) -> float:
        """Run one step and return its seconds."""
        cache = copy.deepcopy(self._cache)
        began = time.perf_counter()
        self._model(self._next, past_key_values=cache, use_cache=True)
        return time.perf_counter() - began


@torch.no_grad()
def main() -> None:
    """Print the ratio of medians' pairs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="local checkpoint directory")
    parser.add_argument("certificates", help="certificate directory")
    parser.add_argument("trust", help="trust policy")
    given = parser.parse_args()
    # The name of the cache argument changes between the releases of transformers that are supported.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    certified, compiled = (
        Gemma3ForCausalLM.from_pretrained(given.checkpoint, dtype=torch.float32).eval() for _ in range(2)
    )
    prompt = AutoTokenizer.from_pretrained(given.checkpoint)(PROMPT, return_tensors="pt").input_ids
    handle = attach(certified, certificates=given.certificates, trust=given.trust, phase="decode")
    if not handle.active:
        raise SystemExit(handle.explain())
    for layer in compiled.model.layers:
        layer.compile(isolate_recompiles=True)
    arms = [Decoder(certified, prompt), Decoder(compiled, prompt)]
    for arm in arms:
        arm.seconds()
        arm.seconds()
    ratios = []
    for _ in range(BLOCKS):
        order = random.sample((0, 1), 2)
        for turn in (order, order[::-1]):
            taken = {index: arms[index].seconds() for index in turn}
            ratios.append(taken[1] / taken[0])
    served = sum(entry.served for entry in handle.report())
    handle.detach()
    print(
        f"comparison, one process, no certificate: certified seats are {median(ratios):.3f}x of the host with every "
        f"layer compiled ({len(ratios)} pairs from {min(ratios):.3f} to {max(ratios):.3f}; {served} calls answered)"
    )


if __name__ == "__main__":
    main()
