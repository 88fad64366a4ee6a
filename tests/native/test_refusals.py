"""Claim: what Python refuses, libedgespec refuses with the same sentence; nothing crashes."""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import re

import pytest

import edgespec
from edgespec.artifact.manifest import manifest_digest, read_manifest
from edgespec.core.distribution_options import LogitEdits, Sampling
from edgespec.core.logit_edits import edit_of
from edgespec.device.device import Device
from edgespec.errors import EdgespecError, shortened
from edgespec_runtimes.machine import machine_of
from native_library import NativeError, NativeModel, Piece, options_of

VALUES = (-1.0, -0.0, 0.0, 1e-7, 1e-6, 0.1, 0.5, 1.0, 1.5, 2.0, 2.1, 1e30, 1e31, math.inf, math.nan)


def sentence(call) -> str | None:
    """What a call is refused with; None if it is not."""
    try:
        call()
    except EdgespecError as error:
        return str(error)
    return None


def edits(options, vocabulary):
    edit_of(LogitEdits(**options), [], [], vocabulary)


@pytest.mark.parametrize("name", [*vars(Sampling()), *vars(LogitEdits())])
def test_options_are_refused_with_pythons_sentences(hooks, name):
    hooks.edgespec_hook_check.restype = ctypes.c_char_p
    default = {**vars(Sampling()), **vars(LogitEdits())}[name]
    if name == "logit_bias":
        values = [{}, {-1: 0.5}, {3: 100.5}, {3: math.nan}, {40: 1.0}, {39: -100.0}]
    else:
        values = [int(value) for value in (-5, 0, 7)] if isinstance(default, int) else VALUES
    refused = 0
    for value in values:
        options = {name: value}
        answer = hooks.edgespec_hook_check(
            ctypes.byref(options_of(hooks, options)), ctypes.c_int64(40)
        )
        python = Sampling if name in vars(Sampling()) else lambda **given: edits(given, 40)
        expected = sentence(lambda python=python, options=options: python(**options))
        assert (answer and answer.decode()) == expected
        refused += expected is not None
    assert 0 < refused < len(values)


@pytest.mark.parametrize(
    "value", [0.1, 1e16, 1e15, 123456.75, 1e-5, 0.0001, 5e-324, 1.7976931348623157e308, -2.5, 100.0]
)
def test_numbers_are_written_as_python_writes_them(hooks, value):
    hooks.edgespec_hook_shown_double.restype = ctypes.c_char_p
    shown = hooks.edgespec_hook_shown_double(ctypes.c_double(value))
    assert shown.decode() == repr(value)


@pytest.mark.parametrize(
    "text", ["int8", "it's", "a\n\t\\b", "ä" * 58, "ä" * 59, "x" * 61, "x" * 500, "\x01\"'", ""]
)
def test_texts_are_written_as_python_writes_them(hooks, text):
    hooks.edgespec_hook_shown_text.restype = ctypes.c_char_p
    assert hooks.edgespec_hook_shown_text(text.encode()).decode() == shortened(text)


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 119, 120, 1000])
def test_digests_are_sha256(hooks, size):
    hooks.edgespec_hook_sha256.restype = ctypes.c_char_p
    content = bytes(index * 7 % 256 for index in range(size))
    digest = hooks.edgespec_hook_sha256(content, ctypes.c_size_t(size))
    assert digest.decode() == hashlib.sha256(content).hexdigest()


def test_canonical_json_is_pythons(hooks):
    hooks.edgespec_hook_canonical_json.restype = ctypes.c_char_p
    data = {
        "b": [1, -2.0, 1e-05, 1e22, 0.1, True, None, [], {}],
        "digest": "left out",
        "a": {'é\n"\\\x1f\x7f': "\U0001f600", "": {"digest": 1}, "Z": 12345678901234567890123},
    }
    text = json.dumps(data, indent=2, ensure_ascii=False)
    canonical = hooks.edgespec_hook_canonical_json(text.encode()).decode()
    assert hashlib.sha256(canonical.encode()).hexdigest() == manifest_digest(data)


@pytest.mark.parametrize("threads", [1, 2, None])
def test_the_machine_has_pythons_digest(hooks, threads):
    hooks.edgespec_hook_machine.restype = ctypes.c_char_p
    machine = machine_of(Device(threads))
    if not machine.kernels:
        pytest.skip("no kernels are installed")
    version = machine.runtime.split()[1].encode()
    assert hooks.edgespec_hook_machine(version, threads or 0).decode() == machine.digest


def changed_manifest(folder, change, resign=True):
    path = folder / "edgespec.json"
    data = json.loads(path.read_text())
    change(data)
    if resign:
        data["digest"] = manifest_digest(data)
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False))


DAMAGES = {
    "no manifest": lambda folder: (folder / "edgespec.json").unlink(),
    "another version": lambda folder: changed_manifest(folder, lambda d: d.update(version=4)),
    "a later version": lambda folder: changed_manifest(folder, lambda d: d.update(version=6)),
    "a changed manifest": lambda folder: changed_manifest(
        folder, lambda d: d.update(created_by="me"), resign=False
    ),
    "a path outside": lambda folder: changed_manifest(
        folder, lambda d: d["files"].update({"../x": {"bytes": 1, "sha256": ""}})
    ),
    "an unrecorded file": lambda folder: changed_manifest(
        folder, lambda d: d["files"].pop("tokenizer.json")
    ),
    "a missing file": lambda folder: (folder / "tokenizer.json").unlink(),
    "a longer file": lambda folder: lengthen(folder / "tokenizer.json"),
    "a changed graph": lambda folder: flip(next(folder.glob("target/*/decoder.onnx"))),
    "weights cut short": lambda folder: cut(next(folder.glob("target/*/weights.data"))),
}


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def lengthen(path):
    path.write_bytes(path.read_bytes() + b" ")


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_folders_are_refused_with_pythons_sentences(own_pair, damage):
    DAMAGES[damage](own_pair)
    expected = sentence(lambda: read_manifest(own_pair))
    assert expected is not None
    with pytest.raises(NativeError) as refused:
        NativeModel(own_pair)
    assert str(refused.value) == expected


@pytest.mark.parametrize(
    "garbage",
    [
        *("", "{", "[]", "{}", "\x00" * 9, "[" * 100_000),
        *('{"version": 5}', '{"version": "5"}', '{"version": 5, "eos_token_ids": [1e300]}'),
    ],
)
def test_a_manifest_of_garbage_is_an_error_of_one_line(own_pair, garbage):
    (own_pair / "edgespec.json").write_text(garbage)
    with pytest.raises(NativeError) as refused:
        NativeModel(own_pair)
    assert "\n" not in str(refused.value)
    assert str(own_pair) in str(refused.value)


def test_what_cannot_be_loaded_says_why(tiny_folder, built):
    for given, expected in {
        "target_format": "the target was not exported as 'x'; there is: ",
        "draft_format": "the draft was not exported as 'x'; there is: ",
        "onnxruntime": "x cannot be loaded (",
    }.items():
        with pytest.raises(NativeError) as refused:
            NativeModel(tiny_folder, **{given: "x"})
        assert str(refused.value).startswith(expected)
        assert refused.value.status == "usage"
    with pytest.raises(NativeError, match=r"capacity is 97; .* takes 1 to 96"):
        NativeModel(tiny_folder, capacity=97)
    with pytest.raises(NativeError, match="threads is -1; give a whole number from 1 to"):
        NativeModel(tiny_folder, threads=-1)


UNKNOWN = {
    "was exported with --for 'gpu'; export it without": lambda d: d.update(host="gpu"),
    "was exported with --for 'npu'; export it without": lambda d: d.update(host="npu"),
}


@pytest.mark.parametrize("sentence", UNKNOWN)
def test_what_does_not_run_yet_is_refused_by_name(own_pair, sentence):
    changed_manifest(own_pair, UNKNOWN[sentence])
    with pytest.raises(NativeError, match=re.escape(sentence)):
        NativeModel(own_pair)


@pytest.mark.parametrize("prompt", [[], [5, -1], [5, 10**6], [1] * 200])
def test_prompts_are_refused_with_pythons_sentences(native_tiny, tiny, prompt):
    expected = sentence(lambda: tiny.target.prefill(prompt))
    with pytest.raises(NativeError) as refused:
        native_tiny.session().text(prompt)
    assert str(refused.value) == expected
    assert refused.value.status == "usage"


@pytest.mark.parametrize(
    ("switch", "expected"),
    [("0", "libedgespec does not run without kernels; unset it"), ("x", "EDGESPEC_KERNELS is 'x'")],
)
def test_a_wrong_choice_of_kernels_is_refused(tiny_folder, built, monkeypatch, switch, expected):
    monkeypatch.setenv("EDGESPEC_KERNELS", switch)
    with pytest.raises(NativeError, match=expected):
        NativeModel(tiny_folder)


def test_wrong_calls_are_errors(native_tiny):
    library = native_tiny.library
    session = native_tiny.session()
    with pytest.raises(NativeError, match="no text is being made in this session"):
        list(session.pieces())
    with pytest.raises(NativeError, match="gamma is 17; this target was found exact for"):
        session.begin([1, 2], gamma=17)
    with pytest.raises(NativeError, match="draft is 4; give one of: 0 to 3"):
        session.begin([1, 2], draft=4)
    with pytest.raises(NativeError, match="stop_tokens has the token -3"):
        session.begin([1, 2], stop_tokens=[-3])
    with pytest.raises(NativeError, match="max_new_tokens is -2"):
        session.begin([1, 2], max_new_tokens=-2)
    for call in (
        lambda: library.edgespec_load(None, None, None),
        lambda: library.edgespec_open_session(None, None),
        lambda: library.edgespec_begin(None, None, ctypes.c_size_t(0), None, None),
        lambda: library.edgespec_next(None, None),
        lambda: library.edgespec_begin(session.handle, None, ctypes.c_size_t(2), None, None),
    ):
        assert call() == 2
        assert library.edgespec_message().decode().endswith("is NULL; give an address")
    library.edgespec_close(None)
    library.edgespec_close_session(None)
    library.edgespec_cancel(None)


def test_a_piece_of_a_wrong_size_costs_no_token(native_tiny):
    session = native_tiny.session()
    whole = session.text([1, 2], max_new_tokens=8)
    session.begin([1, 2], max_new_tokens=8)
    for _ in range(2):
        status = native_tiny.library.edgespec_next(session.handle, ctypes.byref(Piece(size=3)))
        with pytest.raises(NativeError, match="edgespec_piece has the size 3"):
            native_tiny.check(status)
    assert session.rest() == whole


def test_a_closed_handle_never_becomes_another_object(native_tiny):
    handles = set()
    for _ in range(20):
        session = native_tiny.session()
        handles.add(session.handle.value)
        session.close()
    assert len(handles) == 20
    assert native_tiny.handle.value not in handles


def test_the_version_is_edgespecs(native_tiny):
    assert native_tiny.library.edgespec_version().decode() == edgespec.__version__
    assert native_tiny.library.edgespec_abi() == 1
