"""Attach certified seats to a model in a fresh process, generate text, detach, and prove the host unchanged.

Usage: python examples/deploy.py CHECKPOINT CERTIFICATES TRUST
"""

from __future__ import annotations

import argparse
import hashlib

import torch
from transformers import AutoTokenizer, Gemma3ForCausalLM
from transformers.utils import logging

from pytest_frt import attach

PROMPT = "The capital of France is"


def state_digest(model: torch.nn.Module) -> str:
    """Return one digest over every tensor of the model, names included."""
    sha = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        sha.update(name.encode())
        sha.update(tensor.contiguous().view(torch.uint8).numpy())
    return sha.hexdigest()


def main() -> None:
    """Run the deployer's side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", help="local checkpoint directory")
    parser.add_argument("certificates", help="certificate directory")
    parser.add_argument("trust", help="trust policy")
    given = parser.parse_args()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    model = Gemma3ForCausalLM.from_pretrained(given.checkpoint, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(given.checkpoint)
    prompt = tokenizer(PROMPT, return_tensors="pt")

    def generate() -> torch.Tensor:
        with torch.no_grad():
            return model.generate(**prompt, max_new_tokens=12, do_sample=False)

    with torch.no_grad():
        logits = model(**prompt).logits
    before, modules, host_text = state_digest(model), dict(model.named_modules()), generate()

    handle = attach(model, certificates=given.certificates, trust=given.trust, phase="decode")
    print(handle.explain())
    text = generate()
    entries = handle.report()
    served, fallbacks = sum(one.served for one in entries), sum(one.fallbacks for one in entries)
    print(f"ledger: {len(entries)} seats answered {served} calls, {fallbacks} fell back to the host")
    print(f"host alone:     {tokenizer.decode(host_text[0], skip_special_tokens=True)}")
    print(f"certified seats: {tokenizer.decode(text[0], skip_special_tokens=True)}")
    if not handle.active:
        raise SystemExit("no seat was attached: see the lines above")
    handle.detach()

    same_modules = all(model.get_submodule(name) is module for name, module in modules.items())
    with torch.no_grad():
        same_logits = torch.equal(model(**prompt).logits, logits)
    same_state = state_digest(model) == before
    print(f"after detach: modules {same_modules}, tensors {same_state}, logits bit-identical {same_logits}")
    if not (same_modules and same_state and same_logits):
        raise SystemExit("the host is not what it was before attach")


if __name__ == "__main__":
    main()
