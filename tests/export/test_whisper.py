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
from edgespec_export.checkpoint.alignment_heads import alignment_heads
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


ALIGNING = [[2, 1], [0, 0], [2, 0]]


def attention(source, log_mel, tokens, heads):
    """What share each position of a sound has after each token, by transformers."""
    reference = transformers.WhisperForConditionalGeneration.from_pretrained(
        source, attn_implementation="eager"
    )
    with torch.inference_mode():
        output = reference(
            torch.tensor(log_mel[None]),
            decoder_input_ids=torch.tensor([tokens]),
            output_attentions=True,
        )
    return np.stack([output.cross_attentions[layer][0, head].numpy() for layer, head in heads])


def test_the_shares_of_heads_that_follow_the_sound_are_those_of_transformers(tmp_path):
    source = write_whisper(tmp_path / "checkpoint", alignment_heads=ALIGNING)
    converted = write_ctranslate2(source, tmp_path / "ct2")
    tokens = [257, 258, 262, 266, 5, 6, 200, 100, 7]
    log_mel = np.random.default_rng(0).normal(size=(12, 2 * SOURCE)).astype(np.float32)
    expected = attention(source, log_mel, tokens, sorted(ALIGNING))
    for checkpoint, formats in ((source, ["fp32", "int8"]), (converted, ["fp32"])):
        folder = tmp_path / f"pair of {checkpoint.name}"
        export_pair(
            str(checkpoint), str(source), folder, target_formats=formats, measure=False, threads=1
        )
        manifest = read_manifest(folder)
        assert "alignment" not in manifest.draft.variants["fp32"].graphs
        for name in formats:
            model = open_model(folder, manifest.target, name, device=Device(1))
            model.hear(log_mel)
            shares = model.alignment(tokens)
            assert shares.shape == (3, len(tokens), SOURCE)
            assert np.abs(shares - expected).max() <= (1e-5 if name == "fp32" else 0.3)
            model.prefill(tokens[:4])
            before = model.score(tokens[3:]).copy()
            model.rewind(5)
            model.alignment(tokens[:4])  # a text that has begun stays as it is
            model.rewind(3)
            assert np.array_equal(model.score(tokens[3:]), before)


def test_without_known_heads_a_whisper_has_no_graph_of_them(tmp_path, caplog):
    source = write_whisper(tmp_path / "checkpoint", alignment_heads=[[1, 0], [3, 0]])
    export_pair(str(source), None, tmp_path / "pair", measure=False)
    graphs = read_manifest(tmp_path / "pair").target.variants["fp32"].graphs
    assert set(graphs) == {"encoder", "decoder"}
    assert "words will have no times" in caplog.text


@pytest.mark.parametrize(
    "listed", [[[3, 0]], [[0, 2]], [[0, -1]], [[0]], [[True, 0]], [0, 1], "all", [], {"0": 1}]
)
def test_a_list_of_heads_that_a_model_lacks_is_a_line_in_the_log(listed, caplog):
    assert alignment_heads(listed, 3, 2, "model") == ()
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith("model: alignment_heads is ")
    assert "\n" not in line
    caplog.clear()
    assert alignment_heads([[2, 1], [0, 0], [2, 1]], 3, 2, "model") == ((0, 0), (2, 1))
    assert alignment_heads(None, 3, 2, "model") == ()
    assert not caplog.records


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
