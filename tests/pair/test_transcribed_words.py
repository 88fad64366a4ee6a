"""Claim: words have the times that transformers' attention and path give them, on every surface.

A random Whisper whose windows are 2 s; some of its heads are named as those that follow the sound.
"""

from __future__ import annotations

import json
import wave

import numpy as np
import pytest

import edgespec
from command import run
from edgespec.audio.log_mel import Spectrogram
from edgespec.audio.sound import ArraySound
from edgespec.errors import UsageError
from edgespec.speech import word_times
from edgespec.speech.segments import segments_of
from edgespec.speech.voices import SpokenSound, VoiceOptions, spoken_ranges
from edgespec.speech.word_times import token_starts
from edgespec.speech.words import words_of
from edgespec_export.export_pair import export_pair
from whisper_checkpoints import write_whisper

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

HEADS = [[2, 1], [1, 0], [1, 1]]
SECONDS = 3.3  # a window and a part of one
PLAIN = {"language": "de", "temperature": 0}
POSITION = 0.02


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write_whisper(tmp_path_factory.mktemp("whisper") / "target", alignment_heads=HEADS)


@pytest.fixture(scope="module")
def folder(checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair") / "pair"
    export_pair(str(checkpoint), None, folder, target_formats=["fp32"], threads=1)
    return folder


@pytest.fixture(scope="module")
def hearing(folder):
    return edgespec.load(folder, threads=1)


@pytest.fixture(scope="module")
def reference(checkpoint, hearing):
    model = transformers.WhisperForConditionalGeneration.from_pretrained(
        checkpoint, attn_implementation="eager"
    )
    speech, config = hearing.speech_engine.speech, model.generation_config
    config.no_timestamps_token_id = speech.no_timestamps
    config.lang_to_id = {f"<|{code}|>": token for code, token in speech.languages.items()}
    config.task_to_id = {"transcribe": speech.transcribe, "translate": speech.translate}
    config.max_length = 40
    # A random model would say timestamps where none are asked for.
    config.suppress_tokens = [*range(speech.end + 1, hearing.target.vocab_size)]
    # A text that fills the cache has its last token after the last position.
    table = model.model.decoder.embed_positions
    table.weight = torch.nn.Parameter(torch.cat([table.weight, table.weight[-1:]]))
    return model


@pytest.fixture(scope="module")
def sound():
    times = np.arange(round(SECONDS * 16000)) / 16000
    chirp = 0.3 * np.sin(2 * np.pi * (300 + 700 * np.sin(3 * times)) * times)
    return (chirp + np.random.default_rng(0).normal(0, 0.05, len(times))).astype(np.float32)


def window(hearing, sound, start=0):
    speech = hearing.speech_engine.speech
    return Spectrogram(ArraySound(sound), speech.mel_bins).window(start, speech.frames)


def no_median(monkeypatch, shares):
    monkeypatch.setattr(word_times, "SMOOTHED", 1)
    return shares


def another_head(monkeypatch, shares):
    return shares[:2]


@pytest.mark.parametrize("mutant", [None, no_median, another_head])
def test_token_times_are_those_of_transformers(reference, hearing, sound, mutant, monkeypatch):
    heard = window(hearing, sound)
    with torch.inference_mode():
        output = reference.generate(
            torch.tensor(heard[None]),
            attention_mask=torch.ones(1, heard.shape[1], dtype=torch.long),
            return_token_timestamps=True,
            return_dict_in_generate=True,
            do_sample=False,
            language="de",
            task="transcribe",
        )
    tokens = output["sequences"][0].tolist()
    prompt = len(tokens) - len(output["scores"])
    theirs = output["token_timestamps"][0].numpy()[prompt:-1]  # the last one has no attention
    hearing.target.hear(heard)
    shares = hearing.target.alignment(tokens[:-1])[:, prompt:]
    if mutant is not None:
        shares = mutant(monkeypatch, shares)
    ours = token_starts(shares) * POSITION
    assert len(ours) == len(theirs) > 20
    assert (np.abs(ours - theirs).max() <= POSITION) == (mutant is None)
    assert len({*theirs}) > 5


def expected_words(reference, hearing, sound, segments, start, frames):
    """Times of words as openai/whisper computes them, by the parts that transformers has."""
    from transformers.models.whisper.generation_whisper import (
        _dynamic_time_warping,
        _median_filter,
    )

    speech, decode = hearing.speech_engine.speech, hearing.speech_engine._decoded
    texts = [[token for token in part if token < speech.end] for part in segments]
    text = [token for part in texts for token in part]
    prompt = [speech.start, speech.languages["de"], speech.transcribe, speech.no_timestamps]
    with torch.inference_mode():
        output = reference(
            torch.tensor(window(hearing, sound, start)[None]),
            decoder_input_ids=torch.tensor([prompt + text]),
            output_attentions=True,
        )
    heads = [output.cross_attentions[layer][0, head] for layer, head in HEADS]
    weights = torch.stack(heads)[:, len(prompt) - 1 :, : frames // 2]
    weights = weights / weights.sum(dim=-1, keepdim=True)
    deviation, mean = torch.std_mean(weights, dim=-2, keepdim=True, unbiased=False)
    matrix = _median_filter(((weights - mean) / deviation)[None], 7)[0].mean(dim=0)
    rows, positions = _dynamic_time_warping(-matrix.double().numpy())
    begins = [float(positions[rows == row].min()) * POSITION for row in range(len(text) + 1)]
    at = 0
    for part in texts:
        found = []
        for word in words_of(part, decode, "de"):
            found.append((word.text.strip(), begins[at], begins[at + word.tokens]))
            at += word.tokens
        yield [word for word in found if word[0]]


def test_words_of_every_window_are_at_their_times(reference, hearing, sound):
    spectrogram = Spectrogram(ArraySound(sound), 12)
    transcript = hearing.transcribe(sound, word_times=True, timestamps=False, **PLAIN)
    first, second = transcript.segments
    rest = spectrogram.frames - 200
    for start, frames, segment in ((0, 200, first), (200, rest, second)):
        assert len(segments_of(segment.token_ids, hearing.speech_engine.speech, 200).segments) == 1
        (expected,) = expected_words(reference, hearing, sound, [segment.token_ids], start, frames)
        assert [word.text for word in segment.words] == [text for text, _, _ in expected]
        for word, (_, begins, ends) in zip(segment.words, expected, strict=True):
            assert word.start == pytest.approx(start / 100 + begins, abs=POSITION + 1e-6)
            assert word.end == pytest.approx(start / 100 + ends, abs=POSITION + 1e-6)
    assert max(word.end for word in transcript.words) <= SECONDS


def test_word_times_change_no_text_and_no_draft_changes_them(hearing, sound):
    usual = hearing.transcribe(sound, draft=False, **PLAIN)
    timed = hearing.transcribe(sound, draft=False, word_times=True, **PLAIN)
    assert timed.token_ids == usual.token_ids
    assert [(s.start, s.end, s.text) for s in timed.segments] == [
        (s.start, s.end, s.text) for s in usual.segments
    ]
    assert not usual.words
    assert len(timed.words) >= len(timed.segments) > 0
    for segment in timed.segments:
        joined = "".join(word.text for word in segment.words)
        assert joined == "".join(segment.text.split())
    drafted = hearing.transcribe(sound, draft="lookup", gamma=4, word_times=True, **PLAIN)
    assert drafted.segments == timed.segments
    assert drafted.stats.drafted > 0


def test_with_voices_words_are_at_their_times_in_the_whole_sound(hearing, sound, monkeypatch):
    pause = 3 * 16000
    whole = np.concatenate([np.zeros(pause, np.float32), sound])
    spoken = [1.0 if at >= pause else 0.0 for at in range(0, len(whole), 512)]

    class Scripted:
        def probabilities(self, sound):
            return iter(spoken)

    monkeypatch.setitem(hearing.speech_engine.__dict__, "voice_model", Scripted())
    voices = VoiceOptions(padding=0)
    found = hearing.transcribe(whole, voices=voices, word_times=True, **PLAIN)
    ranges = spoken_ranges(iter(spoken), len(whole), voices)
    alone = np.concatenate([whole[start:end] for start, end in ranges])
    expected = hearing.transcribe(alone, word_times=True, **PLAIN).words
    parts = SpokenSound(ArraySound(whole), ranges)
    assert [(word.start, word.end) for word in found.words] == [
        pytest.approx(parts.original(word.start, word.end), abs=0.006) for word in expected
    ]
    assert found.words
    assert found.words[0].start >= 2.9


def test_a_pair_without_such_heads_is_one_line(tmp_path, sound):
    source = write_whisper(tmp_path / "whisper")
    export_pair(str(source), None, tmp_path / "pair", measure=False)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    with pytest.raises(UsageError, match=r"export it again.* alignment_heads") as error:
        pair.transcribe(sound, word_times=True)
    assert "\n" not in str(error.value)
    with pytest.raises(UsageError, match="word_times is 'yes'"):
        pair.transcribe(sound, word_times="yes")


def test_the_command_writes_words(folder, hearing, sound, tmp_path):
    file = tmp_path / "sound.wav"
    with wave.open(str(file), "wb") as out:
        out.setparams((1, 2, 16000, 0, "NONE", ""))
        out.writeframes((sound * 32767).astype("<i2").tobytes())
    expected = hearing.transcribe(file, word_times=True, **PLAIN)
    arguments = ("transcribe", folder, file, "--word-times", "--language", "de", "--no-fallback")
    for output_format, text in (("srt", f"{expected.srt()}\n"), ("vtt", expected.vtt())):
        shown = run(*arguments, "--threads", "1", "--format", output_format).stdout
        assert shown == text
        assert shown.count("-->") == len(expected.words)
    found = json.loads(run(*arguments, "--threads", "1", "--format", "json").stdout)
    words = [word for segment in found["segments"] for word in segment["words"]]
    assert [(word["start"], word["end"], word["text"]) for word in words] == [
        (word.start, word.end, word.text) for word in expected.words
    ]
