"""Claim: penalties, biases and least lengths give plain decoding's text, whatever drafts."""

from __future__ import annotations

import pytest

from depth import one_in

EDITS = {
    "repetition": {"repetition_penalty": 1.3},
    "presence": {"presence_penalty": 1.5},
    "frequency": {"frequency_penalty": 0.7},
    "bias": {"logit_bias": {101: 5.0, 32: -100.0}},
    "length": {"min_tokens": 30},
    "all": {
        **{"repetition_penalty": 1.1, "presence_penalty": 0.5, "frequency_penalty": 0.3},
        **{"logit_bias": {101: 2.0}, "min_tokens": 12},
    },
}
DRAFTS = [{"draft": "model", "gamma": 4}, {"draft": "lookup", "gamma": 4}, {"draft": "both"}]
PROMPTS = ["The quick brown fox", "abababab", "x"]
SAMPLED = {"temperature": 0.9, "top_p": 0.9, "seed": 5}


@one_in(3)
@pytest.mark.parametrize("drafting", DRAFTS, ids=str)
@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("edits", EDITS)
def test_text_and_log_probabilities_are_those_without_a_draft(tiny, edits, sampling, drafting):
    for prompt in PROMPTS:
        options = {"max_new_tokens": 40, "logprobs": True, **EDITS[edits], **sampling}
        alone = tiny.generate(prompt, draft=False, **options)
        drafted = tiny.generate(prompt, **drafting, **options)
        assert drafted.token_ids == alone.token_ids
        assert drafted.logprobs == alone.logprobs


@pytest.mark.parametrize("edits", EDITS)
def test_each_of_them_changes_some_text(tiny, edits):
    usual = [tiny.generate(prompt, max_new_tokens=40).text for prompt in PROMPTS]
    changed = [tiny.generate(prompt, max_new_tokens=40, **EDITS[edits]).text for prompt in PROMPTS]
    assert changed != usual


@pytest.mark.parametrize("edits", ["repetition", "all"])
def test_a_real_pair_translates_the_same_with_and_without_its_draft(pair, edits):
    text = "The file could not be opened because it does not exist."
    options = {"max_new_tokens": 40, **EDITS[edits]}
    drafted = pair.generate(text, draft="model", gamma=4, **options)
    assert drafted.stats.accepted > 0
    assert drafted.token_ids == pair.generate(text, draft=False, **options).token_ids


def test_a_target_that_returns_tokens_returns_rows_where_they_are_edited(chat_folder):
    import edgespec

    chat = edgespec.load(chat_folder, threads=1, target_format="int8", allow_inexact=True)
    usual = chat.generate("hello", max_new_tokens=20, draft=False)
    banned = usual.token_ids[0]
    edited = chat.generate("hello", max_new_tokens=20, draft=False, logit_bias={banned: -100})
    assert edited.token_ids[0] != banned


def test_a_text_of_transformers_has_the_same_tokens(tiny, tiny_checkpoints):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny_checkpoints[0])
    for prompt in PROMPTS:
        ids = tiny.encode(prompt)
        reference = model.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            do_sample=False,
            repetition_penalty=1.3,
            min_new_tokens=10,
            max_new_tokens=30,
            eos_token_id=list(tiny.manifest.eos_token_ids),
            pad_token_id=0,
        )[0, len(ids) :].tolist()
        options = {"repetition_penalty": 1.3, "min_tokens": 10, "max_new_tokens": 30}
        assert tiny.generate(prompt, **options).token_ids == reference


def test_a_text_ends_after_its_least_length(tiny):
    results = [
        tiny.generate("x", max_new_tokens=40, temperature=1.5, min_tokens=20, seed=seed)
        for seed in range(40)
    ]
    ended = [result for result in results if result.finish_reason == "eos"]
    assert ended, "no text ended by itself, so nothing was seen"
    assert all(len(result.token_ids) > 20 for result in ended)
