"""Claim: OpenAI's client gets the transcripts of a speech pair, in each format and as they grow."""

from __future__ import annotations

import io
import wave

import numpy as np
import pytest

import edgespec
from edgespec_export.export_pair import export_pair
from serving import CHAT, DRAFTED, Served, chat
from whisper_checkpoints import write_whisper

openai = pytest.importorskip("openai")
pytest.importorskip("python_multipart")

from starlette.testclient import TestClient  # noqa: E402

from edgespec.server.app import application  # noqa: E402
from edgespec.server.limits import Limits  # noqa: E402

PATH = "/v1/audio/transcriptions"
SECONDS = 2


@pytest.fixture(scope="module")
def hearing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("speech")
    target = write_whisper(folder / "target", alignment_heads=[[1, 0], [2, 1]])
    draft = write_whisper(folder / "draft", noise=0.03)
    export_pair(str(target), str(draft), folder / "pair", target_formats=["fp32"], threads=1)
    return edgespec.load(folder / "pair", threads=1)


@pytest.fixture(scope="module")
def sound():
    """A WAV file of a chirp in noise."""
    times = np.arange(SECONDS * 16000) / 16000
    samples = 0.3 * np.sin(2 * np.pi * (300 + 700 * np.sin(3 * times)) * times)
    samples += np.random.default_rng(0).normal(0, 0.05, len(times))
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, 16000, 0, "NONE", ""))
        out.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return file.getvalue()


@pytest.fixture(scope="module")
def own(hearing, sound, tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "sound.wav"
    path.write_bytes(sound)
    return hearing.transcribe(path, language="de", draft=False, seed=3, temperature=0.8)


@pytest.fixture(scope="module")
def client(hearing):
    with Served(hearing) as port:
        url = f"http://127.0.0.1:{port}/v1"
        with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
            yield client


def asked(client, sound, **fields):
    usual = {"model": "small", "language": "de", "temperature": 0.8, "extra_body": {"seed": 3}}
    fields = {**usual, **fields}
    return client.audio.transcriptions.create(file=("a.wav", sound), **fields)


def test_a_transcript_is_that_of_the_pair_in_every_format(client, sound, own):
    assert own.segments
    assert asked(client, sound).text == own.text
    assert asked(client, sound, response_format="text") == f"{own.text}\n"
    assert asked(client, sound, response_format="srt") == own.srt()
    assert asked(client, sound, response_format="vtt") == own.vtt()
    verbose = asked(client, sound, response_format="verbose_json")
    assert (verbose.text, verbose.language) == (own.text, "de")
    assert verbose.duration == pytest.approx(SECONDS)
    assert [(part.start, part.end, part.text, tuple(part.tokens)) for part in verbose.segments] == [
        (part.start, part.end, part.text, part.token_ids) for part in own.segments
    ]


@pytest.mark.parametrize("granularities", [["word"], ["segment", "word"], ["segment"]])
def test_a_verbose_transcript_has_the_times_that_are_asked_for(
    client, hearing, sound, own, granularities, tmp_path
):
    (tmp_path / "sound.wav").write_bytes(sound)
    options = {"language": "de", "draft": False, "seed": 3, "temperature": 0.8}
    words = hearing.transcribe(tmp_path / "sound.wav", word_times=True, **options).words
    found = asked(
        client, sound, response_format="verbose_json", timestamp_granularities=granularities
    )
    assert found.text == own.text
    assert len(words) > 1
    expected = [(word.text, word.start, word.end) for word in words]
    said = found.words and [(word.word, word.start, word.end) for word in found.words]
    assert said == (expected if "word" in granularities else None)
    parts = found.segments and [part.text for part in found.segments]
    texts = [part.text for part in own.segments]
    assert parts == (texts if "segment" in granularities else None)


def test_a_stream_has_its_segments(client, sound, own):
    events = list(asked(client, sound, stream=True))
    pieces = [event.delta for event in events[:-1]]
    assert "".join(pieces) == own.text
    assert len(pieces) == len(own.segments)
    assert (events[-1].type, events[-1].text) == ("transcript.text.done", own.text)


def test_models_are_listed_and_texts_of_texts_refused(hearing, tiny):
    served = application({"hears": hearing, "tiny": tiny}, DRAFTED)
    with TestClient(served, base_url="http://localhost") as client:
        cards = client.get("/v1/models").json()["data"]
        assert [card["id"] for card in cards] == ["tiny", "hears"]
        assert client.get("/v1/models/hears").json()["id"] == "hears"
        body = {"model": "hears", "prompt": "x", "max_tokens": 2}
        assert client.post("/v1/completions", json=body).status_code == 200  # the only one of texts
    with TestClient(application({"hears": hearing}, {}), base_url="http://localhost") as client:
        refused = client.post(CHAT, json=chat())
        assert refused.status_code == 404
        assert "ask at /v1/audio/transcriptions" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"response_format": "xml"}, "response_format is 'xml'"),
        ({"temperature": "hot"}, "temperature is 'hot'"),
        ({"temperature": 1.5}, "temperature is '1.5'"),
        ({"language": "xx"}, "language"),
        ({"extra_body": {"seed": -1}}, "seed is '-1'"),
        ({"timestamp_granularities": ["word"]}, "words are in verbose_json only"),
    ],
    ids=str,
)
def test_a_field_that_cannot_be_is_a_bad_request(client, sound, fields, reason):
    with pytest.raises(openai.BadRequestError, match=reason):
        asked(client, sound, **fields)


@pytest.mark.parametrize("body", [b"", b"no sound", b"RIFF\x00\x00\x00\x00WAVE", b"\x00" * 5000])
def test_what_is_no_sound_is_one_line_and_the_next_is_answered(client, sound, body, own):
    with pytest.raises(openai.APIStatusError) as caught:
        asked(client, body)
    assert "\n" not in caught.value.body["message"]
    assert "/tmp" not in caught.value.body["message"]
    assert asked(client, sound).text == own.text


def test_hostile_forms_are_refused(hearing, sound):
    served = application({"small": hearing}, {}, Limits(max_sound=10_000))
    with TestClient(served, base_url="http://localhost") as client:
        large = client.post(PATH, files={"file": ("a.wav", sound)})
        assert large.status_code == 413
        assert "--max-sound" in large.json()["error"]["message"]
        for request in (
            {"json": {"file": "a"}},
            {"data": {"file": "a"}},
            {"files": {"other": ("a.wav", b"x")}},
            {"files": {"file": (None, "a")}},
            {"content": b"--x\r\n", "headers": {"content-type": "multipart/form-data"}},
            {"content": b"z" * 99, "headers": {"content-type": "multipart/form-data; boundary=x"}},
            {"files": [("file", ("a.wav", b"x")), ("file", ("b.wav", b"y"))]},
            {"files": {"file": ("a.wav", b"x")}, "data": {f"f{i}": "1" for i in range(99)}},
        ):
            refused = client.post(PATH, **request)
            assert refused.status_code == 400, refused.text
            assert refused.json()["error"]["type"] == "invalid_request_error"


def test_without_a_speech_pair_sounds_are_refused(tiny, sound):
    with TestClient(application({"tiny": tiny}, {}), base_url="http://localhost") as client:
        refused = client.post(PATH, files={"file": ("a.wav", sound)})
        assert refused.status_code == 400
        assert "no model here makes text of sound" in refused.json()["error"]["message"]
