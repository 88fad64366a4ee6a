"""libedgespec through ctypes: edgespec.h as Python sees it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
    string_at,
)
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import onnxruntime

__all__ = [
    "HOOKS",
    "LIBRARY",
    "BatchText",
    "NativeBatch",
    "NativeError",
    "NativeModel",
    "NativeSession",
    "int64s",
    "options_of",
    "runtime_library",
    "turns_of",
]

BUILD = Path(os.environ.get("EDGESPEC_NATIVE", Path(__file__).parents[1] / "build" / "native"))
LIBRARY = BUILD / "libedgespec.so"
HOOKS = BUILD / "libedgespec_hooks.so"
STATUS = {1: "error", 2: "usage", 3: "cancelled"}
RULES = {None: 0, "coupled": 1, "token": 2, "block": 3}
ENDINGS = {1: "eos", 2: "stop", 3: "max_tokens", 4: "capacity"}


class NativeError(Exception):
    """A call that failed; `status` is "error", "usage" or "cancelled"."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = STATUS[status]


class LoadOptions(ctypes.Structure):
    _fields_ = (
        ("size", c_size_t),
        ("onnxruntime", c_char_p),
        ("target_format", c_char_p),
        ("draft_format", c_char_p),
        ("threads", c_int32),
        ("allow_inexact", c_int32),
        ("capacity", c_int64),
    )


class Memory(ctypes.Structure):
    _fields_ = (("size", c_size_t), ("weights", c_uint64), ("caches", c_uint64))


class Bias(ctypes.Structure):
    _fields_ = (("token", c_int64), ("bias", c_double))


class Range(ctypes.Structure):
    _fields_ = (("begin", c_int64), ("end", c_int64))


class Options(ctypes.Structure):
    _fields_ = (
        ("size", c_size_t),
        ("temperature", c_double),
        ("top_k", c_int64),
        ("top_p", c_double),
        ("min_p", c_double),
        ("top_n_sigma", c_double),
        ("xtc_probability", c_double),
        ("xtc_threshold", c_double),
        ("repetition_penalty", c_double),
        ("presence_penalty", c_double),
        ("frequency_penalty", c_double),
        ("logit_bias", POINTER(Bias)),
        ("logit_bias_count", c_size_t),
        ("min_tokens", c_int64),
        ("max_new_tokens", c_int64),
        ("stop_tokens", POINTER(c_int64)),
        ("stop_tokens_count", c_size_t),
        ("ignore_eos", c_int32),
        ("draft", c_int32),
        ("gamma", c_int64),
        ("rule", c_int32),
        ("has_seed", c_int32),
        ("seed", c_uint64),
        ("logprobs", c_int32),
        ("stop", POINTER(c_char_p)),
        ("stop_count", c_size_t),
        ("answers", POINTER(Range)),
        ("answers_count", c_size_t),
    )


class TranscriptOptions(ctypes.Structure):
    _fields_ = (
        ("size", c_size_t),
        ("language", c_char_p),
        ("translate", c_int32),
        ("timestamps", c_int32),
        ("use_previous", c_int32),
        ("prompt", c_char_p),
        ("temperatures", POINTER(c_double)),
        ("temperatures_count", c_size_t),
        ("no_speech", c_double),
        ("min_logprob", c_double),
        ("max_compression", c_double),
        ("draft", c_int32),
        ("gamma", c_int64),
        ("seed", c_uint64),
    )


class Segment(ctypes.Structure):
    _fields_ = (
        ("size", c_size_t),
        ("start", c_double),
        ("end", c_double),
        ("text", c_void_p),
        ("text_bytes", c_size_t),
        ("tokens", POINTER(c_int64)),
        ("count", c_size_t),
        ("temperature", c_double),
        ("logprob", c_double),
        ("compression", c_double),
        ("no_speech", c_double),
        ("language", c_char_p),
        ("language_probability", c_double),
        ("seconds", c_double),
        ("calls", c_int64),
        ("drafted", c_int64),
        ("accepted", c_int64),
        ("ended", c_int32),
    )


class Turn(ctypes.Structure):
    _fields_ = (("role", c_char_p), ("content", c_char_p))


class Piece(ctypes.Structure):
    _fields_ = (
        ("size", c_size_t),
        ("tokens", POINTER(c_int64)),
        ("count", c_size_t),
        ("drafted", c_int64),
        ("evaluated", c_int64),
        ("accepted", c_int64),
        ("ending", c_int32),
        ("logprobs", POINTER(c_double)),
        ("text", c_void_p),
        ("text_bytes", c_size_t),
    )


@cache
def opened(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    library.edgespec_message.restype = c_char_p
    library.edgespec_version.restype = c_char_p
    for close in (
        library.edgespec_close,
        library.edgespec_close_session,
        library.edgespec_close_batch,
        library.edgespec_cancel,
    ):
        close.argtypes, close.restype = [ctypes.c_void_p], None
    library.edgespec_batch_cancel.argtypes = [ctypes.c_void_p, c_int64]
    library.edgespec_batch_cancel.restype = None
    return library


def int64s(tokens: Sequence[int]) -> Any:
    return (c_int64 * len(tokens))(*tokens)


def turns_of(messages: Sequence[Mapping[str, str]]) -> Any:
    """Messages of a conversation, as the interface takes them."""
    turns = (Turn(one["role"].encode(), one["content"].encode()) for one in messages)
    return (Turn * len(messages))(*turns)


def options_of(library: ctypes.CDLL, given: Mapping[str, Any]) -> Options:
    """The options with these names, as `Pair.generate` takes them."""
    options = Options()
    library.edgespec_options_defaults(byref(options))
    for name, value in given.items():
        if name == "logit_bias":
            biases = (Bias * len(value))(*(Bias(token, bias) for token, bias in value.items()))
            options.logit_bias, options.logit_bias_count = biases, len(value)
        elif name == "stop_tokens":
            options.stop_tokens, options.stop_tokens_count = int64s(value), len(value)
        elif name == "stop":
            strings = (c_char_p * len(value))(*map(str.encode, value))
            options.stop, options.stop_count = strings, len(value)
        elif name == "answers":
            ranges = (Range * max(1, len(value)))(*(Range(one.start, one.stop) for one in value))
            options.answers, options.answers_count = ranges, len(value)
        elif name == "rule":
            options.rule = RULES[value]
        elif name == "seed":
            options.has_seed, options.seed = 1, value
        else:
            setattr(options, name, value)
    return options


def prompt_of(prompt: Sequence[int] | str | Sequence[Mapping[str, str]]) -> tuple[str, list[Any]]:
    """The end of the function's name for a prompt of this kind, and its arguments."""
    if isinstance(prompt, str):
        return "_text", [prompt.encode()]
    if prompt and isinstance(prompt[0], Mapping):
        return "_chat", [turns_of(prompt), c_size_t(len(prompt))]
    return "", [int64s(prompt), c_size_t(len(prompt))]


def runtime_library() -> Path:
    """ONNX Runtime's own shared library, in its Python package."""
    (found,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    return found


class NativeModel:
    """A loaded pair."""

    def __init__(self, folder: Path, path: Path = LIBRARY, **given: Any) -> None:
        self.library = opened(path)
        options = LoadOptions()
        self.library.edgespec_load_options_defaults(byref(options))
        options.onnxruntime = str(runtime_library()).encode()
        for name, value in given.items():
            setattr(options, name, value.encode() if isinstance(value, str) else value)
        self.handle = ctypes.c_void_p()
        self.check(
            self.library.edgespec_load(str(folder).encode(), byref(options), byref(self.handle))
        )

    def check(self, status: int) -> None:
        if status:
            raise NativeError(status, self.library.edgespec_message().decode())

    def estimate(self, folder: Path, **given: Any) -> tuple[int, int]:
        """Bytes of weights and of caches of a folder, which need not be this model's."""
        options, memory = LoadOptions(), Memory(size=ctypes.sizeof(Memory))
        self.library.edgespec_load_options_defaults(byref(options))
        for name, value in given.items():
            setattr(options, name, value)
        estimate = self.library.edgespec_estimate
        self.check(estimate(str(folder).encode(), byref(options), byref(memory)))
        return memory.weights, memory.caches

    def encode(self, text: str) -> list[int]:
        count, call = c_size_t(), self.library.edgespec_encode
        self.check(call(self.handle, text.encode(), None, c_size_t(0), byref(count)))
        tokens = int64s([0] * count.value)
        self.check(call(self.handle, text.encode(), tokens, count, byref(count)))
        return list(tokens)

    def decode(self, tokens: Sequence[int]) -> str:
        size, call = c_size_t(), self.library.edgespec_decode
        given = int64s(tokens), c_size_t(len(tokens))
        self.check(call(self.handle, *given, None, c_size_t(0), byref(size)))
        text = ctypes.create_string_buffer(size.value)
        self.check(call(self.handle, *given, text, size, byref(size)))
        return text.raw.decode()

    def session(self) -> NativeSession:
        return NativeSession(self, "open_session", self.handle)

    def batch(self, texts: int) -> NativeBatch:
        return NativeBatch(self, texts)

    def load_session(self, file: Path) -> NativeSession:
        return NativeSession(self, "load_session", self.handle, str(file).encode())

    def close(self) -> None:
        self.library.edgespec_close(self.handle)
        self.handle = ctypes.c_void_p()


class NativeSession:
    """One text after the other; after each, `ending`, `rounds` and `seed` say how it came."""

    def __init__(self, model: NativeModel, function: str, *arguments: Any) -> None:
        self.model = model
        self.handle = ctypes.c_void_p()
        open_it = getattr(model.library, f"edgespec_{function}")
        model.check(open_it(*arguments, byref(self.handle)))
        self._start()

    def _start(self) -> None:
        self.shown, self.ending = "", ""
        self.rounds, self.drafted, self.accepted = 0, 0, 0
        self.logprobs: list[float] = []

    def begin(
        self, prompt: Sequence[int] | str | Sequence[Mapping[str, str]], **given: Any
    ) -> None:
        """Of token ids, a text or messages."""
        library, seed = self.model.library, c_uint64()
        suffix, arguments = prompt_of(prompt)
        begin = getattr(library, f"edgespec_begin{suffix}")
        options = options_of(library, given)
        self.model.check(begin(self.handle, *arguments, byref(options), byref(seed)))
        self._start()
        self.seed = seed.value

    def pieces(self) -> Iterator[list[int]]:
        """The tokens of each round, up to the text's end."""
        piece = Piece(size=ctypes.sizeof(Piece))
        while True:
            self.model.check(self.model.library.edgespec_next(self.handle, byref(piece)))
            self.shown += string_at(piece.text, piece.text_bytes).decode()
            if piece.ending:
                self.ending = ENDINGS[piece.ending]
                return
            self.rounds += 1
            self.drafted += piece.drafted
            self.accepted += piece.accepted
            if piece.logprobs:
                self.logprobs += piece.logprobs[: piece.count]
            yield piece.tokens[: piece.count]

    def text(
        self, prompt: Sequence[int] | str | Sequence[Mapping[str, str]], **given: Any
    ) -> list[int]:
        self.begin(prompt, **given)
        return self.rest()

    def rest(self) -> list[int]:
        """The tokens that are still to come."""
        return [token for tokens in self.pieces() for token in tokens]

    def fork(self) -> NativeSession:
        return NativeSession(self.model, "fork", self.handle)

    def save(self, file: Path) -> None:
        self.model.check(self.model.library.edgespec_save(self.handle, str(file).encode()))

    def progress(self) -> tuple[int, int]:
        """Positions of the latest prompt that were read, and had to be."""
        read, to_read = c_int64(), c_int64()
        progress = self.model.library.edgespec_prompt_progress
        self.model.check(progress(self.handle, byref(read), byref(to_read)))
        return read.value, to_read.value

    def cancel(self) -> None:
        self.model.library.edgespec_cancel(self.handle)

    def close(self) -> None:
        self.model.library.edgespec_close_session(self.handle)
        self.handle = ctypes.c_void_p()


@dataclass
class BatchText:
    """A text of a batch, as far as it was made; `error` ended it if it is given."""

    seed: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    shown: str = ""
    ending: str = ""
    rounds: int = 0
    error: NativeError | None = None


class NativeBatch:
    """Several texts at once; `made` has those that were added, by their numbers."""

    def __init__(self, model: NativeModel, texts: int) -> None:
        self.model = model
        self.handle = ctypes.c_void_p()
        self.made: dict[int, BatchText] = {}
        open_it = model.library.edgespec_open_batch
        model.check(open_it(model.handle, c_size_t(texts), byref(self.handle)))

    def add(self, prompt: Sequence[int] | str | Sequence[Mapping[str, str]], **given: Any) -> int:
        """Of token ids, a text or messages; the text's number."""
        library, number, seed = self.model.library, c_int64(), c_uint64()
        suffix, arguments = prompt_of(prompt)
        add = getattr(library, f"edgespec_batch_add{suffix}")
        options = options_of(library, given)
        self.model.check(add(self.handle, *arguments, byref(options), byref(number), byref(seed)))
        self.made[number.value] = BatchText(seed.value)
        return number.value

    def next(self) -> int | None:
        """Takes the next piece of any text; the text's number, None if none is being made."""
        number, piece = c_int64(), Piece(size=ctypes.sizeof(Piece))
        try:
            self.model.check(
                self.model.library.edgespec_batch_next(self.handle, byref(number), byref(piece))
            )
        except NativeError as error:
            if number.value < 0:
                raise
            self.made[number.value].error = error
            return number.value
        if number.value < 0:
            return None
        text = self.made[number.value]
        text.tokens += piece.tokens[: piece.count]
        text.shown += string_at(piece.text, piece.text_bytes).decode()
        if piece.logprobs:
            text.logprobs += piece.logprobs[: piece.count]
        if piece.ending:
            text.ending = ENDINGS[piece.ending]
        else:
            text.rounds += 1
        return number.value

    def finish(self) -> None:
        """Takes all pieces that are still to come."""
        while self.next() is not None:
            pass

    def cancel(self, text: int) -> None:
        self.model.library.edgespec_batch_cancel(self.handle, text)

    def progress(self, text: int) -> tuple[int, int]:
        """Positions of a text's prompt that were read, and had to be."""
        read, to_read = c_int64(), c_int64()
        progress = self.model.library.edgespec_batch_progress
        self.model.check(progress(self.handle, c_int64(text), byref(read), byref(to_read)))
        return read.value, to_read.value

    def close(self) -> None:
        self.model.library.edgespec_close_batch(self.handle)
        self.handle = ctypes.c_void_p()
