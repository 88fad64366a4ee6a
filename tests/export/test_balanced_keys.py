"""Claim: keys of one size cost nothing: scores have the same bits, and a cache of 8 bits loses much
less where biases of keys are large in a few numbers, as those of Qwen 2.5 are."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from checkpoints import byte_tokenizer, write_llama
from edgespec.artifact.manifest import read_manifest
from edgespec.device.device import Device
from edgespec.pair.opening.runtime import open_model
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import Source
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from edgespec_export.families.llama_like.llama import Llama
from edgespec_export.families.rotary import balanced_keys

FORMATS = ["fp32", "bf16", "int8", "int4"]
TOKENS = [7 * number % 250 for number in range(90)]


def write_qwen2(folder, outliers=True):
    """Four query heads and two key heads of 16; a pair of each key head's bias is 150 times as
    large as the others."""
    sizes = {"head_size": 16, "heads": 4, "kv_heads": 2, "width": 64, "inner": 96}
    tokenizer = byte_tokenizer(272)
    write_llama(folder, model_type="qwen2", vocab_size=272, tokenizer=tokenizer, **sizes)
    file = folder / "model.safetensors"
    tensors = load_file(file)
    for name in tensors:
        if name.endswith("k_proj.bias") and outliers:
            bias = tensors[name].reshape(2, 2, 8).copy()
            bias[0, :, 5] = 90, -120
            bias[1, 0, 7] = 150
            tensors[name] = bias.reshape(-1)
    save_file(tensors, file, {"format": "pt"})
    return folder


def exported(source, folder, *caches):
    formats = {"target_formats": FORMATS, "cache_formats": caches}
    export_pair(str(source), None, folder, measure=False, **formats)
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_qwen2(tmp_path_factory.mktemp("source") / "qwen2")


@pytest.fixture(scope="module")
def balanced(source, tmp_path_factory):
    return exported(source, tmp_path_factory.mktemp("balanced") / "pair", "fp32", "int8")


@pytest.fixture(scope="module")
def as_it_is(source, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Llama, "with_balanced_keys", lambda self: self)
        return exported(source, tmp_path_factory.mktemp("as-it-is") / "pair", "fp32", "int8")


def logits(folder, variant):
    target = read_manifest(folder).target
    model = open_model(folder, target, variant, device=Device(1))
    rows = model.score(TOKENS[:60]).copy()
    return np.concatenate([rows, *(model.score([token]).copy() for token in TOKENS[60:])])


def error(folder, weights="fp32"):
    """Of a cache in 8 bits, relative to the logits' size."""
    exact, narrow = (logits(folder, name) for name in (weights, f"{weights}-cache-int8"))
    return np.abs(narrow - exact).mean() / np.abs(exact).mean()


@pytest.mark.parametrize("weights", FORMATS)
def test_scores_have_the_same_bits(balanced, as_it_is, weights):
    assert np.array_equal(logits(balanced, weights), logits(as_it_is, weights))


def test_a_cache_of_8_bits_loses_much_less(balanced, as_it_is):
    assert error(balanced) < error(as_it_is) / 2


@pytest.mark.parametrize("only", ["q", "k"])
def test_factors_of_one_of_both_are_seen(source, as_it_is, tmp_path, monkeypatch, only):
    """Mutants: queries alone are multiplied, or keys."""
    factors = balanced_keys.BalancedKeys._factors

    def wrongly(self, name):
        return factors(self, name) if f".{only}_proj." in name else None

    monkeypatch.setattr(balanced_keys.BalancedKeys, "_factors", wrongly)
    folder = exported(source, tmp_path / "pair", "fp32", "int8")
    assert not np.array_equal(logits(folder, "fp32"), logits(as_it_is, "fp32"))


def test_no_number_becomes_smaller(source):
    """A group's scale in float16 could lose bits."""
    checkpoint = open_checkpoint(Source(source, "model"))
    family = family_of(checkpoint.config, checkpoint.label)
    view = family.with_balanced_keys().view(checkpoint.weights)
    for name in view.names():
        ratios = np.abs(view.read(name) / checkpoint.weights.read(name))
        assert (np.exp2(np.rint(np.log2(ratios))) == ratios).all()
        assert ratios.min() >= 1
        assert ratios.max() <= balanced_keys.WHOLE


def test_models_without_such_biases_stay(tmp_path):
    for kind in ("llama", "qwen3"):
        checkpoint = open_checkpoint(Source(write_llama(tmp_path / kind, model_type=kind), kind))
        family = family_of(checkpoint.config, checkpoint.label)
        assert family.with_balanced_keys() is family
