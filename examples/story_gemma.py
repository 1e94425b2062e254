"""The host of the certificate story: a trained Gemma 3 from a local checkpoint, and a prompt for it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, Gemma3ForCausalLM
from transformers.utils import logging

PROMPT = "The capital of France is"
NEW_TOKENS = 4


def build(checkpoint: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    """Return the model and a function that returns its logits in decode, one token at a time after a prompt."""
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    model = Gemma3ForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    prompt = AutoTokenizer.from_pretrained(checkpoint)(PROMPT, return_tensors="pt")

    def run() -> Tensor:
        with torch.no_grad():
            answer = model.generate(
                **prompt,
                max_new_tokens=NEW_TOKENS,
                do_sample=False,
                output_scores=True,
                return_dict_in_generate=True,
            )
        return torch.stack(answer.scores)

    return model, run
