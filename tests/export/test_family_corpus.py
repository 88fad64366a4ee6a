"""Claim: every config of the corpus is exported and equal to transformers, or refused by its key.

Equal: logits within 1e-4 in float32, the same greedy tokens, and with a drafter the same text as
without. Each config comes as it is published, as transformers 5 saves it and with the names of
transformers 4. EDGESPEC_CORPUS=all tests every case, else a few of each kind.
"""

from __future__ import annotations

import json
import logging
import os

import numpy as np
import pytest

import edgespec
from checkpoints import byte_tokenizer
from depth import deep, one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from family_corpus import CASES, SIZES, as_version_4, write_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

ALL = os.environ.get("EDGESPEC_CORPUS") == "all"
TESTED = {case.model: case for case in CASES if ALL or case.default}
EXPORTED = [name for name, case in TESTED.items() if not case.refused]
REFUSED = [case.model for case in CASES if case.refused]
TEXT = [int(token) for token in np.random.default_rng(7).integers(8, 256, size=90)]
PROMPT = TEXT[:20] * 2  # repeats itself, so that prompt lookup proposes something


def export(folder, out):
    export_pair(str(folder), None, out, measure=False, threads=1)
    return read_manifest(out).target


def logits_of(out, exported, text):
    """Logits of each position of a text after the first three, in calls of seven rows."""
    model = open_model(out, exported, "fp32", min_rows=2)
    rows = [model.prefill(text[:3]), *([] if exported.is_encoder_decoder else text[3:])]
    rows += text[:40] if exported.is_encoder_decoder else []
    calls = [model.score(rows[first : first + 7]).copy() for first in range(0, len(rows), 7)]
    return np.concatenate(calls), rows


def expected_logits(model, exported, text, rows):
    with torch.inference_mode():
        if not exported.is_encoder_decoder:
            return model(input_ids=torch.tensor([text]), use_cache=False).logits[0, 2:].numpy()
        inputs = {"input_ids": torch.tensor([text[:3]]), "decoder_input_ids": torch.tensor([rows])}
        return model(**inputs, use_cache=False).logits[0].numpy()


@one_in(1 if ALL else 3)
@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_config_computes_what_transformers_computes(name, tmp_path):
    case, folder = TESTED[name], tmp_path / "checkpoint"
    model = write_model(case, folder)
    saved = json.loads((folder / "config.json").read_text())
    byte_tokenizer(SIZES["vocab_size"]).save(str(folder / "tokenizer.json"))
    # Some classes put tokens of their own around a text.
    as_it_is = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(as_it_is))
    forms = {"published": case.config}
    if case.twin is None and (ALL or not case.brief):
        forms["saved"] = saved
        if case.wrapper is None:
            forms["version 4"] = as_version_4(saved)
    found = {}
    for form, config in forms.items():
        (folder / "config.json").write_text(json.dumps(config))
        out = tmp_path / form
        exported = export(folder, out)
        text = TEXT[: exported.capacity - 1]
        found[form], rows = logits_of(out, exported, text)
    expected = expected_logits(model, exported, text, rows)
    for form, logits in found.items():
        assert np.abs(logits - expected).max() <= 1e-4, form
    assert expected.std() > 0.1
    check_texts(tmp_path / "published", model, exported)


def check_texts(out, model, exported):
    """Greedy tokens are transformers', and a drafter changes no text."""
    pair = edgespec.load(out, threads=1)
    options = {"max_new_tokens": 12, "ignore_eos": True, "draft": False}
    plain = pair.generate(PROMPT, temperature=0, **options).token_ids
    if exported.is_encoder_decoder:
        greedy = []
        for _ in range(12):
            rows = [exported.start_token, *greedy]
            inputs = {
                "input_ids": torch.tensor([PROMPT]),
                "decoder_input_ids": torch.tensor([rows]),
            }
            with torch.inference_mode():
                greedy.append(int(model(**inputs, use_cache=False).logits[0, -1].argmax()))
    else:
        greedy = list(PROMPT)
        for _ in range(12):
            with torch.inference_mode():
                last = model(input_ids=torch.tensor([greedy]), use_cache=False).logits[0, -1]
            greedy.append(int(last.argmax()))
        greedy = greedy[len(PROMPT) :]
    assert plain == greedy
    for sampling in ({"temperature": 0}, {"temperature": 1.0, "seed": 5}):
        alone = pair.generate(PROMPT, **{**options, **sampling}).token_ids
        drafted = pair.generate(PROMPT, **{**options, **sampling, "draft": True, "gamma": 3})
        assert drafted.token_ids == alone


@pytest.mark.parametrize(
    "name", [case.model for case in CASES if case.wrapper and not case.refused]
)
@deep
def test_verify_knows_a_text_model_with_towers(name, tmp_path, caplog):
    (case,) = (case for case in CASES if case.model == name)
    write_model(case, tmp_path)
    byte_tokenizer(SIZES["vocab_size"]).save(str(tmp_path / "tokenizer.json"))
    caplog.set_level(logging.INFO, logger="edgespec")
    out = tmp_path / "pair"
    export_pair(str(tmp_path), None, out, verify=True, measure=False, threads=1)
    assert "max |difference|" in caplog.text


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_config_names_the_key(name, tmp_path):
    (case,) = (case for case in CASES if case.model == name)
    write_model(case, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(case.config))
    byte_tokenizer(SIZES["vocab_size"]).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(EdgespecError, match=case.refused) as error:
        export_pair(str(tmp_path), None, tmp_path / "pair", measure=False)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "pair").exists()
