"""Claim: UMT5, whose layers each have a table of distances, computes what transformers computes.

tests/export/test_parity.py has what it shares with T5. Heads of 16 take the fused attention
operators, heads of 10 the standard ones.
"""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import edgespec
from checkpoints import byte_tokenizer, write_noisy
from depth import deep, one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.families.t5 import T5
from edgespec_export.families.umt5 import UMT5

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 272,
    "d_model": 48,
    "d_kv": 16,
    "d_ff": 64,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
}
CASES = {
    "fused attention": {},
    "standard attention": {"d_kv": 10},
    "relu, more layers in the encoder": {
        "feed_forward_proj": "relu",
        "num_layers": 4,
        "num_decoder_layers": 2,
    },
}


def write_umt5(folder, *, own_head=False, **changes):
    """Tables of all sizes; published models have a head of their own."""
    torch.manual_seed(0)
    config = transformers.UMT5Config(**{**SIZES, **changes}, tie_word_embeddings=not own_head)
    model = transformers.UMT5ForConditionalGeneration(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "relative_attention_bias" in name:
                parameter.normal_(0, 1)
            elif parameter.ndim == 1:
                parameter += 0.2 * torch.randn(parameter.shape)
            else:
                # Scores are not divided by the root of their size.
                gain = {"shared": 2, "q": 0.5}.get(name.split(".")[-2], 1)
                parameter.normal_(0, gain * parameter.shape[-1] ** -0.5)
    model.save_pretrained(folder)
    if own_head:
        path = folder / "model.safetensors"
        tensors = load_file(path)
        head = np.random.default_rng(0).normal(0, 0.15, tensors["shared.weight"].shape)
        save_file({**tensors, "lm_head.weight": head.astype(np.float32)}, path, {"format": "pt"})
    byte_tokenizer(272, append_eos=True).save(str(folder / "tokenizer.json"))
    return folder


def difference(source, out):
    """From transformers, in float32, of any graph."""
    from edgespec_export.verify import differences

    export_pair(str(source), None, out, measure=False, threads=1)
    exported = read_manifest(out).target
    model = open_model(out, exported, "fp32", min_rows=2)
    return max(differences(source, exported, model).values())


@one_in(2)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("own_head", [True, False])
def test_logits_are_those_of_transformers(case, own_head, tmp_path):
    source = write_umt5(tmp_path / "checkpoint", own_head=own_head, **CASES[case])
    assert difference(source, tmp_path / "pair") <= 2e-5
    assert read_manifest(tmp_path / "pair").target.family == "umt5"


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_the_first_layers_table_in_all_layers_changes_the_logits(stack, tmp_path, monkeypatch):
    source = write_umt5(tmp_path / "checkpoint")
    own = T5.bias
    monkeypatch.setattr(
        UMT5, "bias", lambda self, name, layer: own(self, name, 0 if name == stack else layer)
    )
    monkeypatch.setattr("edgespec_export.write_graphs.check_all_read", lambda file, family: None)
    assert difference(source, tmp_path / "pair") > 1e-2


def test_a_layer_without_its_table_is_refused_by_name(tmp_path):
    source = write_umt5(tmp_path / "checkpoint")
    path = source / "model.safetensors"
    name = "decoder.block.2.layer.0.SelfAttention.relative_attention_bias.weight"
    tensors = load_file(path)
    del tensors[name]
    save_file(tensors, path, {"format": "pt"})
    with pytest.raises(
        EdgespecError, match=r"no tensor 'decoder\.block\.2\.layer\.0\.Self"
    ) as error:
        export_pair(str(source), None, tmp_path / "pair", measure=False)
    assert "\n" not in str(error.value)


FORMATS = ["fp32", "fp16", "int8", "int4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A pair in several formats, whose draft is sometimes right."""
    folder = tmp_path_factory.mktemp("formats")
    target = write_umt5(folder / "target", own_head=True, d_model=64)
    draft = write_noisy(target, folder / "draft", noise=0.1)
    export_pair(
        str(target),
        str(draft),
        folder / "pair",
        target_formats=FORMATS,
        cache_formats=["fp32", "int8"],
        threads=1,
    )
    return folder / "pair"


@deep
def test_number_formats_stay_near_the_model_and_keep_rows_apart(folder):
    for name, variant in read_manifest(folder).target.variants.items():
        assert variant.row_invariance.is_row_invariant, name
        limit = 0.2 if name.startswith("int4") else 0.02
        assert variant.distance is None or variant.distance.kl < limit, name


@deep
@one_in(2)
@pytest.mark.parametrize("format_", [*FORMATS, "int8-cache-int8"])
def test_a_text_with_a_draft_is_the_targets_own(folder, format_):
    pair = edgespec.load(folder, threads=1, target_format=format_)
    accepted = evaluated = 0
    for options in ({}, {"temperature": 1.0, "seed": 3}):
        options |= {"max_new_tokens": 40, "ignore_eos": True}
        for prompt in ("ab", "a longer source, a longer source"):
            plain = pair.generate(prompt, draft=False, **options)
            for draft in ("model", "lookup"):
                drafted = pair.generate(prompt, draft=draft, gamma=4, **options)
                assert drafted.token_ids == plain.token_ids
                accepted += drafted.stats.accepted
                evaluated += drafted.stats.evaluated
    assert 0 < accepted < evaluated


def test_a_text_up_to_the_last_position_is_the_same_with_drafts(folder):
    pair = edgespec.load(folder, threads=1, target_format="fp32", draft_format="fp32")
    options = {"ignore_eos": True, "max_new_tokens": 600}
    plain = pair.generate("ab", draft=False, **options).token_ids
    assert len(plain) >= read_manifest(folder).target.capacity - 1
    assert pair.generate("ab", draft="lookup", **options).token_ids == plain
