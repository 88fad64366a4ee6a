"""Claim: a tokenizer that would change texts, or take memory without end, is one line and no more.

Rust's report of a panic does not come before the line.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from depth import one_in
from edgespec.artifact import integrity
from edgespec.artifact.manifest import MANIFEST, TOKENIZER, manifest_digest
from edgespec.errors import EdgespecError
from edgespec.pair.foreign.quiet_panics import quiet_panics
from edgespec.pair.foreign.text_reader import TextReader
from edgespec.pair.foreign.tokenizer_check import MOST_CHARACTERS, check_settings
from edgespec.pair.foreign.tokenizer_trial import try_texts
from edgespec.pair.prompt import PromptEncoder
from edgespec.pair.tokenizer import GrowingText, load_tokenizer
from edgespec_export.checkpoint.tokenizer.tokenizers_file import read_tokenizer_json


def written(folder: Path, tokenizer: Tokenizer) -> Path:
    tokenizer.save(str(folder / TOKENIZER))
    return folder


def of_bytes(normalizer=None, decoder=None, dropout=None) -> Tokenizer:
    vocabulary = {chr(c): c - 32 for c in range(32, 127)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], dropout=dropout))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if decoder is not None:
        tokenizer.decoder = decoder
    return tokenizer


def cut() -> Tokenizer:
    tokenizer = of_bytes()
    tokenizer.enable_truncation(4)
    return tokenizer


def padded() -> Tokenizer:
    tokenizer = of_bytes()
    tokenizer.enable_padding(length=10**9)
    return tokenizer


def chain(content: str, *, times: int, pattern: str = "e") -> normalizers.Sequence:
    return normalizers.Sequence([normalizers.Replace(pattern, content)] * times)


REFUSED = {
    "truncation": (cut, "it has truncation"),
    "padding": (padded, "it has padding"),
    "dropout": (lambda: of_bytes(dropout=0.1), "its dropout is 0.1"),
    "doubled": (lambda: of_bytes(chain("ee", times=30)), "1000 times as long"),
    "doubled in turns": (
        lambda: of_bytes(
            normalizers.Sequence(
                [normalizers.Replace("e", "oo"), normalizers.Replace("o", "ee")] * 20
            )
        ),
        "1000 times as long",
    ),
    "doubled in decoding": (
        lambda: of_bytes(decoder=decoders.Sequence([decoders.Replace("e", "ee")] * 30)),
        "1000 times as long",
    ),
    "nested": (
        lambda: of_bytes(normalizers.Sequence([chain("ee", times=15), chain("ee", times=15)])),
        "1000 times as long",
    ),
    "a long content": (lambda: of_bytes(chain("x" * 10**6, times=1)), "1000 times as long"),
    "nothing becomes something": (lambda: of_bytes(chain("ab", times=30, pattern="")), "1000"),
    "a long prefix": (lambda: of_bytes(normalizers.Prepend("x" * 10**6)), "1000000 characters"),
    "many steps": (lambda: of_bytes(chain("e", times=2000)), "2000 steps"),
}


@pytest.mark.parametrize(("make", "said"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused_before_it_reads_a_text(make, said, tmp_path):
    folder = written(tmp_path, make())
    with pytest.raises(EdgespecError, match="is not a tokenizer") as refused:
        load_tokenizer(folder)
    assert said in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert len(str(refused.value)) < 400


def test_export_takes_away_what_only_changes_texts(tmp_path):
    for make in (cut, padded, REFUSED["dropout"][0]):
        path = written(tmp_path, make()) / TOKENIZER
        written(tmp_path, read_tokenizer_json(path))
        assert load_tokenizer(tmp_path).encode("hello").ids == of_bytes().encode("hello").ids


def test_export_refuses_what_would_take_all_memory(tmp_path):
    path = written(tmp_path, REFUSED["doubled"][0]()) / TOKENIZER
    with pytest.raises(EdgespecError, match="1000 times as long"):
        read_tokenizer_json(path)


USUAL = {
    "sentencepiece": normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    ),
    "punctuation": normalizers.Sequence(
        [
            normalizers.Replace(one, three)
            for one, three in {"…": "...", "—": "--", "“": '"'}.items()
        ]
    ),
    "NFKC": normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]),
}


@pytest.mark.parametrize("normalizer", USUAL.values(), ids=USUAL)
def test_usual_normalizers_are_taken(normalizer):
    check_settings(of_bytes(normalizer))


@given(
    st.lists(
        st.tuples(st.text("abc", min_size=1, max_size=2), st.text("abc", max_size=4)), max_size=8
    ),
    st.text("abc", min_size=1, max_size=20),
)
def test_what_is_taken_does_not_make_a_text_much_longer(replacements, text):
    """Each part that a step replaces grows to a limit, so a text grows by no more than that."""
    steps = [normalizers.Replace(old, new) for old, new in replacements]
    tokenizer = of_bytes(normalizers.Sequence(steps))
    try:
        check_settings(tokenizer)
    except ValueError:
        return
    assert len(tokenizer.normalizer.normalize_str(text)) <= 3 * MOST_CHARACTERS * len(text)


# --- panics ---------------------------------------------------------------------------------------

PANIC = """
import sys
from pathlib import Path
from edgespec.errors import EdgespecError
from edgespec.pair.tokenizer import load_tokenizer
try:
    load_tokenizer(Path(sys.argv[1]))
except EdgespecError as error:
    sys.exit(str(error))
"""


@pytest.mark.skipif(os.name != "posix", reason="Rust writes elsewhere on Windows")
def test_a_panic_is_one_line(tmp_path):
    folder = written(tmp_path, of_bytes())
    data = json.loads((folder / TOKENIZER).read_text())
    # The charsmap's first number says that more bytes follow than there are.
    data["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "/////w=="}
    (folder / TOKENIZER).write_text(json.dumps(data))
    done = subprocess.run(
        [sys.executable, "-c", PANIC, folder],
        env={**os.environ, "RUST_BACKTRACE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "is not a tokenizer" in line


def damaged_charsmap(place: int, value: int, cut: int = 0) -> dict:
    """That of the shipped pair, with another unit in its trie, or without its end."""
    ours = json.loads(Path("models/en-de-target/tokenizer.json").read_text())
    steps = ours["normalizer"].get("normalizers", [ours["normalizer"]])
    (charsmap,) = (s["precompiled_charsmap"] for s in steps if s["type"] == "Precompiled")
    data = bytearray(base64.b64decode(charsmap))
    if place:
        data[4 * place : 4 * place + 4] = value.to_bytes(4, "little")
    left = bytes(data[: len(data) - cut])
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(left).decode()}


# What panics in tokenizers 0.23 only at some text, and is refused before any is read.
PANICS_LATER = {
    "a charsmap without its replacements": ("normalizer", lambda: damaged_charsmap(0, 0, 60_000)),
    "a charsmap that leads out of its trie": (
        "normalizer",
        lambda: damaged_charsmap(1, 0x7FFF_FC00),
    ),
    "a charsmap cut inside its trie": ("normalizer", lambda: damaged_charsmap(0, 0, 100_000)),
    "both ends stripped": ("decoder", lambda: vars_of(decoders.Strip("x", 1, 1))),
    "two of the end stripped": ("decoder", lambda: vars_of(decoders.Strip("x", 0, 2))),
    "stripped after others": (
        "decoder",
        lambda: vars_of(decoders.Sequence([decoders.Fuse(), decoders.Strip("x", 1, 1)])),
    ),
    "nothing put before a text that is composed": (
        "normalizer",
        lambda: vars_of(normalizers.Sequence([normalizers.Prepend(""), normalizers.NFKC()])),
    ),
    "nothing replaced in a text that is composed": (
        "normalizer",
        lambda: vars_of(normalizers.Sequence([normalizers.Replace("", "x"), normalizers.NFKC()])),
    ),
    "pieces of no length": ("pre_tokenizer", lambda: {"type": "FixedLength", "length": 0}),
}


def vars_of(part) -> dict:
    return json.loads(part.__getstate__())


@pytest.mark.skipif(os.name != "posix", reason="Rust writes elsewhere on Windows")
@pytest.mark.parametrize(("part", "make"), PANICS_LATER.values(), ids=PANICS_LATER)
def test_what_would_panic_at_some_text_is_refused_at_once(part, make, tmp_path, capfd):
    folder = written(tmp_path, of_bytes())
    data = json.loads((folder / TOKENIZER).read_text())
    (folder / TOKENIZER).write_text(json.dumps({**data, part: make()}))
    for read in (load_tokenizer, lambda folder: read_tokenizer_json(folder / TOKENIZER)):
        with pytest.raises(EdgespecError, match="is not a tokenizer") as refused:
            read(folder)
        assert len(str(refused.value).splitlines()) == 1
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(os.name != "posix", reason="Rust writes elsewhere on Windows")
@pytest.mark.parametrize("pattern", ["(?=é)", "(?=é) {0,2}", "(?<=b)é*(?=é)|(?=é)"])
def test_a_text_at_which_a_regular_expression_panics_is_one_line(pattern, capfd):
    """Where the expression matches nothing, and another step follows: only at "é" here."""
    steps = [normalizers.Replace(Regex(pattern), "x"), normalizers.NFKC()]
    tokenizer = of_bytes(normalizers.Sequence(steps))
    check_settings(tokenizer)
    try_texts(tokenizer)
    encoder = PromptEncoder(tokenizer, None)
    assert encoder("ab", False).tokens == [65, 66]
    reads = (lambda: encoder("é", False), lambda: encoder.text_alone("é"))
    normalized = TextReader(tokenizer).normalized
    for read in (*reads, lambda: normalized("é")):
        with pytest.raises(EdgespecError, match="cannot encode this text") as failed:
            read()
        assert len(str(failed.value).splitlines()) == 1
    assert capfd.readouterr().err == ""


def test_decoders_and_normalizers_of_published_tokenizers_are_taken():
    for name in ("smollm2-draft", "en-de-target"):
        load_tokenizer(Path("models") / name)
    metaspace = of_bytes(decoder=decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 1, 0)]))
    metaspace.pre_tokenizer = pre_tokenizers.FixedLength(3)
    check_settings(metaspace)
    try_texts(metaspace)


class UnableTokenizer:
    """Decodes no tokens: its panic is Rust's by name."""

    def decode(self, tokens, skip_special_tokens):
        raise PanicException("index out of bounds")


def test_a_panic_while_tokens_are_decoded_is_an_error_of_one_line():
    with pytest.raises(EdgespecError, match=r"cannot decode these tokens .index out of bounds"):
        GrowingText(UnableTokenizer()).add(1)


class PanicException(BaseException):
    """As Rust's, by its name."""


def _write_and_raise(error: BaseException) -> None:
    os.write(2, f"before {type(error).__name__}\n".encode())
    raise error


@pytest.mark.skipif(os.name != "posix", reason="Windows has other descriptors")
def test_only_the_report_of_a_panic_is_dropped(capfd):
    with quiet_panics():
        os.write(2, b"a warning\n")
    for error in (ValueError(), PanicException()):
        with pytest.raises(type(error)), quiet_panics():
            _write_and_raise(error)
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "a warning\nbefore ValueError\nlater\n"


@pytest.mark.skipif(os.name != "posix", reason="Windows has other descriptors")
def test_standard_error_is_back_after_many_threads(capfd):
    def work():
        for _ in range(20):
            with quiet_panics():
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.write(2, b"here\n")
    assert capfd.readouterr().err == "here\n"


# --- files that are not as they were signed -------------------------------------------------------


def test_a_chat_template_that_the_manifest_does_not_record_is_not_read(own_pair):
    import edgespec

    (own_pair / "chat_template.json").write_text(
        '{"template": "{{ tools }}", "special_tokens": {}}'
    )
    pair = edgespec.load(own_pair, threads=1)
    with pytest.raises(EdgespecError, match="knows no tools"):
        _ = pair.tool_use.form
    record(own_pair, "chat_template.json")
    recorded = edgespec.load(own_pair, threads=1)
    assert recorded.tool_use._template is not None


def record(folder: Path, name: str) -> None:
    """Signs a file that was added."""
    data = json.loads((folder / MANIFEST).read_text())
    data["files"][name] = vars(integrity.record(folder / name))
    data["digest"] = manifest_digest(data)
    (folder / MANIFEST).write_text(json.dumps(data))


@one_in(2)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has other pipes")
@pytest.mark.parametrize("name", ["row_invariance.json", "profile.json", "chat_template.json"])
def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(own_pair, name):
    (own_pair / name).unlink(missing_ok=True)
    os.mkfifo(own_pair / name)
    command = [sys.executable, "-m", "edgespec", "generate", own_pair, "x", "-n", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_nothing_is_kept_where_no_file_can_be(monkeypatch, capfd):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(tempfile, "TemporaryFile", _no_room)
    with quiet_panics():
        os.write(2, b"a warning\n")
    with pytest.raises(PanicException), quiet_panics():
        raise PanicException
    assert capfd.readouterr().err == "a warning\n"


def _no_room():
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that Linux has")
@pytest.mark.parametrize("written", [b"", b"a warning\n"])
def test_a_standard_error_that_is_full_is_no_error_of_the_tokenizer(written):
    real = os.dup(2)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, 2)
    try:
        with quiet_panics():
            os.write(2, written)
    finally:
        os.dup2(real, 2)
        os.close(real)
        os.close(full)
