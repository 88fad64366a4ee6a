"""Claim: the example's model gives lm-evaluation-harness what its protocol says: the numbers of
generated texts, each token once, and texts up to their stop strings."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import edgespec
from edgespec.errors import EdgespecError

EXAMPLE = Path(__file__).parents[2] / "examples" / "lm_eval_model.py"


class LM:
    """Stands for lm_eval's base class, which is not installed here."""

    def __init__(self) -> None:
        self.rank, self.world_size = 0, 1


@pytest.fixture(scope="module")
def example():
    before = {
        name: sys.modules.get(name) for name in ("lm_eval", "lm_eval.api", "lm_eval.api.model")
    }
    try:
        for name in before:
            sys.modules[name] = ModuleType(name)
        sys.modules["lm_eval.api.model"].LM = LM
        spec = importlib.util.spec_from_file_location("lm_eval_model", EXAMPLE)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        for name, known in before.items():
            sys.modules.pop(name) if known is None else sys.modules.update({name: known})
    return module


@pytest.fixture(scope="module")
def chat(chat_folder) -> edgespec.Pair:
    return edgespec.load(chat_folder, threads=1, capacity=48)


@pytest.fixture(scope="module")
def model(example, chat):
    return example.EdgespecLM(chat)


def asked(*tasks):
    return [SimpleNamespace(args=arguments) for arguments in tasks]


def one_by_one(pair, tokens, before):
    """The log-probability of tokens after others, each by a text of its own."""
    return sum(
        pair.score([token], prompt=[*before, *tokens[:index]]).logprob
        for index, token in enumerate(tokens)
    )


@pytest.mark.parametrize(
    ("context", "continuation"),
    [("once", " upon"), ("once ", "upon"), ("once upon a", " time there"), ("a\n\n", "b")],
)
def test_a_continuation_has_the_score_of_its_tokens(model, chat, context, continuation):
    kept = context.rstrip()
    before, whole = chat.encode(kept, False), chat.encode(context + continuation, False)
    ((logprob, is_greedy),) = model.loglikelihood(asked((context, continuation)))
    expected = one_by_one(chat, whole[len(before) :], before)
    assert math.isclose(logprob, expected, rel_tol=1e-5)
    assert is_greedy is all(chat.score(whole[len(before) :], prompt=before).is_best)


def test_without_a_context_the_end_of_a_text_stands_before_it(model, chat):
    tokens = chat.tokenizer.encode("once upon", add_special_tokens=False).ids
    ends = chat.manifest.eos_token_ids[:1]
    for context in ("", " \n"):
        ((logprob, _),) = model.loglikelihood(asked((context, "once upon"[len(context) :])))
        assert logprob < 0
    ((logprob, _),) = model.loglikelihood(asked(("", "once upon")))
    assert math.isclose(logprob, one_by_one(chat, tokens, ends), rel_tol=1e-5)


def test_another_token_can_stand_before_a_text(example, chat):
    tokens = chat.tokenizer.encode("once upon", add_special_tokens=False).ids
    model = example.EdgespecLM(chat, prefix=7)
    ((logprob, _),) = model.loglikelihood(asked(("", "once upon")))
    assert math.isclose(logprob, one_by_one(chat, tokens, [7]), rel_tol=1e-5)
    assert model.loglikelihood_rolling(asked(("once upon",))) == [logprob]


def test_it_is_what_the_tokenizer_puts_before_a_text(example, tiny, chat):
    class Beginning(example.EdgespecLM):
        def _encoded_alone(self, text):
            return super()._encoded_alone(text)[1:]  # as if the first were put before it

    first = chat.encode("a", False)[0]
    assert list(Beginning(chat)._prefix) == [first]
    assert example.EdgespecLM(chat)._prefix == chat.manifest.eos_token_ids[:1]
    assert example.EdgespecLM(tiny)._prefix == tiny.manifest.eos_token_ids[:1]


def test_what_greedy_decoding_writes_is_greedy_and_nothing_else(model, chat):
    made = chat.generate("once", chat=False, temperature=0.0, max_new_tokens=3)
    before = chat.encode("once", False)
    scores = chat.score(made.token_ids, prompt=before)
    assert all(scores.is_best)
    ((_, is_greedy),) = model.loglikelihood(asked(("once", " zzzz")))
    assert not is_greedy


def test_a_long_context_loses_its_beginning(model, chat):
    context = "word " * 60 + "end"
    (found,) = model.loglikelihood(asked((context, " of it")))
    whole = chat.encode(context + " of it", False)
    text = whole[len(chat.encode(context, False)) :]
    scores = chat.score(text, prompt=whole[-48 : -len(text)])
    assert found == (scores.logprob, all(scores.is_best))
    with pytest.raises(EdgespecError):
        chat.score(text, prompt=whole[: -len(text)])


@pytest.mark.parametrize("length", [1, 46, 47, 48, 95, 120])
def test_a_whole_text_is_scored_token_by_token_once(model, chat, example, length):
    tokens = (chat.tokenizer.encode("abcdefgh " * 20, add_special_tokens=False).ids)[:length]
    text = chat.tokenizer.decode(tokens)
    assert chat.tokenizer.encode(text, add_special_tokens=False).ids == tokens
    (found,) = model.loglikelihood_rolling(asked((text,)))
    ends, expected, scored = list(chat.manifest.eos_token_ids[:1]), 0.0, 0
    while scored < length:
        part = tokens[scored : scored + 47]
        before = [*ends, *tokens[:scored]]
        before = before[max(0, len(before) + len(part) - 48) :]
        expected += one_by_one(chat, part, before)
        scored += len(part)
    assert math.isclose(found, expected, rel_tol=1e-5)


@pytest.mark.parametrize("until", [[], "e", ["zq", " a"]])
def test_texts_end_at_their_stop_strings(model, chat, until):
    options = {"until": until, "max_gen_toks": 12}
    (text,) = model.generate_until(asked(("once upon a time", options)))
    stop = [until] if isinstance(until, str) else until
    made = chat.generate(
        "once upon a time", chat=False, stop=stop, max_new_tokens=12, temperature=0.0
    )
    assert text == made.text
    assert not any(word in text for word in stop)


def test_a_long_context_is_generated_from_its_end(model, chat):
    context = "word " * 60
    options = {"until": [], "max_gen_toks": 8, "do_sample": False}
    (text,) = model.generate_until(asked((context, options)))
    assert (
        text
        == chat.generate(chat.encode(context, False)[-40:], max_new_tokens=8, temperature=0.0).text
    )


def test_an_encoder_decoder_reads_its_context_and_scores_what_follows(example, pair):
    model = example.EdgespecLM(pair)
    ((logprob, is_greedy),) = model.loglikelihood(asked(("a library", "eine Bibliothek")))
    scores = pair.score("eine Bibliothek", prompt="a library")
    assert (logprob, is_greedy) == (scores.logprob, all(scores.is_best))
    (text,) = model.generate_until(asked(("a library", {"max_gen_toks": 5})))
    assert text == pair.generate("a library", max_new_tokens=5, temperature=0.0).text
