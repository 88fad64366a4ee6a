"""Claim: gpt-oss is exported from its published form, MXFP4, and equals transformers.

test_family_corpus.py compares the unquantized form, test_gguf_families.py a GGUF file. Here experts
are drawn as codes and exponents, and transformers computes with the numbers that these stand for;
speculation changes no text: in fp32 by default, in all formats with EDGESPEC_DEEP=1.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import edgespec
from checkpoints import byte_tokenizer
from depth import DEEP
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.export_pair import export_pair
from family_corpus import CASES, SIZES, write_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

POSITIVE = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
FP4 = np.array([*POSITIVE, *(-value for value in POSITIVE)], np.float32)
BLOCK, BIAS = 32, 127
TEXT = [int(token) for token in np.random.default_rng(7).integers(8, 256, size=60)]
FORMATS = ("fp32", "int8", "int4", "int8-groups", "fp16") if DEEP else ("fp32",)


def drawn(rng, experts, out, width):
    """Codes and exponents of experts, and the matrices [experts, in, out] that they stand for."""
    codes = rng.integers(0, 16, size=(experts, out, width // BLOCK, BLOCK))
    exponents = rng.integers(-6, -2, size=codes.shape[:3])
    values = FP4[codes] * np.exp2(exponents)[..., None].astype(np.float32)
    stored = {
        "_blocks": (codes[..., 0::2] + 16 * codes[..., 1::2]).astype(np.uint8),
        "_scales": (exponents + BIAS).astype(np.uint8),
    }
    return stored, values.reshape(experts, out, width).swapaxes(1, 2)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A folder as it is published, and the model with the same numbers."""
    folder = tmp_path_factory.mktemp("gpt-oss") / "model"
    (case,) = (case for case in CASES if case.model_type == "gpt_oss")
    model = write_model(case, folder)
    rng = np.random.default_rng(3)
    tensors = load_file(folder / "model.safetensors")
    parameters = dict(model.named_parameters())
    for name in [name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, width, out = tensors.pop(name).shape
        stored, values = drawn(rng, experts, out, width)
        tensors |= {f"{name}{part}": stored[part] for part in stored}
        with torch.no_grad():
            parameters[name].copy_(torch.from_numpy(values.copy()))
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = {**case.config, "quantization_config": {"quant_method": "mxfp4"}}
    (folder / "config.json").write_text(json.dumps(config))
    byte_tokenizer(SIZES["vocab_size"]).save(str(folder / "tokenizer.json"))
    return folder, model


@pytest.fixture(scope="module")
def pair(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("pair") / "pair"
    export_pair(str(source[0]), None, out, target_formats=FORMATS, threads=1)
    return out


def test_logits_are_those_of_transformers(source, pair):
    model = open_model(pair, read_manifest(pair).target, "fp32", min_rows=2)
    rows = [model.prefill(TEXT[:3]), *TEXT[3:]]
    calls = [model.score(rows[first : first + 7]).copy() for first in range(0, len(rows), 7)]
    with torch.inference_mode():
        expected = source[1](input_ids=torch.tensor([TEXT]), use_cache=False).logits[0, 2:].numpy()
    assert np.abs(np.concatenate(calls) - expected).max() <= 1e-4
    assert expected.std() > 0.1


@pytest.mark.parametrize("number_format", FORMATS)
def test_a_drafter_changes_no_text(number_format, pair):
    loaded = edgespec.load(pair, target_format=number_format, threads=1)
    for sampling in ({"temperature": 0}, {"temperature": 1.0, "seed": 5}):
        options = {"max_new_tokens": 16, "ignore_eos": True, **sampling}
        plain = loaded.generate(TEXT[:20] * 2, draft=False, **options)
        drafted = loaded.generate(TEXT[:20] * 2, draft=True, gamma=3, **options)
        assert drafted.token_ids == plain.token_ids
        assert drafted.stats.drafted > 0  # it verifies exactly, or nothing were drafted


def test_parts_that_do_not_fit_are_refused(source, tmp_path):
    tensors = load_file(source[0] / "model.safetensors")
    name = next(name for name in tensors if name.endswith("_scales"))
    tensors[name] = tensors[name][:, :-1].copy()
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    for file in ("config.json", "tokenizer.json"):
        (tmp_path / file).write_bytes((source[0] / file).read_bytes())
    with pytest.raises(EdgespecError, match=r"quantized by mxfp4 and the parts of .* do not fit"):
        export_pair(str(tmp_path), None, tmp_path / "pair", measure=False)
