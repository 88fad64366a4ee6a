"""Claim: whatever is asked for, a text with a draft is the text without one, and so is its error.

Random settings of everything that changes a row or ends a text: grammars (some beyond the limits of
their matcher), stop strings, least lengths, penalties, biases, sampling, coarse logits with ties,
models that return top tokens or score candidates. Tokens, text, log-probabilities, the reason of
the end and the error are compared, as they are streamed.

EDGESPEC_SETTINGS=20000 tries more settings.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

import edgespec
from edgespec.core.distribution import Distribution, one_hot
from edgespec.errors import EdgespecError, UsageError
from hashed_model import HashedModel, hashed_pair

pytest.importorskip("llguidance")

# Other tests run these lines too; counting them here would double the time of each pass.
pytestmark = pytest.mark.no_cover

SETTINGS = int(os.environ.get("EDGESPEC_SETTINGS", "150"))
SHARES = 5  # in which the settings are tried
END = 1  # of `byte_tokenizer`: asserted below

GRAMMARS = [
    *(
        edgespec.regex(pattern)
        for pattern in (
            r"[a-z ]{5,60}\.",
            "[a-z]{2,4}(, [a-z]{2,4}){0,3}",
            "(?s:.{0,30})",
            "[ab]{1,12}",
            "The answer is: [a-z]{2}[.] Nothing else is[.]",
            "((a{1,100}){1,100}){1,100}",
            "((([aeiou]+){1,60}){0,3}){1,60}",
            "(.*){10}" * 12,
        )
    ),
    edgespec.lark('start: number ("+" number)~1..3 "=" number\nnumber: /[1-9][0-9]{0,2}/'),
    edgespec.json_schema(
        {
            "type": "object",
            "properties": {"is_certain": {"type": "boolean"}, "name": {"type": "string"}},
            "required": ["is_certain", "name"],
            "additionalProperties": False,
        }
    ),
]


def nested_expression(choose: random.Random, depth: int = 3) -> str:
    """A regular expression of nested repetitions, often beyond a limit."""
    if not depth:
        return choose.choice(["a", "[a-m]", "[aeiou]+", "b?", "(?:ab|ba)", "."])
    inner = "".join(nested_expression(choose, depth - 1) for _ in range(choose.choice([1, 1, 2])))
    return f"({inner}){{{choose.randint(0, 2)},{choose.choice([3, 20, 60])}}}"


def grammar_of(choose: random.Random):
    """A grammar, or none; a random expression that is refused at once is none."""
    kind = choose.random()
    if kind < 0.25:
        return None
    if kind < 0.85:
        return choose.choice(GRAMMARS)
    try:
        return edgespec.regex(nested_expression(choose))
    except UsageError:
        return None


def sampling_of(choose: random.Random) -> dict:
    if choose.random() < 0.5:
        return {"rule": choose.choice([None, "token", "block", "coupled"])}
    options = {"temperature": choose.choice([0.3, 1.0, 1.5]), "seed": choose.randrange(100)}
    return options | choose.choice([{}, {}, {"top_k": 4}, {"top_p": 0.8}, {"min_p": 0.05}])


def settings_of(choose: random.Random) -> dict:
    """Options of a text; each is usual more often than not."""
    some = choose.random
    options = sampling_of(choose) | {"max_new_tokens": choose.randint(1, 40)}
    options["grammar"] = grammar_of(choose)
    if some() < 0.5:
        stops = [".", "a", "e", ", ", "is", "ab", "1", '"', " "]
        options["stop"] = choose.sample(stops, choose.randint(1, 2))
    if some() < 0.4:
        options["min_tokens"] = choose.choice([1, 3, 10, 40])
    if some() < 0.3:
        options["repetition_penalty"] = choose.choice([0.7, 1.3, 3.0])
    if some() < 0.3:
        options["presence_penalty"] = choose.choice([-2.0, 0.5, 2.0])
    if some() < 0.3:
        options["frequency_penalty"] = choose.choice([-0.5, 1.0])
    if some() < 0.4:
        token = choose.choice([END, END, *range(40, 130)])
        options["logit_bias"] = {token: choose.choice([-100.0, -100.0, 5.0, 100.0])}
    if options["grammar"] is None and some() < 0.2:
        options["ignore_eos"] = True
    if some() < 0.4:
        options |= {"logprobs": True, "top_logprobs": choose.choice([0, 3])}
    return options


class Wild:
    """A caller's drafter: tokens from everywhere, drawn or certain."""

    seconds = 0.0

    def begin(self, prompt):
        pass

    def propose(self, text, gamma, randomness):
        q = Distribution(np.arange(97, 123), np.full(26, 1 / 26))
        tokens = [randomness.categorical(q, ahead) for ahead in range(gamma)]
        if text[-1] % 2:
            return edgespec.Proposal(tokens, [one_hot(token) for token in tokens])
        return edgespec.Proposal(tokens, [q] * gamma)


def models_of(choose: random.Random, size: int) -> tuple[HashedModel, HashedModel]:
    shape = {"grain": choose.choice([0.0, 0.0, 2.0**-6, 0.5])}
    seed = choose.randrange(1000)
    target = HashedModel(
        size,
        seed,
        returns_top_tokens=choose.random() < 0.5,
        scores_candidates=choose.random() < 0.5,
        **shape,
    )
    noise = choose.choice([0.0, 0.1, 0.5, 3.0])
    top = choose.random() < 0.5
    return target, HashedModel(size, seed, noise=noise, returns_top_tokens=top, **shape)


def outcome(pair, options: dict) -> tuple:
    """What a reader of the stream sees, and how it ends."""
    chunks = []
    try:
        stream = pair.stream([70, 71, 72], **options)
        chunks.extend((c.token, c.text, c.logprob, c.top_logprobs) for c in stream)
    except EdgespecError as error:
        return chunks, type(error).__name__, str(error)
    return chunks, stream.result.finish_reason, stream.result.text


@pytest.mark.parametrize("share", range(SHARES))
def test_text_and_error_are_those_without_a_draft(tiny, share):
    assert tiny.manifest.eos_token_ids == (END,)
    for number in range(share, SETTINGS, SHARES):
        choose = random.Random(number)
        target, draft = models_of(choose, tiny.target.vocab_size)
        pair = hashed_pair(tiny, target, draft)
        options = settings_of(choose)
        plain = outcome(pair, options | {"draft": False})
        drafts = ["model", "lookup", "both", Wild()]
        drafted = {"draft": choose.choice(drafts), "gamma": choose.choice([1, 2, 4, 8, "auto"])}
        assert outcome(pair, options | drafted) == plain, (number, drafted, options)
