"""Claim: a transcript is the target's own, whatever drafts, with the rules on every verified row.

Random Whispers whose windows are 2 s; sounds of several windows. Mutants apply the rules to other
rows, or by other tokens, and each changes a text.
"""

from __future__ import annotations

import json
import os
import threading

import numpy as np
import pytest

import edgespec
from command import run
from edgespec.core import scoring
from edgespec.core.distribution import one_hot
from edgespec.core.draft import Proposal
from edgespec.costs.controller import Fixed
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.speech_engine import _WindowRounds
from edgespec.speech.transcribing import Transcriber
from edgespec_export.export_pair import export_pair
from whisper_checkpoints import write_whisper

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

DRAFTS = [
    {"draft": "model", "gamma": 3},
    {"draft": "model"},
    {"draft": "lookup", "gamma": 4},
    {"draft": "both"},
]
SAMPLED = {"temperature": 0.8, "seed": 4}


def sounds():
    """Chirps in noise, of several windows each."""
    generator = np.random.default_rng(1)
    for seconds in (5.3, 1.2, 3.9):
        times = np.arange(round(seconds * 16000)) / 16000
        chirp = np.sin(2 * np.pi * (300 + 700 * np.sin(times * generator.uniform(1, 9))) * times)
        yield (0.3 * chirp + 0.05 * generator.standard_normal(len(times))).astype(np.float32)


SOUNDS = list(sounds())


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whispers")
    target = write_whisper(folder / "target")
    draft = write_whisper(folder / "draft", noise=0.03)
    return target, draft


@pytest.fixture(scope="module")
def folder(checkpoints, tmp_path_factory):
    pair = tmp_path_factory.mktemp("pair") / "pair"
    target, draft = map(str, checkpoints)
    export_pair(target, draft, pair, target_formats=["fp32", "int8", "fp16"], threads=1)
    return pair


@pytest.fixture(scope="module")
def hearing(folder):
    return edgespec.load(folder, threads=1)


@pytest.mark.parametrize("target_format", ["fp32", "int8", "fp16"])
@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
def test_transcripts_are_those_without_a_draft(folder, target_format, sampling):
    pair = edgespec.load(folder, threads=1, target_format=target_format)
    accepted = 0
    for sound in SOUNDS:
        alone = pair.transcribe(sound, draft=False, **sampling)
        assert alone.segments
        for drafting in DRAFTS:
            drafted = pair.transcribe(sound, **drafting, **sampling)
            assert drafted.segments == alone.segments
            accepted += drafted.stats.accepted
    assert accepted > 20


def without_rules(row, text, drafted, candidates):
    return None


def rejected_tokens_count(row, text, drafted, candidates):
    return [*text[1:], *drafted]


def drafted_tokens_do_not_count(row, text, drafted, candidates):
    return text[1:]


def only_the_bonus_row_has_them(row, text, drafted, candidates):
    return [*text[1:], *drafted] if row == len(drafted) else None


MUTANTS = [
    without_rules,
    rejected_tokens_count,
    drafted_tokens_do_not_count,
    only_the_bonus_row_has_them,
]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_rules_on_other_rows_or_by_other_tokens_are_caught(hearing, mutant, monkeypatch):
    from edgespec.speech.token_rules import TokenRules

    expected = [hearing.transcribe(sound, draft=False).token_ids for sound in SOUNDS]
    rules = TokenRules.__call__

    def changed(self, row, before):
        return row.copy() if before is None else rules(self, row, before)

    monkeypatch.setattr(TokenRules, "__call__", changed)
    monkeypatch.setattr(scoring, "_before", mutant)
    found = [hearing.transcribe(sound, draft="model", gamma=3).token_ids for sound in SOUNDS]
    assert found != expected


def test_texts_are_those_of_transformers(checkpoints, hearing):
    """Several windows of one text, with timestamps, and the language that the model finds."""
    from edgespec.audio.log_mel import Spectrogram
    from edgespec.audio.sound import ArraySound

    reference = transformers.WhisperForConditionalGeneration.from_pretrained(checkpoints[0])
    speech = hearing.speech_engine.speech
    config = reference.generation_config
    config.no_timestamps_token_id = speech.no_timestamps
    config.lang_to_id = {f"<|{code}|>": token for code, token in speech.languages.items()}
    config.task_to_id = {"transcribe": speech.transcribe, "translate": speech.translate}
    config.max_initial_timestamp_index = 50
    config.max_length = hearing.target.capacity
    for sound in (SOUNDS[0], SOUNDS[2]):  # of more than a window
        spectrogram = Spectrogram(ArraySound(sound), speech.mel_bins)
        whole = spectrogram.window(0, spectrogram.frames)
        with torch.inference_mode():
            output = reference.generate(
                torch.tensor(whole[None]),
                attention_mask=torch.ones(1, whole.shape[1], dtype=torch.long),
                return_timestamps=True,
                return_segments=True,
                do_sample=False,
                task="transcribe",
            )
        theirs = [
            token
            for segment in output["segments"][0]
            for token in segment["tokens"].tolist()
            if token < speech.end
        ]
        transcript = hearing.transcribe(sound, no_speech=None)
        assert [token for token in transcript.token_ids if token < speech.end] == theirs


def test_each_option_changes_what_it_says(hearing):
    def text(**options):
        return [hearing.transcribe(sound, **options).token_ids for sound in SOUNDS]

    usual = text()
    assert text(language="de") != text(language="fr")
    assert text(task="translate") != usual
    assert text(use_previous=True) != usual
    assert text(**SAMPLED) != usual
    first = hearing.speech_engine.speech.first_timestamp
    untimed = hearing.transcribe(SOUNDS[0], timestamps=False)
    assert [segment.end for segment in untimed.segments] == [2.0, 4.0, 5.3]
    assert usual[0][0] >= first


def test_silent_windows_have_no_text(hearing, monkeypatch):
    sound = SOUNDS[0]
    assert not hearing.transcribe(sound, no_speech=0.0).segments  # random texts are improbable
    assert hearing.transcribe(sound, no_speech=1.0) is not None
    alone = hearing.transcribe(sound, no_speech=1.0, draft=False).segments
    assert hearing.transcribe(sound, no_speech=None).segments == alone


class Knowing:
    """A drafter that knows the text of each window, its end included."""

    seconds = 0.0

    def __init__(self, texts):
        self._texts = iter(texts)

    def begin(self, prompt):
        self._text = next(self._texts)

    def propose(self, text, gamma, randomness):
        tokens = self._text[len(text) - 1 :][:gamma]
        return Proposal(tokens, [one_hot(token) for token in tokens])


@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("gamma", range(1, 9))
def test_a_window_s_text_may_end_at_any_token_of_a_drafted_run(
    hearing, monkeypatch, gamma, sampling
):
    """Where every window may be silent, the log-probability of each token counts."""
    windows = []
    text = Transcriber._text

    def recorded(*arguments):
        windows.append(text(*arguments))
        return windows[-1]

    def windows_of(**more):
        windows.clear()
        hearing.transcribe(SOUNDS[0], no_speech=0.0, **sampling, **more)
        return list(windows)

    monkeypatch.setattr(Transcriber, "_text", recorded)
    monkeypatch.setattr("edgespec.speech.transcribing.MIN_MEAN_LOGPROB", -np.inf)
    # Random texts seldom end: here one of their tokens ends them.
    last = windows_of(draft=False)[0][0][7]
    ends = property(lambda _: (last,), lambda _, value: None)
    monkeypatch.setattr(_WindowRounds, "_last_tokens", ends, raising=False)
    plain = windows_of(draft=False)
    assert len(plain[0][0]) <= 8
    drafter = Knowing([tokens for tokens, _ in plain])
    monkeypatch.setattr(
        hearing.speech_engine.drafting, "drafter", lambda *_, **__: (drafter, Fixed(gamma))
    )
    drafted = windows_of(draft="lookup", gamma=gamma)
    assert [tokens for tokens, _ in drafted] == [tokens for tokens, _ in plain]
    means = [[mean for _, mean in found] for found in (drafted, plain)]
    assert all(mean is not None for mean in means[0])
    assert means[0] == pytest.approx(means[1], rel=1e-6)


def test_segments_come_as_windows_finish(hearing):
    with hearing.stream_transcript(SOUNDS[0]) as stream:
        next(stream)
        assert stream.result.seconds < 5
        with pytest.raises(UsageError, match="another text"):
            hearing.transcribe(SOUNDS[1])
    whole = hearing.transcribe(SOUNDS[0])
    assert whole.seconds == pytest.approx(5.3)
    assert whole.stats.tokens >= len(whole.token_ids)


def test_a_draft_with_other_tokens_changes_no_text(checkpoints, hearing, tmp_path):
    draft = write_whisper(tmp_path / "draft", more=30, decoder_layers=1)
    export_pair(str(checkpoints[0]), str(draft), tmp_path / "pair", threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    for sound in SOUNDS:
        drafted = pair.transcribe(sound, draft="model", gamma=3, use_previous=True)
        assert drafted.stats.drafted > 0
        alone = hearing.transcribe(sound, draft=False, use_previous=True)
        assert drafted.segments == alone.segments


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"language": "xx"}, "this model knows en, de, fr"),
        ({"task": "sing"}, "transcribe, translate"),
        ({"no_speech": 2}, "no_speech"),
        ({"temperature": -1}, "temperature"),
        ({"gamma": -1}, "gamma"),
        ({"draft": "magic"}, "draft"),
        ({"seed": -3}, "seed"),
    ],
)
def test_a_wrong_option_is_one_line(hearing, options, match):
    with pytest.raises(UsageError, match=match):
        hearing.stream_transcript(SOUNDS[0], **options)


def test_what_is_no_sound_is_one_line(hearing, tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        hearing.transcribe(tmp_path / "absent.wav")
    with pytest.raises(UsageError, match="give the path"):
        hearing.transcribe(["a", "b"])
    with pytest.raises(EdgespecError, match="10 milliseconds"):
        hearing.transcribe(np.zeros(99, np.float32))


def test_a_speech_model_continues_no_prompt_and_others_transcribe_nothing(hearing, tiny):
    with pytest.raises(UsageError, match="edgespec transcribe"):
        hearing.generate("hello")
    with pytest.raises(UsageError, match="transcribes nothing"):
        tiny.transcribe(SOUNDS[0])


# --- the command ---


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A stereo file at 8 kHz."""
    import wave

    path = tmp_path_factory.mktemp("sound") / "sound.wav"
    with wave.open(str(path), "wb") as out:
        out.setnchannels(2)
        out.setsampwidth(2)
        out.setframerate(8000)
        out.writeframes(np.repeat((SOUNDS[0][::2] * 20000).astype("<i2"), 2).tobytes())
    return path


def test_the_command_writes_text_subtitles_and_json(folder, hearing, file):
    expected = hearing.transcribe(file)
    pair = str(folder)
    lines = run("transcribe", pair, str(file), "--threads", "1").stdout
    assert lines == "".join(f"{segment.text}\n" for segment in expected.segments)
    shown = run("transcribe", pair, str(file), "--format", "json", "--threads", "1").stdout
    found = json.loads(shown)
    assert (found["text"], found["language"]) == (expected.text, expected.language)
    assert [tuple(s["token_ids"]) for s in found["segments"]] == [
        segment.token_ids for segment in expected.segments
    ]
    subtitles = run("transcribe", pair, str(file), "--format", "srt", "--threads", "1").stdout
    assert subtitles == f"{expected.srt()}\n"
    assert subtitles.startswith("1\n00:00:0")


@pytest.mark.skipif(os.name != "posix", reason="Windows has other pipes")
def test_the_command_reads_standard_input_and_pipes(folder, hearing, file, tmp_path):
    options, expected = ("--format", "json", "--threads", "1"), hearing.transcribe(file).text
    sound = file.read_bytes()
    shown = run("transcribe", folder, "-", *options, input=sound).stdout
    assert json.loads(shown)["text"] == expected
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(sound,), daemon=True)
    writer.start()
    assert json.loads(run("transcribe", folder, tmp_path / "pipe", *options).stdout)["text"] == (
        expected
    )
    writer.join()
    for data, said in (
        (b"", "standard-input: is empty"),
        (b"hello", "standard-input: is no sound"),
    ):
        assert said in run("transcribe", folder, "-", input=data, code=1).stderr


def test_the_command_refuses_in_a_line(folder, file, tmp_path, tiny_folder):
    (tmp_path / "a.wav").write_bytes(b"RIFF\0\0\0\0WAVE")
    for arguments, code, match in (
        (["transcribe", folder, tmp_path / "a.wav"], 1, "without sound"),
        (["transcribe", folder, tmp_path / "b.wav"], 2, "no such file"),
        (["transcribe", tiny_folder, file], 2, "transcribes nothing"),
        (["generate", folder, "hello", "--no-draft"], 2, "edgespec transcribe"),
        (["chat", folder], 2, "no chat format"),
    ):
        lines = run(*arguments, code=code).stderr.splitlines()
        assert match in lines[-1]
        assert sum("testing whether" not in line for line in lines) == 1
