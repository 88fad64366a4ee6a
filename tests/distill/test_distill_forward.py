"""Claim: the forward passes of the training compute what transformers computes."""

from __future__ import annotations

import pytest
import torch

from checkpoints import write_llama, write_t5
from distillation import TEXTS, causal, seq2seq


@pytest.mark.parametrize("gated", [False, True])
def test_the_t5_forward_pass_computes_what_transformers_does(tmp_path, gated):
    learner = seq2seq(write_t5(tmp_path / "t5", vocab_size=20, encoder_layers=2, gated=gated))
    rows = iter(learner.logits(TEXTS).detach().split([len(t.output) for t in TEXTS]))
    for text in TEXTS:
        expected = learner.model(
            input_ids=torch.tensor([text.prompt]),
            decoder_input_ids=torch.tensor([[0, *text.output[:-1]]]),
        ).logits[0]
        torch.testing.assert_close(next(rows), expected, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3"])
def test_the_llama_forward_pass_computes_what_transformers_does_after_the_prompt(tmp_path, kind):
    folder = write_llama(tmp_path / kind, vocab_size=20, heads=4, kv_heads=2, model_type=kind)
    learner = causal(folder)
    rows = iter(learner.logits(TEXTS).detach().split([len(t.output) for t in TEXTS]))
    for text in TEXTS:
        ids = torch.tensor([[*text.prompt, *text.output[:-1]]])
        expected = learner.model(ids).logits[0, len(text.prompt) - 1 :]
        torch.testing.assert_close(next(rows), expected, atol=2e-5, rtol=1e-5)
