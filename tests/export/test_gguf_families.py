"""Claim: a GGUF file of each architecture is the model of the checkpoint it was made of.

Weights and what the config says are equal bit for bit, so its graphs are those of the checkpoint,
which test_family_corpus.py compares with transformers. Here the logits of a few are compared with
it, too; EDGESPEC_CORPUS=all compares those of every architecture.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from depth import DEEP
from edgespec.artifact.manifest import read_manifest
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import open_model
from edgespec_export.checkpoint.checkpoint import Checkpoint, open_checkpoint
from edgespec_export.checkpoint.gguf.gguf_config import gguf_config
from edgespec_export.checkpoint.gguf.gguf_header import read_gguf_header
from edgespec_export.checkpoint.sources import Source
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from gguf_checkpoints import FORMS, Form, write_gguf, write_source
from gguf_more_forms import APART, MORE_FORMS

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

FORMS_OF_ALL = FORMS | MORE_FORMS  # those whose names are the checkpoint's
# Of the others test_gguf.py, test_gguf_gemma3.py and test_gguf_norms.py test one by default.
BY_DEFAULT = (
    *("Apertus 8B", "StableLM 2 12B", "Phi-2, Phi-1.5", "Pythia, GPT-NeoX 20B"),
    *("BLOOM, BLOOMZ", "MiniCPM 2B, MiniCPM 4"),
)
ALL = os.environ.get("EDGESPEC_CORPUS") == "all"
COMPARED = FORMS if ALL else ("LFM2, LFM2.5", "T5 v1.0")
TEXT = [int(token) for token in np.random.default_rng(5).integers(8, 256, size=40)]


@dataclass(frozen=True)
class InMemory:
    """Weights that are in memory."""

    tensors: dict[str, Any]

    def names(self) -> list[str]:
        return sorted(self.tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].shape

    def read(self, name: str) -> Any:
        return self.tensors[name]


@pytest.fixture(scope="module")
def source_of(tmp_path_factory):
    """The model and the checkpoint of a form; each is written once."""
    written: dict[str, Any] = {}

    def source(form: Form) -> tuple[Any, Checkpoint]:
        if form.model not in written:
            folder = tmp_path_factory.mktemp("source")
            written[form.model] = write_source(folder, form)
        return written[form.model]

    return source


@pytest.fixture
def write_both(source_of, tmp_path):
    """The model of transformers, its checkpoint, and the same as a GGUF file."""

    def write(form: Form, **changes: Any) -> tuple[Any, Checkpoint, Path]:
        model, checkpoint = source_of(form)
        path = tmp_path / "gguf" / "tiny.gguf"
        path.parent.mkdir()
        return model, checkpoint, write_gguf(path, form, checkpoint, **changes)

    return write


def described(config: dict[str, Any]) -> str:
    """All that an export knows of a config."""
    with np.printoptions(precision=17, threshold=100_000):
        return repr(family_of(config, "model"))


@pytest.mark.parametrize("model", FORMS_OF_ALL if DEEP else [*FORMS, *BY_DEFAULT])
def test_weights_and_config_are_those_of_the_checkpoint(model, write_both):
    form = FORMS_OF_ALL[model]
    _, checkpoint, path = write_both(form)
    found = open_checkpoint(Source(path, "model"))
    assert described(found.config) == described(checkpoint.config)
    assert sorted(found.weights.names()) == sorted(checkpoint.weights.names())
    for name in checkpoint.weights.names():
        expected = checkpoint.weights.read(name)
        assert found.weights.shape(name) == expected.shape
        read = found.weights.read(name)
        if form.norms_with_one and name.endswith("norm.weight"):  # 1 was added and subtracted
            np.testing.assert_allclose(read, expected, rtol=0, atol=1e-7, strict=True)
        else:
            np.testing.assert_array_equal(read, expected, strict=True)


def logits_of(source, out):
    export_pair(str(source), None, out, measure=False, threads=1)
    model = open_model(out, read_manifest(out).target, "fp32", min_rows=2)
    pending = model.prefill(TEXT[:5])
    return model.score([pending, *TEXT[5:20]])


@pytest.mark.parametrize("model", APART if DEEP else ["InternLM 2.5"])
def test_a_matrix_that_the_converter_takes_apart_is_that_of_the_checkpoint(model, tmp_path):
    _, checkpoint = write_source(tmp_path / "source", APART[model])
    path = write_gguf(tmp_path / "tiny.gguf", APART[model], checkpoint)
    np.testing.assert_allclose(
        logits_of(path, tmp_path / "of-file"),
        logits_of(tmp_path / "source", tmp_path / "of-checkpoint"),
        rtol=0,
        atol=1e-5,
    )


def test_a_matrix_of_queries_keys_and_values_is_taken_apart(write_both, tmp_path):
    """Files of the first Phi-2 have one."""
    form = FORMS_OF_ALL["Phi-2, Phi-1.5"]
    _, checkpoint, _ = write_both(form)
    tensors = {name: checkpoint.weights.read(name) for name in checkpoint.weights.names()}
    for layer in range(3):
        for kind in ("weight", "bias"):
            at = f"model.layers.{layer}.self_attn"
            parts = [tensors.pop(f"{at}.{part}_proj.{kind}") for part in "qkv"]
            tensors[f"{at}.qkv_proj.{kind}"] = np.concatenate(parts)
    path = tmp_path / "one.gguf"
    write_gguf(path, form, replace(checkpoint, weights=InMemory(tensors)))
    found = open_checkpoint(Source(path, "model")).weights
    assert sorted(found.names()) == sorted(checkpoint.weights.names())
    for name in checkpoint.weights.names():
        expected = checkpoint.weights.read(name)
        assert found.shape(name) == expected.shape
        np.testing.assert_array_equal(found.read(name), expected, strict=True)


STILL = {"attention.scale": None, "embedding_scale": None, "residual_scale": 0.0}


@pytest.mark.parametrize(
    ("model", "changes", "expected"),
    [
        ("Phi-3 mini", {"attention.sliding_window": 0}, {"sliding_window": None}),
        ("Phi-3 mini", {"attention.sliding_window": None}, {"sliding_window": None}),
        (
            "Phi-3 mini",
            {"attention.sliding_window": None, "context_length": 4096},
            {"sliding_window": 2047},
        ),
        (
            "Granite 3.3",
            STILL,
            {
                "attention_multiplier": 0.25,
                "embedding_multiplier": 1.0,
                "residual_multiplier": 1.0,
            },
        ),
        ("GLM-Edge", {"rope.dimension_count": None}, {"partial_rotary_factor": 0.5}),
        ("T5 v1.0", {"decoder_block_count": None}, {"num_decoder_layers": 2}),
    ],
)
def test_what_a_file_leaves_out_is_what_llama_cpp_takes(model, changes, expected, write_both):
    form = FORMS[model]
    _, _, path = write_both(form, **changes)
    found = gguf_config(read_gguf_header(path))
    assert {key: found[key] for key in expected} == expected


def test_a_stated_amplitude_of_longrope_is_kept(write_both):
    _, _, path = write_both(FORMS["Phi-4-mini"], **{"rope.scaling.attn_factor": 1.5})
    scaling = gguf_config(read_gguf_header(path))["rope_scaling"]
    assert isinstance(scaling, dict)
    assert scaling["attention_factor"] == 1.5


@pytest.mark.parametrize("arch", ["granite", "granitehybrid"])
def test_keys_of_a_dense_granite_4_change_nothing(arch, write_both):
    """The converter writes those of state-space layers, which it has none of."""
    form = replace(FORMS["Granite 3.3"], arch=arch)
    state_space = dict.fromkeys(("conv_kernel", "state_size", "group_count", "inner_size"), 4)
    changes = {
        **{f"ssm.{name}": value for name, value in state_space.items()},
        "ssm.time_step_rank": 4,
        "attention.head_count_kv": [2, 2, 2],
        "expert_count": 0,
        "expert_used_count": 0,
        "expert_shared_feed_forward_length": 48,
        "rope.scaling.finetuned": True,
    }
    _, checkpoint, path = write_both(form, **changes)
    assert described(open_checkpoint(Source(path, "model")).config) == described(checkpoint.config)


@pytest.mark.parametrize(
    ("model", "repeats", "words"),
    [
        ("T5 v1.1, flan-T5", False, "with a gate and without output.weight"),
        ("T5 v1.0", True, "quantized otherwise than its embedding"),
    ],
)
def test_a_t5_that_may_be_scaled_or_not_is_refused(model, repeats, words, write_both):
    _, checkpoint, path = write_both(FORMS[model])
    table = checkpoint.weights.read("shared.weight")
    heads = {"lm_head.weight": table.astype(np.float16)} if repeats else {}
    tensors = {name: checkpoint.weights.read(name) for name in checkpoint.weights.names()}
    tensors.pop("lm_head.weight", None)
    write_gguf(path, FORMS[model], replace(checkpoint, weights=InMemory(tensors | heads)))
    with pytest.raises(EdgespecError, match=words):
        open_checkpoint(Source(path, "model"))


def test_a_t5_whose_file_repeats_the_embedding_is_tied(write_both):
    _, checkpoint, path = write_both(FORMS["T5 v1.0"])
    tensors = {name: checkpoint.weights.read(name) for name in checkpoint.weights.names()}
    tensors["lm_head.weight"] = tensors["shared.weight"]
    write_gguf(path, FORMS["T5 v1.0"], replace(checkpoint, weights=InMemory(tensors)))
    assert described(open_checkpoint(Source(path, "model")).config) == described(checkpoint.config)


def test_a_granite_with_state_space_layers_is_refused(write_both):
    form = replace(FORMS["Granite 3.3"], arch="granitehybrid")
    _, _, path = write_both(form, **{"attention.head_count_kv": [2, 0, 0]})
    with pytest.raises(EdgespecError, match="2 of 3 layers are state-space layers"):
        open_checkpoint(Source(path, "model"))


def test_an_encoder_alone_is_called_one(write_both):
    form = replace(FORMS["T5 v1.0"], arch="t5encoder")
    _, _, path = write_both(form)
    with pytest.raises(EdgespecError, match="'t5encoder' is an encoder alone"):
        open_checkpoint(Source(path, "model"))


def test_a_baichuan_with_alibi_is_refused(tmp_path):
    form = replace(APART["Baichuan 2 7B"], changes={})
    _, checkpoint = write_source(tmp_path, form)
    path = write_gguf(tmp_path / "tiny.gguf", form, checkpoint)
    with pytest.raises(EdgespecError, match="with 3 layers has ALiBi"):
        open_checkpoint(Source(path, "model"))


def test_an_apertus_without_the_numbers_of_its_activation_is_refused(write_both, tmp_path):
    form = FORMS_OF_ALL["Apertus 8B"]
    _, checkpoint, _ = write_both(form)
    names = [name for name in checkpoint.weights.names() if ".act_fn." not in name]
    weights = InMemory({name: checkpoint.weights.read(name) for name in names})
    path = write_gguf(tmp_path / "none.gguf", form, replace(checkpoint, weights=weights))
    with pytest.raises(EdgespecError, match=r"xielu.alpha_n is None, not a number for each of 3"):
        open_checkpoint(Source(path, "model"))


@pytest.mark.parametrize("model", COMPARED)
def test_logits_are_those_of_transformers(model, tmp_path, write_both):
    original, _, path = write_both(FORMS[model])
    out = tmp_path / "pair"
    export_pair(str(path), None, out, measure=False, threads=1)
    exported = read_manifest(out).target
    scored = open_model(out, exported, "fp32", min_rows=2)
    pending = scored.prefill(TEXT[:5])
    rows = TEXT[:20] if exported.is_encoder_decoder else TEXT[5:]
    logits = scored.score([pending, *rows])
    with torch.inference_mode():
        if exported.is_encoder_decoder:
            inputs = {
                "input_ids": torch.tensor([TEXT[:5]]),
                "decoder_input_ids": torch.tensor([[pending, *rows]]),
            }
            expected = original(**inputs, use_cache=False).logits[0]
        else:
            expected = original(input_ids=torch.tensor([TEXT]), use_cache=False).logits[0, 4:]
    assert np.abs(logits - expected.numpy()).max() <= 1e-4
    assert expected.std() > 0.1


@pytest.mark.parametrize("model", FORMS if ALL else ("Granite 3.3", "Phi-4-mini"))
def test_verify_compares_files_that_transformers_does_not_read(model, tmp_path, caplog, write_both):
    _, _, path = write_both(FORMS[model])
    caplog.set_level(logging.INFO, logger="edgespec")
    export_pair(str(path), None, tmp_path / "pair", verify=True, measure=False, threads=1)
    assert "max |difference|" in caplog.text


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        ("Granite 3.3", {"rope.scaling.finetuned": False}, "without rotary positions"),
        ("Phi-3 mini", {"attention.head_count": 4096}, "4096 heads are more than the 64 numbers"),
        ("Granite 3.3", {"ssm.dt_rank": 4}, "ssm.dt_rank' = 4 is not known"),
        ("LFM2, LFM2.5", {"attention.head_count_kv": 2}, "head_count_kv is 2, not a list"),
        ("LFM2, LFM2.5", {"attention.sliding_window": 8}, "sliding_window' = 8 is not known"),
        ("Ministral 3", {"rope.scaling.type": "none"}, "goes with the rope scaling 'yarn'"),
        ("AFM 4.5B", {"rope.scaling.yarn_log_multiplier": 1.0}, "yarn_log_multiplier = 1.0"),
        ("GPT-2 medium, distilgpt2", {"attention.clamp_kqv": 8.0}, "clamp_kqv' = 8.0 is not known"),
        ("MiniCPM 2B, MiniCPM 4", {"logit_scale": 5.0}, "5.0, which does not divide the width"),
        ("MiniCPM 2B, MiniCPM 4", {"residual_scale": None}, "lacks minicpm.residual_scale"),
        ("Phi-2, Phi-1.5", {"attention.scale": 2.0}, "attention.scale' = 2.0 is not known"),
    ],
)
def test_a_key_that_would_be_another_model_is_refused_by_name(model, changes, words, write_both):
    _, _, path = write_both(FORMS_OF_ALL[model], **changes)
    with pytest.raises(EdgespecError, match=words) as error:
        open_checkpoint(Source(path, "model"))
    assert "\n" not in str(error.value)
