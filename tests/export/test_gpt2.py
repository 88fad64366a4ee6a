"""Claim: a GPT-2 computes what transformers computes, within 1e-5; other formats stay near."""

from __future__ import annotations

import numpy as np
import pytest

from checkpoints import byte_tokenizer
from depth import one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

FORMATS = ["fp32", "fp16", "int8", "int8-weights"]
CASES = {
    "fused attention": {},
    "standard attention": {"n_embd": 30, "n_head": 3},
    "relu": {"activation_function": "relu"},
    "a head of its own": {"tie_word_embeddings": False},
}


def write_gpt2(folder, **changes):
    torch.manual_seed(0)
    settings = {
        "vocab_size": 272,
        "n_embd": 64,
        "n_head": 4,
        "n_layer": 3,
        "n_positions": 64,
        "initializer_range": 0.2,
        "bos_token_id": 1,
        "eos_token_id": 1,
        "pad_token_id": 0,
    }
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**settings, **changes}))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:  # biases and norms that do something
                weight += 0.2 * torch.randn(weight.shape)
    model.save_pretrained(folder)
    byte_tokenizer(272).save(str(folder / "tokenizer.json"))
    return folder


@one_in(2)
@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case, tmp_path):
    from edgespec_export.verify import differences

    source = write_gpt2(tmp_path / "checkpoint", **CASES[case])
    export_pair(str(source), None, tmp_path / "pair", target_formats=FORMATS)
    exported = read_manifest(tmp_path / "pair").target
    model = open_model(tmp_path / "pair", exported, "fp32", min_rows=2)
    assert differences(source, exported, model)["decoder"] <= 1e-5
    assert all(v.row_invariance.is_row_invariant for v in exported.variants.values())
    assert all(exported.variants[name].distance.kl < 0.02 for name in FORMATS[1:])
    blocks = exported.variants["int8"].blocks["decoder"]
    assert (blocks.fused, blocks.total) == (0, 6)  # a layer norm is no part of a fused block


def test_a_text_fills_all_positions(tmp_path):
    source = write_gpt2(tmp_path / "checkpoint")
    exported = export_pair(str(source), None, tmp_path / "pair", measure=False).target
    model = open_model(tmp_path / "pair", exported, "fp32", min_rows=2, device=Device(1))
    model.prefill([4] * 63)
    assert np.isfinite(model.score([5])).all()


def test_another_scale_of_each_layer_is_refused_by_name():
    config = transformers.GPT2Config(scale_attn_by_inverse_layer_idx=True).to_dict()
    with pytest.raises(EdgespecError, match="scale_attn_by_inverse_layer_idx"):
        family_of(config, "model")
