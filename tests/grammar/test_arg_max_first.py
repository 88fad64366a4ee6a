"""Claim: a greedy text of a grammar is the same whether the target is first asked for its arg-max
alone, or for whole rows at once; and whole rows are asked for where the arg-max was illegal. A
greedy draft is asked for its top tokens alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

import edgespec
from checkpoints import write_noisy, write_small_llama
from depth import by_turns, one_in
from edgespec.core.decode import Round, plain, speculate
from edgespec.core.distribution import one_hot
from edgespec.core.distribution_options import Sampling
from edgespec.core.draft import Proposal, proposed
from edgespec.core.model import Candidate, TopTokens
from edgespec.core.randomness import Seeded
from edgespec.core.requests import Score, TopScore, computed
from edgespec.core.sampling import SamplingProcessor
from edgespec.core.scoring import PATIENCE
from edgespec.core.verification import RULES
from edgespec.costs.controller import Fixed
from edgespec.device.kernels import installed_kernels
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.drafters.vocabulary_map import SharedTokens
from edgespec.grammar.legal_tokens import only_legal
from edgespec_export.export_pair import export_pair
from grammar_schemas import SCHEMAS
from tables import BranchingTable

END = 4
LENGTH = 24
GREEDY = SamplingProcessor(Sampling())


def weights(before):
    """Logits of five tokens, another row after each text."""
    return np.random.default_rng(before).normal(size=5)


class TopTable(BranchingTable):
    """A target that can return the arg-max of each row alone."""

    returns_top_tokens = True

    def __init__(self):
        super().__init__(weights, vocab_size=5)

    def score(self, tokens, candidates=()):
        return super().score(tokens, candidates).astype(np.float32)

    def top_tokens(self, tokens, candidates=(), *, skip=0, probabilities=False):
        rows = self.score(tokens, candidates)
        return TopTokens(rows.argmax(1)[:, None], rows.max(1)[:, None], None)


class NoRepeats:
    """A token is followed by another one; 1 is never followed by 2."""

    def legal(self, generated):
        row = np.ones(5, np.bool_)
        if generated:
            row[generated[-1]] = False
            row[2] &= generated[-1] != 1
        return row

    def allows(self, token, generated):
        row = self.legal(generated)
        return row is None or bool(row[token])

    def forced(self, generated, most):
        return []


class Guessing:
    """Proposes tokens that the target would often choose, and alternatives to them."""

    seconds = 0.0

    def begin(self, prompt):
        self._prompt = list(prompt)

    def propose(self, text, gamma, randomness):
        before, tokens, candidates = [*self._prompt, *text[1:]], [], []
        for index in range(gamma):
            best = np.argsort(-weights(before))[:3].tolist()
            first = best[(len(before) + index) % 2]
            candidates += [
                Candidate(index - 1, token) for token in best if token != first and index
            ]
            tokens.append(first)
            before.append(first)
        return Proposal(tokens, [one_hot(token) for token in tokens], candidates)


def followed(loop):
    """The tokens of a loop, and what it asked for."""
    tokens, requests, answer = [], [], None
    try:
        while True:
            event = loop.send(answer)
            answer = None
            if isinstance(event, Round):
                tokens += event.tokens
            else:
                requests.append(event)
                answer = event.compute()
    except StopIteration:
        return tokens, requests


def drafted(prompt, gamma, rule="token", edit=None, whole=False):
    return followed(
        speculate(
            TopTable(),
            Guessing(),
            prompt,
            process=GREEDY,
            rule=RULES[rule],
            gamma=Fixed(gamma),
            randomness=Seeded(0),
            max_new_tokens=LENGTH,
            ends=END.__eq__,
            edit=edit or only_legal(NoRepeats()),
            logits=whole,
        )
    )


def plainly(prompt, whole):
    return followed(
        plain(
            TopTable(),
            prompt,
            process=GREEDY,
            randomness=Seeded(0),
            max_new_tokens=LENGTH,
            ends=END.__eq__,
            edit=only_legal(NoRepeats()),
            logits=whole,
        )
    )


PROMPTS = [[3, number] for number in range(60)]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gamma", [1, 2, 4])
def test_texts_are_those_of_whole_rows(gamma, rule):
    for prompt in PROMPTS:
        expected, _ = plainly(prompt, whole=True)
        assert plainly(prompt, whole=False)[0] == expected
        assert drafted(prompt, gamma, rule)[0] == expected


def test_whole_rows_are_asked_for_after_an_illegal_arg_max_only():
    """And at once for some calls after it, and for the first. Of plain decoding, where each row
    decides."""
    language, illegal = NoRepeats(), 0
    for prompt in PROMPTS:
        tokens, requests = plainly(prompt, whole=False)
        requests = [request for request in requests if isinstance(request, Score | TopScore)]
        since = PATIENCE - 1  # calls since an illegal arg-max
        for count, _ in enumerate(tokens):
            best = int(weights([*prompt, *tokens[:count]]).argmax())
            legal = language.legal(tokens[:count])[best]
            if since >= PATIENCE:
                assert isinstance(requests.pop(0), TopScore)
            if since < PATIENCE or not legal:
                assert isinstance(requests.pop(0), Score)
            since = since + 1 if legal else 0
            illegal += not legal
        assert not requests
    assert illegal > 30


class Lenient:
    """A mask that looks at some rows only before it takes an arg-max."""

    def __init__(self, kept):
        self._mask = only_legal(NoRepeats())
        self._kept = kept

    def __call__(self, logits, generated):
        return self._mask(logits, generated)

    def keeps(self, token, generated):
        return self._kept(generated) or self._mask.keeps(token, generated)


def test_a_mask_that_is_not_asked_about_every_row_is_found():
    """So the texts above would show a row that is left out."""
    for kept in (lambda generated: True, lambda generated: len(generated) % 3 == 2):
        found = [drafted(prompt, 3, edit=Lenient(kept))[0] for prompt in PROMPTS]
        assert found != [plainly(prompt, whole=True)[0] for prompt in PROMPTS]


# --- a draft that is masked -----------------------------------------------------------------------


class Top3Table(TopTable):
    """It returns its three best tokens with their probabilities, too."""

    def top_tokens(self, tokens, candidates=(), *, skip=0, probabilities=False):
        rows = self.score(tokens, candidates)[skip:]
        if not probabilities:
            return TopTokens(rows.argmax(1)[:, None], rows.max(1)[:, None], None)
        best = np.argsort(-rows, axis=1)[:, :3]
        shares = np.exp(rows) / np.exp(rows).sum(1, keepdims=True)
        return TopTokens(
            best, np.take_along_axis(rows, best, 1), np.take_along_axis(shares, best, 1)
        )


class Few(NoRepeats):
    """Only 0 and 4 may follow a token."""

    def legal(self, generated):
        return super().legal(generated) & (np.arange(5) % 4 == 0 if generated else True)


def proposed_after(prompt, generated, legal, gamma=1, **options):
    """What a masked model drafter proposes, and what it asked for."""
    drafter = ModelDrafter(Top3Table(), GREEDY, SharedTokens(len(PROMPTS)), legal=legal, **options)
    drafter.begin(prompt)
    requests, answer = [], None
    generator = proposed(drafter, [prompt[-1], *generated], gamma, Seeded(0))
    try:
        while True:
            requests.append(generator.send(answer))
            answer = requests[-1].compute()
    except StopIteration as end:
        return end.value, [request for request in requests if isinstance(request, Score | TopScore)]


@pytest.mark.parametrize("language", [NoRepeats, Few])
def test_a_draft_proposes_the_first_legal_one_of_its_top_tokens(language):
    """It is what whole rows of the draft would have given; where none is legal, it stops."""
    stopped = others = 0
    for prompt in PROMPTS:
        for generated in ([0], [1], [4]):
            row = weights([*prompt, *generated])
            best = np.argsort(-row)[:3].tolist()
            legal = [token for token in best if language().legal(generated)[token]]
            proposal, requests = proposed_after(prompt, generated, language())
            assert list(proposal.tokens) == legal[:1]
            assert [type(request) for request in requests] == [TopScore]
            stopped += not legal
            others += bool(legal) and legal[0] != best[0]
            if legal:
                allowed = language().legal(generated)
                assert legal[0] == np.where(allowed, row, -np.inf).argmax()
    assert others > 20
    assert (stopped > 5) == (language is Few)


def test_the_probability_of_a_draft_leaves_out_what_illegal_tokens_had():
    seen = []
    for prompt in PROMPTS:
        row = weights([*prompt, 0])
        best = np.argsort(-row)[:3].tolist()
        legal = NoRepeats().legal([0])
        seen.clear()
        proposed_after(
            prompt, [0], NoRepeats(), 2, should_continue=lambda p, rows: bool(seen.append(p))
        )
        shares = np.exp(row) / np.exp(row).sum()
        first = next(index for index, token in enumerate(best) if legal[token])
        assert seen == pytest.approx([shares[best[first]] / (1 - shares[best[:first]].sum())])


def test_a_draft_that_stopped_goes_on_with_the_text():
    """The token that it read before it stopped is in its cache, and is not read again."""
    for prompt in PROMPTS:
        drafter = ModelDrafter(Top3Table(), GREEDY, SharedTokens(len(PROMPTS)), legal=Few())
        drafter.begin(prompt)
        text = [prompt[-1]]
        for token in (1, 0, 4, 0):
            text.append(token)
            found = computed(proposed(drafter, text, 1, Seeded(0)))
            expected, _ = proposed_after(prompt, text[1:], Few())
            assert list(found.tokens) == list(expected.tokens)


def test_an_illegal_candidate_is_not_proposed():
    candidates = []
    for prompt in PROMPTS:
        proposal, _ = proposed_after(
            prompt, [0], NoRepeats(), worth_candidate=lambda probability, rows: True
        )
        candidates += [candidate.token for candidate in proposal.candidates]
    assert 0 not in candidates
    assert len(candidates) > 60


# --- a model -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def int8_pair(tmp_path_factory):
    """A random Llama over bytes whose head returns top tokens, with a draft."""
    pytest.importorskip("llguidance")
    if installed_kernels() is None:
        pytest.skip("needs kernels")
    folder = tmp_path_factory.mktemp("bytes")
    target = write_small_llama(folder / "target", max_position_embeddings=512)
    draft = write_noisy(target, folder / "draft", noise=0.05)
    export_pair(str(target), str(draft), folder / "pair", threads=1, target_formats=["int8"])
    pair = edgespec.load(folder / "pair", threads=1)
    assert pair.target.returns_top_tokens
    return pair


@one_in(2)
@pytest.mark.parametrize("name", by_turns(list(SCHEMAS), 0, 3))
def test_json_texts_are_those_of_whole_rows(int8_pair, name):
    """Log-probabilities need whole rows. Of every third schema; EDGESPEC_DEEP=1 takes all."""
    options = {"grammar": edgespec.json_schema(SCHEMAS[name]), "max_new_tokens": 120}
    whole = int8_pair.generate("Value:", draft=False, logprobs=True, **options)
    for drafting in ({"draft": False}, {"draft": "model", "gamma": 4}, {"draft": "both"}):
        assert int8_pair.generate("Value:", **drafting, **options).token_ids == whole.token_ids
    if whole.finish_reason == "eos":
        json.loads(whole.text)


def test_texts_at_once_are_those_of_whole_rows(int8_pair):
    grammars = [edgespec.json_schema(schema) for schema in list(SCHEMAS.values())[:24]]
    many = int8_pair.many(6)
    streams, found = [], []
    for grammar in grammars:
        if not many.free:
            for stream in streams:
                list(stream)
        streams.append(many.stream("Value:", grammar=grammar, max_new_tokens=60))
    for stream in streams:
        list(stream)
        found.append(stream.result.token_ids)
    assert found == [
        int8_pair.generate(
            "Value:", draft=False, logprobs=True, grammar=grammar, max_new_tokens=60
        ).token_ids
        for grammar in grammars
    ]
