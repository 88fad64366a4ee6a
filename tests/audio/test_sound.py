"""Claim: sound files of every usual kind are read as one sound, piece by piece, or are refused.

Whatever the width, rate and channels, what a model hears is the same sound within its precision.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from edgespec.audio.log_mel import Spectrogram, mel_filters
from edgespec.audio.resampling import resampled
from edgespec.audio.sound import RATE, ArraySound
from edgespec.audio.sound_file import open_sound
from edgespec.errors import EdgespecError, UsageError

SECONDS = 2.5


def tone(rate, hertz=440.0, seconds=SECONDS):
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


def stored(samples, bits, kind):
    if kind == 3:
        return samples.astype(f"<f{bits // 8}").tobytes()
    whole = np.rint(samples * (2 ** (bits - 1) - 1))
    if bits == 8:
        return (whole + 128).astype(np.uint8).tobytes()
    if bits == 24:
        return whole.astype("<i4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes()
    return whole.astype(f"<i{bits // 8}").tobytes()


def wav(path, samples, rate=RATE, bits=16, kind=1, *, extensible=False, size=None, data=None):
    """Writes a WAV file; samples are [length] or [length, channels]."""
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    body = stored(samples.reshape(-1), bits, kind) if data is None else data
    frame = channels * bits // 8
    tag = 0xFFFE if extensible else kind
    layout = struct.pack("<HHIIHH", tag, channels, rate, rate * frame, frame, bits)
    if extensible:
        layout += struct.pack("<HHIH14x", 22, bits, 0, kind)
    parts = b"WAVE" + b"LIST" + struct.pack("<I", 3) + b"abc\0"  # an odd part is padded
    parts += b"fmt " + struct.pack("<I", len(layout)) + layout
    parts += b"data" + struct.pack("<I", len(body) if size is None else size) + body
    path.write_bytes(b"RIFF" + struct.pack("<I", len(parts) % 2**32) + parts)
    return path


KINDS = [(8, 1), (16, 1), (24, 1), (32, 1), (32, 3), (64, 3)]


@pytest.mark.parametrize(("bits", "kind"), KINDS)
@pytest.mark.parametrize("extensible", [False, True])
def test_each_width_of_a_wav_file_is_the_same_sound(bits, kind, extensible, tmp_path):
    expected = tone(RATE)
    sound = open_sound(wav(tmp_path / "a.wav", expected, RATE, bits, kind, extensible=extensible))
    assert (sound.rate, sound.length) == (RATE, len(expected))
    step = 2.0 ** -(min(bits, 24) - 1)
    assert np.abs(sound.read(0, sound.length) - expected).max() <= 1.1 * step


def test_channels_are_mixed(tmp_path):
    left, right = tone(RATE), tone(RATE, 1000)
    both = np.stack([left, right], axis=1)
    sound = open_sound(wav(tmp_path / "a.wav", both, kind=3, bits=32))
    mean = ((left + right) / 2).astype(np.float32)
    assert np.abs(sound.read(0, sound.length) - mean).max() < 1e-6
    assert np.abs(ArraySound(both).read(0, sound.length) - mean).max() < 1e-6


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000])
def test_another_rate_is_the_same_sound(rate, tmp_path):
    sound = resampled(open_sound(wav(tmp_path / "a.wav", tone(rate), rate, 32, 3)))
    assert sound.length == pytest.approx(SECONDS * RATE, abs=1)
    middle = slice(400, -400)  # without the filter's beginning and end
    found, expected = sound.read(0, sound.length), tone(RATE)[: sound.length]
    assert np.abs(found[: len(expected)] - expected)[middle].max() < 1e-4


def test_what_a_rate_cannot_hold_is_silent_and_not_folded_back():
    sound = resampled(ArraySound(tone(48000, 11000), 48000))
    assert np.abs(sound.read(400, sound.length - 800)).max() < 1e-3


@pytest.mark.parametrize("rate", [RATE, 22050])
def test_pieces_are_the_whole(rate):
    sound = resampled(ArraySound(tone(rate), rate))
    pieces = [sound.read(start, 777) for start in range(0, sound.length, 777)]
    whole = sound.read(0, sound.length)
    assert np.abs(np.concatenate(pieces)[: sound.length] - whole).max() < 1e-6
    beyond = sound.read(-50, sound.length + 100)
    assert not beyond[:50].any()
    assert not beyond[-50:].any()


# --- spectrograms ---


@pytest.mark.parametrize("mel_bins", [80, 128])
def test_spectrograms_are_those_of_transformers(mel_bins):
    transformers = pytest.importorskip("transformers")
    generator = np.random.default_rng(3)
    samples = (0.1 * generator.standard_normal(5 * RATE + 77) + tone(RATE, 300, 5.0048125)).astype(
        np.float32
    )
    extractor = transformers.WhisperFeatureExtractor(feature_size=mel_bins)
    expected = extractor(
        samples, sampling_rate=RATE, truncation=False, padding="longest", return_tensors="np"
    ).input_features[0]
    spectrogram = Spectrogram(ArraySound(samples), mel_bins)
    assert spectrogram.frames == expected.shape[1]
    parts = [spectrogram.window(start, 100) for start in range(0, spectrogram.frames, 100)]
    found = np.concatenate(parts, axis=1)[:, : spectrogram.frames]
    # The end is mirrored there, and silence here as in the original.
    assert np.abs(found - expected)[:, :-2].max() < 1e-4
    assert not spectrogram.window(spectrogram.frames, 10).any()


def test_filters_have_equal_areas_and_cover_all_frequencies():
    filters = mel_filters(80)
    assert filters.shape == (80, 201)
    assert (filters.sum(axis=0)[1:-1] > 0).all()
    wide = filters[40:]  # narrow ones are sampled coarsely
    assert np.allclose(wide.sum(axis=1) * 40, 1, atol=0.1)


def test_three_hours_take_the_memory_of_a_window():
    class Long:
        rate, length, largest = RATE, 3 * 3600 * RATE, 0

        def read(self, start, count):
            self.largest = max(self.largest, count)
            return np.zeros(count, np.float32)

    sound = Long()
    spectrogram = Spectrogram.__new__(Spectrogram)  # without the pass for the loudest
    spectrogram.frames, spectrogram._sound, spectrogram._loudest = 1_080_000, sound, 0.0
    spectrogram._filters, spectrogram._hann = mel_filters(80), np.ones(400)
    tracemalloc.start()
    for start in range(0, spectrogram.frames, 108_000):
        spectrogram.window(start, 3000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sound.largest <= 31 * RATE
    assert peak < 60e6


# --- what cannot be read ---


def read_whole(path):
    sound = open_sound(path)
    return sound.read(0, sound.length)


def refused(path, match):
    with pytest.raises(EdgespecError, match=match) as error:
        read_whole(path)
    assert "\n" not in str(error.value)


def test_files_that_are_no_sound_are_refused_in_a_line(tmp_path):
    refused(tmp_path / "absent.wav", "no such file")
    refused(tmp_path, "is a folder; give a sound file")
    (tmp_path / "empty.wav").write_bytes(b"")
    refused(tmp_path / "empty.wav", "is empty")
    whole = wav(tmp_path / "whole.wav", tone(RATE)).read_bytes()
    for length, match in ((30, "cut off"), (12, "without sound")):
        (tmp_path / "part.wav").write_bytes(whole[:length])
        refused(tmp_path / "part.wav", match)
    refused(wav(tmp_path / "a.wav", tone(RATE), kind=6, bits=8, data=b"0" * 99), "kind 6")
    refused(wav(tmp_path / "a.wav", tone(RATE), rate=5), "5 samples per second")
    loud = np.array([0.0, np.nan, 0.5])
    refused(wav(tmp_path / "a.wav", loud, kind=3, bits=32), "no finite numbers")


@pytest.mark.parametrize(
    "size", [0, 0xFFFFFFFF, 0xFFFFFFFF - 36, 0x7FFFF000, 0x80000000, 0x7FFFFFFE, 0x7FFFFFDB]
)
def test_a_file_that_does_not_know_its_length_is_read_to_its_end(size, tmp_path, caplog):
    """As ffmpeg, SoX, arecord and GStreamer write to a pipe."""
    file = wav(tmp_path / "a.wav", tone(RATE), size=size)
    assert open_sound(file).length == len(tone(RATE))
    assert caplog.text == ""


@pytest.mark.parametrize("missing", [2, 1001, RATE])
def test_a_file_that_says_more_than_it_has_is_read_to_its_end_with_a_line(
    missing, tmp_path, caplog
):
    """A recorder that was ended before it could write the length, or a copy that was."""
    whole = wav(tmp_path / "whole.wav", tone(RATE))
    (tmp_path / "part.wav").write_bytes(whole.read_bytes()[:-missing])
    sound = open_sound(tmp_path / "part.wav")
    assert sound.length == len(tone(RATE)) - -(-missing // 2)
    expected = open_sound(whole).read(0, sound.length)
    assert np.array_equal(sound.read(0, sound.length), expected)
    assert "was cut off, or its recorder was ended" in caplog.text


def test_other_files_are_read_by_a_library(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "a.flac", tone(22050), 22050)
    sound = open_sound(tmp_path / "a.flac")
    assert np.abs(sound.read(100, 1000) - tone(22050)[100:1100]).max() < 1e-4
    assert not sound.read(sound.length, 10).any()


@pytest.mark.parametrize("library", [True, False])
def test_without_what_reads_it_a_line_says_what_to_install(tmp_path, monkeypatch, library):
    monkeypatch.setenv("PATH", str(tmp_path))  # no ffmpeg
    if library:
        pytest.importorskip("soundfile")
    else:
        monkeypatch.setitem(sys.modules, "soundfile", None)
    (tmp_path / "text.mp3").write_text("This is no sound. " * 50)
    refused(tmp_path / "text.mp3", "ffmpeg, which reads more" if library else r"\[audio\]")


def stand_in(folder, monkeypatch, code):
    """Puts a program of that name before ffmpeg; it finds its arguments in sys.argv."""
    program = folder / "bin" / "ffmpeg"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nimport sys\n{code}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.skipif(os.name != "posix", reason="the stand-in is a script")
def test_what_no_library_reads_is_decoded_by_ffmpeg(tmp_path, monkeypatch):
    (tmp_path / "a.m4a").write_bytes(b"\0\0\0\x18ftypM4A and more")
    wave = (np.arange(-16000, 16000) * 2).astype("<i2")
    (tmp_path / "a.raw").write_bytes(wave.tobytes())
    code = f"""assert sys.argv[-3:] == ["-f", "s16le", "-"], sys.argv
assert sys.argv[sys.argv.index("-i") + 1] == {str(tmp_path / "a.m4a")!r}
sys.stdout.buffer.write(open({str(tmp_path / "a.raw")!r}, "rb").read())"""
    stand_in(tmp_path, monkeypatch, code)
    sound = open_sound(tmp_path / "a.m4a")
    assert (sound.rate, sound.length) == (16000, 32000)
    assert np.array_equal(sound.read(-5, 32010)[5:-5], wave / np.float32(32768))
    assert not sound.read(-5, 5).any()
    assert not sound.read(32000, 9).any()


@pytest.mark.skipif(os.name != "posix", reason="the stand-in is a script")
@pytest.mark.parametrize(
    ("code", "match"),
    [
        ("sys.stderr.write('bad box\\nmore'); sys.exit(1)", r"ffmpeg can read \(bad box\)"),
        ("sys.stdout.write('some'); sys.exit(1)", "it has no sound"),
        ("", "it has no sound"),
    ],
)
def test_what_ffmpeg_cannot_read_is_one_line(tmp_path, monkeypatch, code, match):
    (tmp_path / "a.webm").write_bytes(b"\x1aE\xdf\xa3 and more")
    stand_in(tmp_path, monkeypatch, code)
    refused(tmp_path / "a.webm", match)


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")
@pytest.mark.parametrize("name", ["a.m4a", "a.webm"])
def test_ffmpeg_s_sound_is_that_of_the_file(tmp_path, name):
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "a.wav", tone(RATE), RATE)
    command = ["ffmpeg", "-v", "error", "-i", "a.wav", name]
    subprocess.run(command, cwd=tmp_path, check=True)
    sound = open_sound(tmp_path / name)
    assert abs(sound.length - len(tone(RATE))) < 3000  # these codecs have frames
    spectra = [
        np.abs(np.fft.rfft(samples[2000:10000])) for samples in (sound.read(0, 16000), tone(RATE))
    ]
    assert spectra[0].argmax() == spectra[1].argmax()
    (tmp_path / "list.m3u8").write_text(f"#EXTM3U\n#EXTINF:9,\n{tmp_path}/a.wav\n")
    refused(tmp_path / "list.m3u8", "ffmpeg")


@pytest.mark.parametrize(
    "samples",
    [np.zeros((2, 2, 2)), np.array(["a"]), np.array([np.inf]), np.array(3.0), np.array([1, -1e2])],
    ids=["three axes", "texts", "infinite", "a number", "whole numbers as floats"],
)
def test_arrays_that_are_no_sound_are_refused(samples):
    with pytest.raises(UsageError, match="the sound"):
        ArraySound(samples)


def test_integers_are_read_by_their_width():
    found = ArraySound(np.array([16384, -32768], np.int16)).read(0, 2)
    assert found.tolist() == [0.5, -1.0]
