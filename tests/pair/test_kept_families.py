"""Claim: a kept prompt changes no text of any family: states of recurrent layers, windows,
convolutions, an encoder's source, and drafts that read their target, too."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import edgespec
from checkpoints import byte_tokenizer, write_noisy
from depth import DEEP, deep
from edgespec_export.export_pair import export_pair
from qwen35_checkpoints import add_head, write_qwen35

TEXT = [int(token) for token in np.random.default_rng(11).integers(8, 256, size=400)]
QUICK = {"threads": 1, "measure": False}
EXACT = {"max_new_tokens": 10, "ignore_eos": True, "logprobs": True}
WAYS = [{"draft": False}, {"gamma": 3, "draft": True}, {"gamma": 3, "temperature": 1.0, "seed": 4}]
RULES = [{**WAYS[2], "rule": rule} for rule in ("token", "block")]


def qwen35(folder, formats=("int8",)):
    source = folder / "qwen35"
    write_qwen35(source)
    add_head(source)
    kinds = {"target_formats": formats, "draft_formats": formats}
    export_pair(str(source), str(source), folder / "pair", **kinds, **QUICK)


def qwen35_alone(folder):
    write_qwen35(folder / "qwen35")
    source = folder / "qwen35"
    draft = write_noisy(source, folder / "draft", noise=0.02)
    export_pair(str(source), str(draft), folder / "pair", target_formats=["int8", "fp32"], **QUICK)


def of_the_corpus(folder, *, name):
    from family_corpus import CASES, write_model

    (case,) = (each for each in CASES if each.model == name)
    write_model(case, folder / "model")
    byte_tokenizer(272).save(str(folder / "model" / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "model" / "tokenizer_config.json").write_text(json.dumps(settings))
    draft = write_noisy(folder / "model", folder / "draft", noise=0.02)
    export_pair(str(folder / "model"), str(draft), folder / "pair", **QUICK)


def head(folder, *, kind):
    from eagle_checkpoints import write_eagle, write_target

    target = write_target(folder / "target", "qwen3")
    write_eagle(target, folder / "draft", layers=1, **({"block": 4} if kind == "block" else {}))
    formats = {"target_formats": ["int8"], "draft_formats": ["int8"]}
    export_pair(str(target), str(folder / "draft"), folder / "pair", **formats, **QUICK)


def masked_block(folder):
    from eagle3_checkpoints import write_deep_target
    from speculators_checkpoints import BLOCK_CONFIGS, block_tensors, write_draft

    target = write_deep_target(folder / "target")
    draft = write_draft(folder / "draft", BLOCK_CONFIGS["dspark"], block_tensors)
    export_pair(str(target), str(draft), folder / "pair", **QUICK)


def assistant(folder):
    from gemma4_checkpoints import write_assistant, write_gemma4

    target, draft = write_gemma4(folder / "target"), write_assistant(folder / "draft")
    export_pair(str(target), str(draft), folder / "pair", **QUICK)


def shared_encoder(folder):
    from shared_encoder_checkpoints import write_draft, write_target

    target = write_target(folder / "target")
    write_draft(target, folder / "draft", width=16)
    export_pair(str(target), str(folder / "draft"), folder / "pair", **QUICK)


def t5_head(folder):
    from eagle_checkpoints import write_eagle
    from shared_encoder_checkpoints import write_target

    target = write_target(folder / "target")
    write_eagle(target, folder / "draft")
    export_pair(str(target), str(folder / "draft"), folder / "pair", **QUICK)


FAMILIES = {
    "states, and a head": qwen35,
    "states": qwen35_alone,
    "windows": partial(of_the_corpus, name="Mistral 7B v0.1"),
    "convolutions": partial(of_the_corpus, name="LFM2, LFM2.5"),
    "an EAGLE head": partial(head, kind="eagle"),
    "an EAGLE head of a T5": t5_head,
    "a block draft": partial(head, kind="block"),
    "blocks of masks": masked_block,
    "a draft that reads its target's cache": assistant,
    "a draft that reads its target's encoder": shared_encoder,
}
OFTEN = ("states, and a head",)


@pytest.fixture(
    scope="module",
    params=[n if n in OFTEN else pytest.param(n, marks=deep) for n in FAMILIES],
)
def folder(request, tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("family")
    FAMILIES[request.param](made)
    edgespec.load(made / "pair", threads=1)
    return made / "pair"


def same_text(pair, plain, prompt, way):
    found, expected = (each.generate(prompt, **EXACT, **way) for each in (pair, plain))
    assert found.token_ids == expected.token_ids
    assert found.logprobs == expected.logprobs


def longest(pair) -> int:
    return min(len(TEXT), pair.target.capacity - 40)


@pytest.mark.parametrize("number", range(3 if DEEP else 1))
def test_a_text_is_the_one_without_a_kept_prompt(folder, tmp_path, number):
    for form in list(edgespec.load(folder, threads=1).manifest.target.variants)[: 3 if DEEP else 1]:
        plain, pair, keeper = (
            edgespec.load(folder, threads=1, target_format=form) for _ in range(3)
        )
        size = longest(plain)
        cut = size - [20, 150, 7][number] if size > 200 else size // 2
        keeper.save_prefix(TEXT[:cut], tmp_path / form)
        pair.use_prefix(tmp_path / form)
        others = [[*TEXT[: cut // 2], 9], TEXT[: cut - 1], [*TEXT[:cut], 7, 7]]
        for prompt in (TEXT[:size], TEXT[:cut], *others):
            for way in WAYS + RULES * DEEP:
                same_text(pair, plain, prompt, way)


def test_texts_of_a_batch_are_those_without_a_kept_prompt(folder, tmp_path):
    plain, pair, keeper = (edgespec.load(folder, threads=1) for _ in range(3))
    size = longest(plain)
    keeper.save_prefix(TEXT[: size - 9], tmp_path / "prefix")
    pair.use_prefix(tmp_path / "prefix")
    prompts = [TEXT[:size], [*TEXT[: size // 2], 5], TEXT[: size - 9]]
    expected = [plain.generate(prompt, **EXACT) for prompt in prompts]
    for found, alone in zip(pair.generate_many(prompts, **EXACT), expected, strict=True):
        assert found.token_ids == alone.token_ids
        assert found.logprobs == alone.logprobs


def test_a_source_that_was_kept_is_not_encoded_again(pair_folder, tmp_path, monkeypatch):
    """The shipped pair, which translates."""
    plain, pair = (edgespec.load(pair_folder, threads=1) for _ in range(2))
    source = "The house is small, but the garden behind it is large."
    plain.save_prefix(source, tmp_path / "prefix")
    pair.use_prefix(tmp_path / "prefix")
    for way in WAYS:
        expected = plain.generate(source, max_new_tokens=24, logprobs=True, **way)
        other = plain.generate("Another one.", max_new_tokens=24, **way).token_ids
        with monkeypatch.context() as patch:
            for model in (pair.target, pair.draft):
                patch.setattr(model._encoder, "encode", None)
            found = pair.generate(source, max_new_tokens=24, logprobs=True, **way)
        assert found.token_ids == expected.token_ids
        assert found.logprobs == expected.logprobs
        assert pair.generate("Another one.", max_new_tokens=24, **way).token_ids == other
    (many,) = pair.generate_many([source], max_new_tokens=24)
    assert many.token_ids == plain.generate(source, max_new_tokens=24).token_ids
