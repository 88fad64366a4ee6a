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
from depth import one_in
from edgespec.audio.sound import ArraySound
from edgespec.core import scoring
from edgespec.core.distribution import one_hot
from edgespec.core.draft import Proposal
from edgespec.costs.controller import Fixed
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.speech_engine import _WindowRounds
from edgespec.speech.transcribing import Transcriber
from edgespec.speech.voices import SpokenSound, VoiceOptions, spoken_ranges
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
GREEDY = {"temperature": 0}
SAMPLED = {"temperature": 0.8, "seed": 4}
# Of these random texts, some are too improbable, some repeat themselves too much, some are good.
FALLBACKS = {"temperature": (0, 0.4, 1), "min_logprob": -2.6, "max_compression": 4.5}


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


@one_in(2)
@pytest.mark.parametrize("target_format", ["fp32", "int8", "fp16"])
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
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


def test_texts_that_were_decoded_again_are_those_without_a_draft(hearing):
    temperatures = set()
    for sound in SOUNDS[:2]:
        alone = hearing.transcribe(sound, draft=False, **FALLBACKS)
        temperatures |= {segment.temperature for segment in alone.segments}
        drafted = hearing.transcribe(sound, draft="model", gamma=3, **FALLBACKS)
        assert drafted.segments == alone.segments
        assert drafted.stats.accepted > 0
    assert temperatures == {0, 0.4, 1}
    assert hearing.transcribe(sound, draft=False, seed=1, **FALLBACKS).segments != alone.segments


def test_the_log_probability_of_a_text_is_that_of_transformers(checkpoints, hearing):
    from edgespec.audio.log_mel import Spectrogram
    from edgespec.audio.sound import ArraySound
    from edgespec.speech.token_rules import TokenRules

    speech = hearing.speech_engine.speech
    reference = transformers.WhisperForConditionalGeneration.from_pretrained(checkpoints[0])
    window = Spectrogram(ArraySound(SOUNDS[1]), speech.mel_bins).window(0, speech.frames)
    untimed = hearing.transcribe(SOUNDS[1], timestamps=False, language="de", **GREEDY)
    (segment,) = untimed.segments
    prompt = [speech.start, speech.languages["de"], speech.transcribe, speech.no_timestamps]
    tokens = list(segment.token_ids)
    with torch.inference_mode():
        ids = torch.tensor([prompt + tokens[:-1]])  # the cache is full: nothing comes after it
        output = reference(torch.tensor(window[None]), decoder_input_ids=ids)
    rules = TokenRules(speech, timestamps=False)
    rows = output.logits[0, len(prompt) - 1 :].numpy()
    ruled = np.stack([rules(row, tokens[:index]) for index, row in enumerate(rows)])
    logprobs = torch.tensor(ruled).log_softmax(-1).numpy()
    total = sum(logprobs[index, token] for index, token in enumerate(tokens))
    assert segment.logprob == pytest.approx(total / (len(tokens) + 1), abs=1e-4)


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

    expected = [hearing.transcribe(sound, draft=False, **GREEDY).token_ids for sound in SOUNDS]
    rules = TokenRules.__call__

    def changed(self, row, before):
        return row.copy() if before is None else rules(self, row, before)

    monkeypatch.setattr(TokenRules, "__call__", changed)
    monkeypatch.setattr(scoring, "_before", mutant)
    drafting = {"draft": "model", "gamma": 3}
    found = [hearing.transcribe(sound, **drafting, **GREEDY).token_ids for sound in SOUNDS]
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
        transcript = hearing.transcribe(sound, no_speech=None, **GREEDY)
        assert [token for token in transcript.token_ids if token < speech.end] == theirs


def test_each_option_changes_what_it_says(hearing):
    def text(**options):
        options = GREEDY | options
        return [hearing.transcribe(sound, **options).token_ids for sound in SOUNDS]

    usual = text()
    assert text(language="de") != text(language="fr")
    assert text(task="translate") != usual
    assert text(use_previous=True) != usual
    assert text(**SAMPLED) != usual
    assert text(prompt="Names") != usual == text(prompt=" ")
    windows = zip(text(prompt="Names", use_previous=True), text(use_previous=True), strict=True)
    assert any(prompted != not_prompted for prompted, not_prompted in windows)
    first = hearing.speech_engine.speech.first_timestamp
    untimed = hearing.transcribe(SOUNDS[0], timestamps=False, **GREEDY)
    assert [segment.end for segment in untimed.segments] == [2.0, 4.0, 5.3]
    assert usual[0][0] >= first


def test_silent_windows_have_no_text(hearing, monkeypatch):
    sound = SOUNDS[0]
    assert not hearing.transcribe(sound, no_speech=0.0).segments  # random texts are improbable
    assert hearing.transcribe(sound, no_speech=0.0).language is None
    alone = hearing.transcribe(sound, no_speech=1.0, draft=False, **GREEDY).segments
    assert alone
    assert hearing.transcribe(sound, no_speech=None, **GREEDY).segments == alone
    probable = hearing.transcribe(sound, no_speech=0.0, min_logprob=-9, **GREEDY)
    assert probable.segments == alone
    assert not hearing.transcribe(sound, no_speech=0.0, min_logprob=None, **GREEDY).segments


def test_with_voices_only_their_parts_are_transcribed_at_their_times(hearing, monkeypatch):
    """Where somebody speaks is scripted."""
    pause = np.zeros(3 * 16000, np.float32)
    sound = np.concatenate([pause, SOUNDS[1], pause, SOUNDS[2], pause])
    first = (3 * 16000, 3 * 16000 + len(SOUNDS[1]))
    second = (first[1] + 3 * 16000, first[1] + 3 * 16000 + len(SOUNDS[2]))
    spoken = [
        any(start <= at < end for start, end in (first, second)) for at in range(0, len(sound), 512)
    ]

    class Scripted:
        def probabilities(self, sound):
            return map(float, spoken)

    engine = hearing.speech_engine
    monkeypatch.setitem(engine.__dict__, "voice_model", Scripted())
    voices = VoiceOptions(padding=0)
    found = hearing.transcribe(sound, voices=voices, **GREEDY)
    ranges = spoken_ranges(map(float, spoken), len(sound), voices)
    alone = np.concatenate([sound[start:end] for start, end in ranges])
    expected = hearing.transcribe(alone, **GREEDY)
    assert found.text == expected.text
    assert found.token_ids == expected.token_ids
    assert found.seconds == found.duration == pytest.approx(len(sound) / 16000)
    parts = SpokenSound(ArraySound(sound), ranges)
    assert [(s.start, s.end) for s in found.segments] == [
        (parts.original(s.start, s.end)) for s in expected.segments
    ]
    assert found.segments[0].start >= 3
    spoken[:] = [False] * len(spoken)
    silent = hearing.transcribe(sound, voices=voices)
    assert (silent.segments, silent.language, silent.seconds) == ([], None, silent.duration)
    with pytest.raises(UsageError, match="voices is 'yes'"):
        hearing.transcribe(sound, voices="yes")


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


@one_in(2)
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("gamma", range(1, 9))
def test_a_window_s_text_may_end_at_any_token_of_a_drafted_run(
    hearing, monkeypatch, gamma, sampling
):
    """The log-probability of each token counts, the one of the last, too."""
    windows = []
    text = Transcriber._text

    def recorded(*arguments):
        windows.append(text(*arguments))
        return windows[-1]

    def windows_of(**more):
        windows.clear()
        hearing.transcribe(SOUNDS[0], no_speech=None, **sampling, **more)
        return list(windows)

    monkeypatch.setattr(Transcriber, "_text", recorded)
    # Random texts seldom end: here one of their tokens ends them.
    last = windows_of(draft=False)[0].tokens[7]
    ends = property(lambda _: (last,), lambda _, value: None)
    monkeypatch.setattr(_WindowRounds, "_last_tokens", ends, raising=False)
    plain = windows_of(draft=False)
    assert len(plain[0].tokens) <= 8
    drafter = Knowing([window.tokens for window in plain])
    monkeypatch.setattr(
        hearing.speech_engine.drafting, "drafter", lambda *_, **__: (drafter, Fixed(gamma))
    )
    drafted = windows_of(draft="lookup", gamma=gamma)
    assert drafted == plain
    assert all(window.logprob < 0 for window in plain)


def test_segments_come_as_windows_finish(hearing):
    with hearing.stream_transcript(SOUNDS[0], **GREEDY) as stream:
        next(stream)
        assert stream.result.seconds < stream.result.duration == pytest.approx(5.3)
        with pytest.raises(UsageError, match="another text"):
            hearing.transcribe(SOUNDS[1])
    whole = hearing.transcribe(SOUNDS[0], **GREEDY)
    assert whole.seconds == pytest.approx(5.3)
    assert whole.stats.tokens >= len(whole.token_ids)


def test_a_draft_with_other_tokens_changes_no_text(checkpoints, hearing, tmp_path):
    draft = write_whisper(tmp_path / "draft", more=30, decoder_layers=1)
    export_pair(str(checkpoints[0]), str(draft), tmp_path / "pair", threads=1)
    pair = edgespec.load(tmp_path / "pair", threads=1)
    for sound in SOUNDS:
        drafted = pair.transcribe(sound, draft="model", gamma=3, use_previous=True, **GREEDY)
        assert drafted.stats.drafted > 0
        alone = hearing.transcribe(sound, draft=False, use_previous=True, **GREEDY)
        assert drafted.segments == alone.segments


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"language": "xx"}, "this model knows en, de, fr"),
        ({"task": "sing"}, "transcribe, translate"),
        ({"no_speech": 2}, "no_speech"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": ()}, "empty"),
        ({"temperature": "warm"}, "temperature"),
        ({"temperature": [0, None]}, "temperature"),
        ({"min_logprob": 0.5}, "min_logprob is 0.5; give 0 or less, or None"),
        ({"max_compression": float("nan")}, "max_compression"),
        ({"prompt": 5}, "prompt is 5; give text"),
        ({"gamma": -1}, "gamma"),
        ({"draft": "magic"}, "draft"),
        ({"seed": -3}, "seed"),
    ],
)
def test_a_wrong_option_is_one_line(hearing, options, match):
    with pytest.raises(UsageError, match=match):
        hearing.stream_transcript(SOUNDS[0], **options)


def test_a_mistyped_option_is_told_the_nearest(hearing):
    with pytest.raises(TypeError, match=r"a transcript has no option .*did you mean 'language'"):
        hearing.stream_transcript(SOUNDS[0], langauge="en")


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


def test_the_command_writes_files_in_every_format(folder, hearing, file, tmp_path):
    expected = hearing.transcribe(file, **GREEDY)
    same = tmp_path / "copy.wav"
    same.write_bytes(file.read_bytes())
    options = ("--threads", "1", "--no-fallback")
    for output_format, text in (
        ("srt", f"{expected.srt()}\n"),
        ("vtt", expected.vtt()),
        ("tsv", expected.tsv()),
    ):
        out = tmp_path / "new" / output_format
        arguments = ("transcribe", folder, file, same, "-o", out, "--format", output_format)
        assert run(*arguments, *options).stdout == ""
        for name in ("sound", "copy"):
            assert (out / f"{name}.{output_format}").read_text(encoding="utf-8") == text
    one = tmp_path / "one.json"
    run("transcribe", folder, file, "-o", one, "--format", "json", *options)
    found = json.loads(one.read_text())
    assert found["text"] == expected.text
    assert found["duration"] == pytest.approx(5.3, abs=0.01)
    assert {"temperature", "logprob", "compression", "no_speech"} < set(found["segments"][0])


def test_a_file_without_sound_costs_the_others_nothing(folder, hearing, file, tmp_path):
    (tmp_path / "bad.wav").write_bytes(b"RIFF\0\0\0\0WAVE")
    sounds = (tmp_path / "bad.wav", tmp_path / "absent.wav", file)
    options = ("-o", f"{tmp_path}/texts/", "--threads", "1", "--no-fallback")
    shown = run("transcribe", folder, *sounds, *options, code=1).stderr.splitlines()
    shown = [line for line in shown if "testing whether" not in line]
    assert len(shown) == 3
    assert "without sound" in shown[0]
    assert "no such file" in shown[1]
    assert "2 of 3 files have no transcript" in shown[2]
    assert [path.name for path in (tmp_path / "texts").iterdir()] == ["sound.txt"]
    expected = hearing.transcribe(file, **GREEDY)
    lines = "".join(f"{segment.text}\n" for segment in expected.segments)
    assert (tmp_path / "texts" / "sound.txt").read_text(encoding="utf-8") == lines


def test_files_that_would_be_written_over_are_refused(folder, file, tmp_path):
    twin = tmp_path / "other" / file.name
    twin.parent.mkdir()
    twin.write_bytes(file.read_bytes())
    for arguments, match in (
        ([file, file.parent], "give -o DIR"),
        ([file, twin, "-o", tmp_path / "texts"], "two of the sounds would be written"),
        ([twin, "-o", twin], "is the sound itself"),
    ):
        lines = run("transcribe", folder, *arguments, code=2).stderr.splitlines()
        assert match in lines[-1]
    assert not (tmp_path / "texts").exists()
    assert twin.read_bytes() == file.read_bytes()


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
