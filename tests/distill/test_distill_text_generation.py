"""Claim: texts are generated from the model's own distributions, alone or in groups."""

from __future__ import annotations

import random

import numpy as np
import torch

from depth import one_in
from distillation import TEXTS, causal, greedily
from edgespec_distill.data.examples import Example, Text, batches
from edgespec_distill.data.text_generation import (
    GenerationSettings,
    _draw,
    add_distributions,
    generate_texts,
    generate_with_distributions,
)
from edgespec_distill.models import causal as causal_module


def test_greedy_outputs_are_the_arg_max_of_the_models_own_distributions(learner):
    texts = generate_texts(learner, [[40, 41, 42], [50], [60, 61]], greedily(8, [1]))
    assert [token for text in texts for token in text.output] == learner.logits(texts).argmax(
        -1
    ).tolist()


def test_prompts_that_are_read_in_parts_are_continued_as_those_that_are_read_at_once(
    llama_folder, monkeypatch
):
    target, prompts = causal(llama_folder), [[40, 41, 42], [50], [60, 61], [70, 71, 72, 73]]
    wanted = generate_texts(target, prompts, greedily(8, [1]))
    monkeypatch.setattr(causal_module, "PREFILL_POSITIONS", 2 * 4)  # two prompts
    assert generate_texts(target, prompts, greedily(8, [1])) == wanted


@one_in(2)
def test_a_text_does_not_depend_on_the_others_of_its_group(learner):
    prompts = [[n, n + 1, 90 - n][: 1 + n % 3] for n in range(20, 60)]
    free = generate_texts(learner, prompts, greedily(12, []))
    ends = sorted({text.output[3] for text in free})[::2]  # so that the rows end at different steps
    together = generate_texts(learner, prompts, greedily(12, ends))
    alone = [generate_texts(learner, [text.prompt], greedily(12, ends))[0] for text in together]
    assert [text.output for text in together] == [text.output for text in alone]
    lengths = {len(text.output) for text in together}
    assert len(lengths) > 2
    assert max(lengths) == 12
    assert all(t.output[-1] in ends for t in together if len(t.output) < 12)


def test_when_enough_texts_have_ended_the_others_are_truncated(llama_folder):
    writer = causal(llama_folder)
    prompts = [[n] for n in range(20, 40)]
    free = generate_texts(writer, prompts, greedily(12, []))
    ends = [free[0].output[2]]
    whole_texts = generate_texts(writer, prompts, greedily(12, ends))
    ended = sorted(len(t.output) for t in whole_texts if t.output[-1] in ends)
    share = len(ended) / len(prompts)
    cut = generate_texts(writer, prompts, greedily(12, ends, finished_share=share))
    assert max(len(text.output) for text in cut) == ended[-1] < 12


def test_tokens_are_drawn_from_the_distribution():
    logits = torch.tensor([[0.0, 1.0, -torch.inf, 2.0, 0.5]])
    draws = _draw(logits.expand(40_000, -1), 0.7, torch.Generator().manual_seed(0))
    expected = (logits[0] / 0.7).softmax(0)
    shares = torch.bincount(draws, minlength=5) / len(draws)
    spread = (expected * (1 - expected) / len(draws)).sqrt()
    # One run in a million fails by chance; temperature 1 would be 40 standard deviations off.
    assert ((shares - expected).abs() <= 5 * spread).all()


def test_distributions_stored_while_generating_are_those_of_the_finished_texts(learner):
    prompts = [[40, 41, 42], [50], [60, 61]]
    for example, features in generate_with_distributions(learner, prompts, greedily(8, [1])):
        assert features is None  # torch's have other bits while it writes
        (again,) = add_distributions(learner, [example])
        assert example.tokens[:, :8].tolist() == again.tokens[:, :8].tolist()
        torch.testing.assert_close(example.log_probs, again.log_probs, atol=2e-3, rtol=1e-3)


def test_stored_distributions_are_the_targets_most_probable_tokens(llama_folder):
    target = causal(llama_folder)
    (example,) = add_distributions(target, [TEXTS[0]])
    logs = target.logits([TEXTS[0]]).log_softmax(-1)
    expected, tokens = logs.topk(64)
    assert example.tokens.tolist() == tokens.tolist()
    np.testing.assert_allclose(example.log_probs.numpy(), expected.detach().numpy(), atol=0.01)


def test_a_greedy_text_is_recognised_where_tokens_are_equally_probable(llama_folder):
    """In bf16 some are, and the first of the sorted ones need not be the arg-max."""
    target = causal(llama_folder)
    prompts = [[40, 41, 42], [50], [60, 61]]
    for greedy, temperature in ((True, 0.0), (False, 1.0)):
        settings = GenerationSettings(9, [1], temperature)
        written = generate_with_distributions(target, prompts, settings)
        assert [example.is_greedy for example, _ in written] == [greedy] * len(prompts)
    tokens, logs = torch.tensor([[7, 5, 6]]), torch.tensor([[-1.0, -1.0, -2.0]])
    wrote = [Example([1], [token], tokens, logs) for token in (7, 5, 6, 8)]
    assert [example.is_greedy for example in wrote] == [True, True, False, False]


def test_every_text_is_in_one_batch_and_no_batch_is_too_large():
    rng = random.Random(1)
    texts = [Text([1] * rng.randint(1, 30), [1] * rng.randint(1, 30)) for _ in range(200)]
    found = list(batches(texts, 128, rng))
    assert sorted(map(id, texts)) == sorted(id(text) for batch in found for text in batch)
    assert all(len(batch) == 1 or max(map(len, batch)) * len(batch) <= 128 for batch in found)
