"""Claim: losses and acceptance equal their definitions, also for a restricted vocabulary."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from distillation import VOCABULARY, causal
from edgespec_distill.data.draft_vocabulary import (
    frequent_vocabulary,
)
from edgespec_distill.data.held_out import HeldOut
from edgespec_distill.data.text_generation import (
    GenerationSettings,
    generate_texts,
)
from edgespec_distill.models.causal import Causal
from edgespec_distill.models.untrained_draft import untrained_draft
from edgespec_distill.training.loss import forward_kl, overlap, total_variation
from edgespec_distill.training.wide_head import head_loss


def distributions(rows: int, tokens: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, tokens, generator=torch.Generator().manual_seed(seed)) * 2


def test_acceptance_is_the_sum_of_the_minima():
    p, q = distributions(5, 30, 0), distributions(5, 30, 1)
    expected = np.minimum(p.softmax(1).numpy(), q.softmax(1).numpy()).sum(1)
    np.testing.assert_allclose(overlap(p.softmax(1), q).numpy(), expected, rtol=1e-6)


def test_held_out_acceptance_is_the_mean_over_every_position(llama_folder):
    """The draft lacks tokens; where the target generated one of those, it is never right."""
    target, model = causal(llama_folder), causal(llama_folder).model
    some = frequent_vocabulary(
        [[5, 6, 7, 8, 9, 11, 12]], [1], 120, model.get_input_embeddings().weight.data
    )
    draft = Causal(
        untrained_draft(model, layers=1, encoder_layers=1, width=None, vocabulary=some, seed=0),
        some,
    )
    greedy, sampled = (
        generate_texts(
            target, [[40, 41, 42], [50], [60, 61]], GenerationSettings(9, [1], temperature)
        )
        for temperature in (0.0, 1.0)
    )
    found = HeldOut(target, some, greedy, sampled).acceptance(draft)
    q = torch.zeros(sum(len(text.output) for text in sampled), VOCABULARY)
    q[:, some.outputs] = draft.logits(sampled).softmax(-1)
    shared = torch.minimum(target.logits(sampled).softmax(-1), q).sum(-1).mean()
    assert found.sampled == pytest.approx(shared.item(), abs=1e-3)
    guesses = some.outputs[draft.logits(greedy).argmax(-1)]
    same = guesses == target.logits(greedy).argmax(-1)
    assert found.greedy == pytest.approx(same.float().mean().item())


def test_over_all_tokens_the_losses_equal_their_definitions():
    p, q = distributions(5, 30, 0), distributions(5, 30, 1)
    tokens = torch.arange(30).expand(5, 30)
    p_logs, q_logs = p.log_softmax(1), q.log_softmax(1)
    kl = (p_logs.exp() * (p_logs - q_logs)).sum(1).mean()
    torch.testing.assert_close(forward_kl(p_logs, tokens, q), kl)
    torch.testing.assert_close(
        total_variation(p_logs, tokens, q), 1 - overlap(p.softmax(1), q).mean()
    )


@pytest.mark.parametrize("loss", [forward_kl, total_variation])
def test_a_loss_is_smallest_where_the_draft_equals_the_target(loss):
    p_logs = distributions(4, 12, 0).log_softmax(1)
    tokens = torch.arange(12).expand(4, 12)
    least = loss(p_logs, tokens, p_logs)
    assert abs(float(least)) < 1e-6
    assert all(
        float(loss(p_logs, tokens, p_logs + distributions(4, 12, s))) > 0.01 for s in range(1, 9)
    )


@pytest.mark.parametrize("loss", [forward_kl, total_variation])
def test_the_loss_of_a_wide_head_is_the_loss_of_its_logits(loss):
    """More rows than are processed at once, and a last part with fewer rows."""
    generator = torch.Generator().manual_seed(2)
    hidden = torch.randn(300, 8, generator=generator, requires_grad=True)
    head = torch.randn(30, 8, generator=generator, requires_grad=True)
    tokens = torch.arange(20).expand(300, 20)
    p_logs = distributions(300, 30, 3).log_softmax(1)[:, :20]
    ours = 0.7 * head_loss(loss, p_logs, tokens, hidden, head)
    whole_loss = 0.7 * loss(p_logs, tokens, hidden @ head.T)
    torch.testing.assert_close(ours, whole_loss)
    gradients = (torch.autograd.grad(one, (hidden, head)) for one in (ours, whole_loss))
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("loss", [forward_kl, total_variation])
def test_a_position_whose_probable_tokens_the_draft_lacks_has_no_gradient(loss):
    q = torch.randn(2, 5, requires_grad=True)
    p_logs = torch.full((2, 3), -torch.inf)
    p_logs[0, 1] = 0.0
    loss(p_logs, torch.tensor([[0, 4, 2], [1, 2, 3]]), q).backward()
    assert q.grad is not None
    assert torch.isfinite(q.grad).all()
    assert q.grad.any(1).tolist() == [True, False]
