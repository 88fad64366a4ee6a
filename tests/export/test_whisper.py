"""Claim: a Whisper computes what transformers computes, within 1e-5, from both kinds of checkpoint.

Every format is a row-invariant target and stays near float32.
"""

from __future__ import annotations

import numpy as np
import pytest

from depth import one_in
from edgespec.artifact.manifest import read_manifest
from edgespec.artifact.speech_format import read_speech_format
from edgespec.device.device import Device
from edgespec.errors import EdgespecError
from edgespec.pair.opening.runtime import hear_sample, open_model
from edgespec_export.checkpoint.checkpoint import open_checkpoint
from edgespec_export.checkpoint.sources import Source
from edgespec_export.export_pair import export_pair
from edgespec_export.families import family_of
from whisper_checkpoints import LANGUAGES, SOURCE, write_ctranslate2, write_whisper

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

FORMATS = ["fp32", "fp16", "int8", "int8-weights"]
CASES = {
    "fused attention": {},
    "standard attention": {
        "d_model": 30,
        "encoder_attention_heads": 3,
        "decoder_attention_heads": 3,
    },
    "other heads in the encoder": {"encoder_attention_heads": 4, "num_mel_bins": 7},
    "relu, an odd number of layers": {"activation_function": "relu", "decoder_layers": 1},
}


@one_in(2)
@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case, tmp_path):
    from edgespec_export.verify import differences

    source = write_whisper(tmp_path / "checkpoint", **CASES[case])
    export_pair(str(source), None, tmp_path / "pair", target_formats=FORMATS)
    exported = read_manifest(tmp_path / "pair").target
    model = open_model(tmp_path / "pair", exported, "fp32", min_rows=2)
    found = differences(source, exported, model)
    assert found["encoder"] <= 1e-5
    assert found["decoder"] <= 1e-5
    assert all(v.row_invariance.is_row_invariant for v in exported.variants.values())
    assert all(exported.variants[name].distance.kl < 0.02 for name in FORMATS[1:])


def opened(folder, name="model"):
    return open_checkpoint(Source(folder, name))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 0), ("float16", 1e-3), ("int8", 0.01)]
)
def test_a_ctranslate2_folder_has_the_tensors_of_its_original(dtype, tolerance, tmp_path):
    original = opened(write_whisper(tmp_path / "checkpoint"))
    converted = opened(write_ctranslate2(tmp_path / "checkpoint", tmp_path / "ct2", dtype))
    tied = {"proj_out.weight"}
    assert set(converted.weights.names()) - tied == set(original.weights.names()) - tied
    for name in converted.weights.names():
        ours, theirs = converted.weights.read(name), original.weights.read(name)
        assert ours.shape == converted.weights.shape(name) == theirs.shape
        assert np.abs(ours - theirs).max() <= tolerance * max(1, np.abs(theirs).max())
    shape = {key: original.config[key] for key in converted.config}
    assert converted.config == shape
    assert converted.eos_token_ids == original.eos_token_ids


def test_a_pair_of_a_ctranslate2_folder_is_the_pair_of_its_original(tmp_path):
    source = write_whisper(tmp_path / "checkpoint")
    converted = write_ctranslate2(source, tmp_path / "ct2")
    for name, checkpoint in (("one", source), ("other", converted)):
        export_pair(str(checkpoint), None, tmp_path / name, measure=False)
    for file in ("target/speech.json", "tokenizer.json", "target/fp32/decoder.onnx"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()
    logits = []
    for name in ("one", "other"):
        exported = read_manifest(tmp_path / name).target
        model = open_model(tmp_path / name, exported, "fp32", device=Device(1))
        hear_sample(tmp_path / name, exported, "fp32", model)
        model.prefill([257, 3, 4])
        logits.append(model.score([5, 6]).copy())
    assert np.array_equal(*logits)


def test_the_speech_format_names_the_tokens_with_a_role(tmp_path):
    source = write_whisper(tmp_path / "checkpoint")
    export_pair(str(source), None, tmp_path / "pair", measure=False)
    speech = read_speech_format(tmp_path / "pair" / "target")
    assert list(speech.languages) == LANGUAGES
    assert (speech.mel_bins, speech.frames) == (12, 2 * SOURCE)
    assert (speech.end, speech.start, speech.first_timestamp) == (256, 257, 267)
    assert (speech.suppressed, speech.suppressed_first) == ((1, 2, 40), (220, 256))
    assert read_manifest(tmp_path / "pair").target.vocab_size == 267 + SOURCE + 1


def damaged(file, change):
    data = file.read_bytes()
    file.write_bytes(change(data))


DAMAGES = {
    "cut off": lambda data: data[: len(data) // 2],
    "cut off in its header": lambda data: data[:11],
    "empty": lambda data: b"",
    "another kind of file": lambda data: b"PK\3\4" + data,
    "another model": lambda data: data.replace(b"WhisperSpec", b"BertEncoder"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_model_bin_is_one_line(damage, tmp_path):
    source = write_ctranslate2(write_whisper(tmp_path / "checkpoint"), tmp_path / "ct2")
    damaged(source / "model.bin", DAMAGES[damage])
    with pytest.raises(EdgespecError, match=r"model\.bin") as error:
        opened(source)
    assert "\n" not in str(error.value)


def test_a_scaled_embedding_is_refused_by_name():
    config = transformers.WhisperConfig(scale_embedding=True).to_dict()
    with pytest.raises(EdgespecError, match="scale_embedding"):
        family_of(config, "model")


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    from checkpoints import byte_tokenizer

    source = write_whisper(tmp_path / "checkpoint")
    byte_tokenizer(272).save(str(source / "tokenizer.json"))
    with pytest.raises(EdgespecError, match="no token"):
        export_pair(str(source), None, tmp_path / "pair", measure=False)


def test_a_whisper_and_a_text_model_are_no_pair(tmp_path):
    from checkpoints import write_t5

    source = write_whisper(tmp_path / "checkpoint")
    draft = write_t5(tmp_path / "draft")
    with pytest.raises(EdgespecError, match="cannot be paired"):
        export_pair(str(source), str(draft), tmp_path / "pair", measure=False)
    other = write_whisper(tmp_path / "other", num_mel_bins=9)
    with pytest.raises(EdgespecError, match="12 bands"):
        export_pair(str(source), str(other), tmp_path / "pair", measure=False)
