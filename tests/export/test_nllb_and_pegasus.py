"""Claim: what M2M100 has and mBART has not is computed as in transformers: positions that count
from the padding token, and languages that are chosen for each text.

tests/export/test_bart.py has what all relatives of BART have in common.
"""

from __future__ import annotations

import numpy as np
import pytest

import edgespec
from bart_checkpoints import SIZES, write_bart, write_nllb
from checkpoints import write_noisy
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from edgespec_export.families.bart.m2m100 import M2M100, fairseq_sinusoids

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

PAD = 2
SOURCE = [5, PAD, 9, 30, PAD, PAD, 8]
TEXT = [1, 7, PAD, 40, 41, PAD, 90]


def exported(source, out):
    target = export_pair(str(source), None, out, measure=False, threads=1).target
    return open_model(out, target, "fp32", min_rows=2)


def logits(model, source, text):
    """A row for each token of a text, in calls of up to 3."""
    pending = model.prefill(source)
    assert pending == text[0]
    return np.concatenate([model.score(text[at : at + 3]).copy() for at in range(0, len(text), 3)])


def expected_logits(source, text, checkpoint):
    """As `generate` computes them: token by token, with a cache."""
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(checkpoint).eval()
    inputs = {"encoder_outputs": model.get_encoder()(torch.tensor([source]))}
    rows = []
    for token in text:
        made = model(decoder_input_ids=torch.tensor([[token]]), use_cache=True, **inputs)
        inputs["past_key_values"] = made.past_key_values
        rows.append(made.logits[0, -1].numpy())
    return np.stack(rows)


@pytest.mark.parametrize("pad", [1, PAD])
@pytest.mark.parametrize("width", [30, 33])
def test_the_sines_of_positions_are_those_of_transformers(pad, width):
    from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding

    table = M2M100SinusoidalPositionalEmbedding(1024 + pad, width, pad).weights.numpy()
    ours = fairseq_sinusoids(np.arange(pad + 1, pad + 1025), width)
    assert np.abs(ours - table[pad + 1 : pad + 1025]).max() <= 1e-4
    assert np.abs(ours - table[pad : pad + 1024]).max() > 0.1


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write_bart(tmp_path_factory.mktemp("m2m100") / "checkpoint", "m2m100")


@torch.inference_mode()
def test_padding_tokens_inside_a_text_have_no_position(checkpoint, tmp_path):
    expected = expected_logits(SOURCE, TEXT, checkpoint)
    model = exported(checkpoint, tmp_path / "pair")
    assert np.abs(logits(model, SOURCE, TEXT) - expected).max() <= 1e-4


def _sines_from_0(self):
    return np.concatenate(
        [
            np.zeros((1, self.width), np.float32),
            fairseq_sinusoids(np.arange(self.positions), self.width),
        ]
    )


MISTAKES = {
    "positions that count from 0": ("position_rows", _sines_from_0),
    "padding tokens of a source with positions": (
        "encoder_rows",
        lambda self, g, tokens: super(M2M100, self).encoder_rows(g, tokens),
    ),
    "padding tokens of a text with positions": (
        "decoder_rows",
        lambda self, g, tokens, queries: super(M2M100, self).decoder_rows(g, tokens, queries),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@torch.inference_mode()
def test_a_mistake_with_positions_changes_the_logits(mistake, checkpoint, tmp_path, monkeypatch):
    expected = expected_logits(SOURCE, TEXT, checkpoint)
    monkeypatch.setattr(M2M100, *MISTAKES[mistake])
    model = exported(checkpoint, tmp_path / "pair")
    assert np.abs(logits(model, SOURCE, TEXT) - expected).max() > 1e-2


@pytest.mark.parametrize("pad", [None, 272, "1", -1])
def test_a_padding_token_that_is_none_is_refused(pad):
    config = {"model_type": "m2m_100", **SIZES, "pad_token_id": pad}
    with pytest.raises(EdgespecError, match=r"pad_token_id = .*one of the 272 tokens") as error:
        family_of(config, "model")
    assert "\n" not in str(error.value)


# --- files, drafts and languages ------------------------------------------------------------------


@pytest.mark.parametrize("family", ["m2m100", "pegasus"])
def test_a_pytorch_file_has_the_same_model(family, tmp_path):
    """With the tables of positions that old versions of transformers wrote into it."""
    source = write_bart(tmp_path / "checkpoint", family)
    start = {"m2m100": 1, "pegasus": 0}[family]
    model = exported(source, tmp_path / "pair")
    expected = logits(model, [5, 9], [start, 30])
    path = source / "model.safetensors"
    from safetensors.torch import load_file

    tensors = load_file(path)
    if family == "m2m100":
        tensors |= {f"model.{name}.embed_positions.weights": torch.ones(130, 48) for name in STACKS}
    torch.save(tensors, source / "pytorch_model.bin")
    path.unlink()
    model = exported(source, tmp_path / "other")
    assert np.array_equal(logits(model, [5, 9], [start, 30]), expected)


STACKS = ("encoder", "decoder")


@pytest.fixture(scope="module")
def nllb(tmp_path_factory):
    """A checkpoint, its pair with a draft that is sometimes right, and the original."""
    folder = tmp_path_factory.mktemp("nllb")
    source = write_nllb(folder / "checkpoint", src_lang="deu_Latn")
    draft = write_noisy(source, folder / "draft", noise=0.05)
    export_pair(str(source), str(draft), folder / "pair", measure=False, threads=1)
    pair = edgespec.load(folder / "pair", threads=1, allow_inexact=True)
    original = transformers.AutoModelForSeq2SeqLM.from_pretrained(source).eval()
    return pair, transformers.AutoTokenizer.from_pretrained(source), original


def test_the_languages_are_those_of_the_tokenizer(nllb):
    pair, tokenizer, _ = nllb
    languages = pair.manifest.languages
    assert (languages.source, languages.target) == ("deu_Latn", None)
    assert len(languages.tokens) == 202
    assert languages.tokens["zho_Hant"] == tokenizer.convert_tokens_to_ids("zho_Hant")


@pytest.mark.parametrize("draft", [False, "lookup", "model"])
@pytest.mark.parametrize("source", ["deu_Latn", "zho_Hans"])
def test_a_translation_is_that_of_transformers(nllb, source, draft):
    pair, tokenizer, original = nllb
    text, target = "hello world, it's 12:45", "fra_Latn"
    tokenizer.src_lang = source
    expected = original.generate(
        **tokenizer(text, return_tensors="pt"),
        forced_bos_token_id=tokenizer.convert_tokens_to_ids(target),
        max_new_tokens=12,
        do_sample=False,
        num_beams=1,
        eos_token_id=None,
    )[0, 1:].tolist()
    languages = {"source_language": source, "target_language": target}
    made = pair.generate(text, draft=draft, max_new_tokens=12, ignore_eos=True, **languages)
    assert made.token_ids == expected


def test_a_text_up_to_the_last_position_is_the_same_with_drafts(nllb):
    pair, _, _ = nllb
    options = {"ignore_eos": True, "temperature": 1.0, "seed": 4, "target_language": "fra_Latn"}
    whole = {
        draft: pair.generate("hello world", draft=draft, max_new_tokens=500, **options).token_ids
        for draft in (False, "lookup", "model")
    }
    assert len(whole[False]) >= SIZES["max_position_embeddings"] - 1
    assert whole["lookup"] == whole[False]
    assert whole["model"] == whole[False]
