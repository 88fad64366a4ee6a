"""Claim: an EAGLE head of a T5 computes on the device what it computes in training, and its pair
has the target's own text.

It reads the states after layers of the target's decoder, which have seen the source. Before a
text's first call there are none: its first row, at the start token, takes zeros.
"""

from __future__ import annotations

import json
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

import edgespec
from bart_checkpoints import write_bart
from depth import one_in
from eagle_checkpoints import write_eagle
from eagle_checkpoints import write_target as write_llama
from edgespec.artifact.manifest import read_manifest
from edgespec.device.kernels import installed_kernels
from edgespec.errors import EdgespecError
from edgespec.pair.opening.memory_estimate import estimated_memory
from edgespec_distill.data.examples import Text
from edgespec_distill.models.reading.eagle_student import EagleStudent
from edgespec_export.export_pair import export_pair
from shared_encoder_checkpoints import write_target

TEXT = Text((40, 41, 42, 50, 60, 61, 1), (7, 9, 80, 3, 66, 12))
LAYERS = (2, 3)  # that a draft of a target with three reads
GUESSES = 3
KINDS = {
    "v1.0": ({}, {}),
    "v1.1, narrow draft": ({"gated": True}, {"width": 16, "tokens": 120}),
    "two layers, the target's tables": ({}, {"layers": 2, "target_tables": True}),
}


@pytest.fixture(scope="module", params=KINDS)
def case(request, tmp_path_factory):
    """A target, the torch module of its draft with its vocabulary, and their exported pair."""
    folder = tmp_path_factory.mktemp("t5")
    config, shape = KINDS[request.param]
    target = write_target(folder / "target", **config)
    draft = write_eagle(target, folder / "draft", **shape)
    formats = {"target_formats": ("fp32", "int8"), "draft_formats": ("fp32", "int8")}
    export_pair(str(target), str(folder / "draft"), folder / "pair", **formats)
    return target, draft, folder / "pair"


@pytest.fixture(scope="module")
def states(case) -> torch.Tensor:
    """The states of transformers' T5 after `LAYERS`, at the decoder's positions of `TEXT`."""
    model = AutoModelForSeq2SeqLM.from_pretrained(case[0], dtype=torch.float32).eval()
    found: dict[int, torch.Tensor] = {}
    for number, block in enumerate(model.decoder.block, start=1):
        block.register_forward_hook(lambda _, __, out, n=number: found.update({n: out[0]}))
    with torch.no_grad():
        model(
            input_ids=torch.tensor([TEXT.prompt]),
            decoder_input_ids=torch.tensor([[0, *TEXT.output[:-1]]]),
        )
    return torch.cat([found[layer][0] for layer in LAYERS], -1)


def read_text(pair) -> list[int]:
    """Lets the target read `TEXT`; returns what its decoder read."""
    read = [pair.target.prefill(TEXT.prompt), *TEXT.output[:-1]]
    pair.target.score(read)
    return read


def guesses(case, states: torch.Tensor) -> list[np.ndarray]:
    """Logits of the first, second, … drafted token at each position, as training computes them."""
    learner = EagleStudent(*case[1], SimpleNamespace(of=lambda texts: [states for _ in texts]))
    hidden = islice(learner.hidden_states([TEXT]), GUESSES)
    return [(rows @ learner.head.T).detach().numpy() for rows in hidden]


@pytest.mark.parametrize("format_", ["fp32", "int8"])
def test_the_targets_features_are_the_states_of_transformers(case, states, format_):
    """Those of an int8 target, which is rotated, lie near them in the checkpoint's basis."""
    pair = edgespec.load(case[2], threads=1, target_format=format_)
    count = len(read_text(pair))
    error = np.abs(pair.target.features[:count] - states.numpy()).max()
    assert error < np.abs(states.numpy()).max() * {"fp32": 1e-5, "int8": 0.1}[format_]


def test_first_drafted_tokens_are_those_of_training(case, states):
    pair = edgespec.load(case[2], threads=1)
    read = pair.vocabulary.to_draft_ids(read_text(pair))
    pair.draft.prefill(pair.vocabulary.to_draft_ids(TEXT.prompt))
    assert pair.draft.length == 0  # the source is not read
    expected = guesses(case, states)[0]
    np.testing.assert_allclose(pair.draft.score(read), expected, atol=1e-4, rtol=1e-4)
    assert pair.draft.valid_length == len(read)


def test_later_drafted_tokens_are_those_of_training(case, states):
    """At every position, also the first: one token from the target's state before it, then from the
    head's own states."""
    pair = edgespec.load(case[2], threads=1)
    expected = guesses(case, states)
    pending = pair.target.prefill(TEXT.prompt)
    pair.draft.prefill(pair.vocabulary.to_draft_ids(TEXT.prompt))
    text = [pending, *TEXT.output]
    for start in range(len(TEXT.output) - GUESSES + 1):
        for depth, token in enumerate(text[start : start + GUESSES]):
            (ours,) = pair.draft.score(pair.vocabulary.to_draft_ids([token]))
            np.testing.assert_allclose(ours, expected[depth][start], atol=1e-4, rtol=1e-4)
        assert pair.draft.valid_length == start + 1
        pair.draft.rewind(pair.draft.valid_length)
        pair.target.score([text[start]])


WAYS = {
    "greedy": {"temperature": 0},
    "coupled": {"temperature": 1.0, "seed": 3},
    "chosen tokens": {"temperature": 0.8, "top_p": 0.9, "seed": 4, "min_tokens": 5},
}


@one_in(2)
@pytest.mark.parametrize("format_", ["fp32", "int8"])
@pytest.mark.parametrize("way", WAYS)
def test_a_pair_has_the_targets_own_text(case, format_, way):
    pair = edgespec.load(case[2], threads=1, target_format=format_)
    options = {"max_new_tokens": 40, "ignore_eos": True, **WAYS[way]}
    accepted = 0
    for prompt in ("abc äöü", "x", "Reading drafts read states."):
        plain = pair.generate(prompt, draft=False, **options)
        for draft in ({"draft": "model", "gamma": 3}, {"draft": "both"}):
            drafted = pair.generate(prompt, **draft, **options)
            assert drafted.token_ids == plain.token_ids
            accepted += drafted.stats.accepted
        streamed = pair.stream(prompt, draft="model", gamma=2, **options)
        assert "".join(chunk.text for chunk in streamed) == plain.text
    assert accepted > 0


def test_a_source_is_not_drafted_with_another_ones_states(case):
    texts = []
    for prompts in (["abc", "xyz and more"], ["xyz and more"]):
        pair = edgespec.load(case[2], threads=1)
        for prompt in prompts:
            found = pair.generate(prompt, max_new_tokens=20, draft="model", gamma=3)
        texts.append((found.token_ids, found.stats.evaluated_at, found.stats.accepted_at))
    assert texts[0] == texts[1]


@pytest.mark.skipif(installed_kernels() is None, reason="needs kernels")
@pytest.mark.parametrize("way", [{}, {"temperature": 1.0, "seed": 2, "rule": "block"}], ids=str)
def test_texts_at_once_are_those_alone_round_by_round(case, way):
    """Sequences share the draft's calls, each beside its target's sequence."""
    pair = edgespec.load(case[2], threads=1, target_format="int8", draft_format="int8")
    assert pair.shares_calls
    options = {"max_new_tokens": 24, "draft": "model", "gamma": 3, "ignore_eos": True, **way}
    prompts = ["one", "two and more", "one", "…", "the last of them"]
    for number, found in enumerate(pair.generate_many(prompts, texts=3, **options)):
        seed = {"seed": way["seed"] + number} if "seed" in way else {}
        alone = pair.generate(prompts[number], **{**options, **seed})
        assert found.token_ids == alone.token_ids
        assert found.stats.accepted_at == alone.stats.accepted_at
        assert found.stats.evaluated_at == alone.stats.evaluated_at


def test_a_prompt_of_the_caches_size_goes_to_the_encoder_alone(case):
    """The draft has no positions for a source, so none need be left."""
    pair = edgespec.load(case[2], threads=1, capacity=12)
    source = [*range(40, 51), 1]
    plain = pair.generate(source, max_new_tokens=12, ignore_eos=True, draft=False)
    found = pair.generate(source, max_new_tokens=12, ignore_eos=True, draft="model", gamma=3)
    assert found.token_ids == plain.token_ids
    assert len(found.token_ids) == 12


def test_only_the_target_keeps_keys_and_values_of_a_source(case):
    manifest = read_manifest(case[2])
    draft = manifest.draft
    assert draft is not None
    assert draft.start_token is not None
    assert manifest.target.features == draft.features == len(LAYERS) * 32
    with_draft, alone = (
        estimated_memory(manifest, ("fp32", name), capacity=64).position for name in ("fp32", None)
    )
    own = 2 * 4 * draft.layers * draft.kv_heads * draft.head_size
    assert with_draft == alone + own


@pytest.mark.parametrize("shape", [{"layers": 2}, {"width": 48}], ids=str)
def test_such_a_draft_belongs_to_its_target(tmp_path, shape):
    target = write_target(tmp_path / "target")
    write_eagle(target, tmp_path / "draft")
    other = write_target(tmp_path / "other", **shape)
    with pytest.raises(EdgespecError, match=r"reads layers 2, 3 of a .* of width 32, and .* not"):
        export_pair(str(other), str(tmp_path / "draft"), tmp_path / "pair")


def test_neither_a_llama_nor_another_encoder_decoder_has_such_states(tmp_path):
    target = write_target(tmp_path / "target")
    write_eagle(target, tmp_path / "draft")
    llama = write_llama(tmp_path / "llama", "llama")
    with pytest.raises(EdgespecError, match="one has an encoder, one has none"):
        export_pair(str(llama), str(tmp_path / "draft"), tmp_path / "pair")
    bart = write_bart(tmp_path / "bart", "bart")
    with pytest.raises(EdgespecError, match=r"reads layers 2, 3 of a .* and .* is not one"):
        export_pair(str(bart), str(tmp_path / "draft"), tmp_path / "pair")


@pytest.mark.parametrize("start", [272, -1, "0", True])
def test_an_impossible_start_token_is_one_line(tmp_path, start):
    target = write_target(tmp_path / "target")
    write_eagle(target, tmp_path / "draft")
    file = tmp_path / "draft" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "decoder_start_token_id": start}))
    with pytest.raises(EdgespecError, match=f"decoder_start_token_id is {start!r}"):
        export_pair(str(target), str(tmp_path / "draft"), tmp_path / "pair")
