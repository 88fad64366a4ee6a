"""Claim: sessions that transcribe are refused what they cannot, with Python's sentences; they are
cancelled, and used again."""

from __future__ import annotations

import ctypes
import json
import shutil
import threading
from hashlib import sha256

import numpy as np
import pytest

import edgespec
from edgespec.errors import EdgespecError
from manifests import edit_manifest
from native_library import NativeError, NativeModel, Segment, TranscriptOptions
from native_transcripts import NativeTranscript, transcribed

NOISE = (0.1 * np.random.default_rng(2).standard_normal(7 * 16000)).astype(np.float32)
GREEDY = {"temperature": 0.0}


@pytest.fixture(scope="module")
def pair(whisper_folder):
    return edgespec.load(whisper_folder, threads=1)


@pytest.fixture(scope="module")
def model(built, whisper_folder):
    return NativeModel(whisper_folder, threads=1)


WRONG = (
    {"language": "xx"},
    {"language": "DE"},
    {"no_speech": 2.0},
    {"no_speech": -0.1},
    {"min_logprob": 0.5},
    {"max_compression": -1.0},
    {"temperature": -1.0},
    {"temperature": [0.0, 1e-9]},
    {"temperature": ()},
)


@pytest.mark.parametrize("given", WRONG, ids=str)
def test_options_are_refused_with_pythons_sentences(model, pair, given):
    with pytest.raises(EdgespecError) as expected:
        pair.transcribe(NOISE, **given)
    with pytest.raises(NativeError) as refused:
        transcribed(model, NOISE, **given)
    assert str(refused.value) == str(expected.value).replace("or None", "or NaN")
    assert refused.value.status == "usage"


@pytest.mark.parametrize(
    "sound",
    [
        NOISE[:0],
        NOISE[:159],
        np.float32([*NOISE[:900], np.nan]),
        np.float32([np.inf] * 500),
        np.float32([0.5, -100.0, 32767.0] * 500),
    ],
)
def test_sounds_are_refused_with_pythons_sentences(model, pair, sound):
    with pytest.raises(EdgespecError) as expected:
        pair.transcribe(sound)
    with pytest.raises(NativeError) as refused:
        transcribed(model, sound)
    assert str(refused.value) == str(expected.value)


def test_texts_and_transcripts_are_told_apart(model, pair, native_tiny, tiny, tmp_path):
    with pytest.raises(EdgespecError) as expected:
        tiny.transcribe(NOISE)
    for call in (lambda: transcribed(native_tiny, NOISE), lambda: next_of(native_tiny)):
        with pytest.raises(NativeError) as refused:
            call()
        assert str(refused.value) == str(expected.value)
    way_out = "makes text of sound, not of a prompt; use: edgespec_begin_transcript"
    session = model.session()
    chat = [{"role": "user", "content": "Hi"}]
    for call in (
        lambda: session.begin([1, 2]),
        lambda: session.begin("Hi"),
        lambda: session.begin(chat),
        lambda: model.batch(2),
    ):
        with pytest.raises(NativeError, match=way_out):
            call()
    for call in (session.fork, lambda: session.save(tmp_path / "session")):
        with pytest.raises(NativeError, match=r"^a session that transcribes cannot"):
            call()
    assert not list(tmp_path.iterdir())


def next_of(model, size=None):
    session, segment = model.session(), Segment(size=size or ctypes.sizeof(Segment))
    model.check(model.library.edgespec_next_segment(session.handle, ctypes.byref(segment)))


def test_wrong_calls_are_errors(model):
    with pytest.raises(NativeError, match="no transcript is being made in this session; begin"):
        next_of(model)
    with pytest.raises(NativeError, match="edgespec_segment has the size 8"):
        next_of(model, size=8)
    with pytest.raises(NativeError, match="gamma is 17; this target was found exact for at most"):
        transcribed(model, NOISE, gamma=17)


def test_wrong_arguments_are_errors(model):
    library, handle = model.library, model.session().handle
    begin = library.edgespec_begin_transcript
    samples = NOISE.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(NOISE))
    long = TranscriptOptions(size=1000)
    magic = TranscriptOptions(size=ctypes.sizeof(TranscriptOptions), draft=4)
    wrong = {
        "edgespec_transcript_options has the size 1000": (handle, *samples, ctypes.byref(long)),
        "draft is 4; give one of: 0 to 3": (handle, *samples, ctypes.byref(magic)),
        "samples is NULL; give an address": (handle, None, samples[1], None),
        "session is NULL; give an address": (None, *samples, None),
    }
    for sentence, arguments in wrong.items():
        assert begin(*arguments) == 2
        assert sentence in library.edgespec_message().decode()
    assert library.edgespec_next_segment(handle, None) == 2
    library.edgespec_transcript_options_defaults(None)
    assert begin(handle, *samples, None) == 0


def test_a_transcript_ends_once_and_says_so_again(model, pair):
    transcript = NativeTranscript(model.session(), NOISE, **GREEDY).finish()
    segments = list(transcript.segments)
    assert segments
    assert transcript.finish().segments == segments
    assert transcript.seconds == pytest.approx(7.0)


def test_the_sound_is_copied(model):
    sound = NOISE.copy()
    transcript = NativeTranscript(model.session(), sound, **GREEDY)
    sound[:] = 0
    assert transcript.finish().segments == transcribed(model, NOISE, **GREEDY).segments


def test_a_cancelled_transcript_leaves_nothing_behind(model):
    session = model.session()
    drafting = {"draft": "model", "gamma": 3}
    expected = transcribed(model, NOISE, **GREEDY, **drafting)
    for taken in range(3):
        transcript = NativeTranscript(session, NOISE, **GREEDY, **drafting)
        segments = iter(transcript)
        for _ in range(taken):
            next(segments)
        session.cancel()
        with pytest.raises(NativeError) as cancelled:
            list(segments)
        assert cancelled.value.status == "cancelled"
        with pytest.raises(NativeError, match="no transcript is being made"):
            transcript.finish()
        again = NativeTranscript(session, NOISE, **GREEDY, **drafting).finish()
        assert (again.segments, again.accepted) == (expected.segments, expected.accepted)


def test_another_thread_cancels_a_transcript(model):
    session = model.session()
    transcript = NativeTranscript(session, np.tile(NOISE, 40))
    timer = threading.Timer(0.2, session.cancel)
    timer.start()
    with pytest.raises(NativeError, match="the text was cancelled"):
        transcript.finish()
    timer.join()


def test_a_transcript_that_another_replaces_is_dropped(model):
    session = model.session()
    dropped = NativeTranscript(session, NOISE, **GREEDY)
    next(iter(dropped))
    found = NativeTranscript(session, NOISE[16000:], **GREEDY).finish()
    assert found.segments == transcribed(model, NOISE[16000:], **GREEDY).segments


@pytest.fixture
def own_whisper(whisper_folder, tmp_path):
    return shutil.copytree(whisper_folder, tmp_path / "pair")


def change_speech(folder, change):
    """Changes the target's speech format, and records the file as it then is."""
    path = folder / "target" / "speech.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    content = path.read_bytes()
    record = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
    edit_manifest(folder, lambda manifest: manifest["files"].update({"target/speech.json": record}))


DAMAGES = {
    "a missing field": lambda data: data.pop("previous"),
    "an unknown field": lambda data: data.update(more=1),
    "another type": lambda data: data.update(frames="200"),
    "a language that is no token": lambda data: data["languages"].update(en=1.5),
    "a token that is none": lambda data: data.update(suppressed=[1, "2"]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_speech_format_is_refused_with_pythons_sentence(built, own_whisper, damage):
    change_speech(own_whisper, DAMAGES[damage])
    with pytest.raises(EdgespecError) as expected:
        edgespec.load(own_whisper, threads=1)
    with pytest.raises(NativeError) as refused:
        NativeModel(own_whisper, threads=1)
    assert str(refused.value) == str(expected.value)


def test_a_token_that_the_model_lacks_is_refused(built, own_whisper):
    change_speech(own_whisper, lambda data: data.update(suppressed=[5, 368]))
    with pytest.raises(
        NativeError, match=r"is damaged \(suppressed is 368, not 0 to 367\); export"
    ):
        NativeModel(own_whisper, threads=1)


def test_a_target_that_was_not_measured_here_is_measured_on_noise(built, own_whisper, pair):
    def forget(manifest):
        for variant in manifest["target"]["variants"].values():
            variant["row_invariance"] = None

    edit_manifest(own_whisper, forget)
    model = NativeModel(own_whisper, threads=1)
    found = transcribed(model, NOISE, draft="model", gamma=4, **GREEDY)
    assert found.accepted > 10
    assert found.segments == pair.transcribe(NOISE, draft=False, **GREEDY).segments
