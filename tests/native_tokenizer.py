"""A tokenizer of libedgespec through ctypes, without a pair."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p, string_at
from pathlib import Path

from native_library import int64s, turns_of

__all__ = ["AROUND", "SPELLED", "TEXT", "NativeTokenizer"]

AROUND, SPELLED, TEXT = range(3)


class NativeTokenizer:
    """A tokenizer.json, read by libedgespec."""

    def __init__(self, hooks: ctypes.CDLL, path: Path) -> None:
        self.hooks = hooks
        for name in ("open_tokenizer", "encode", "decode", "grow", "chat"):
            getattr(hooks, f"edgespec_hook_{name}").restype = c_char_p
        hooks.edgespec_hook_close_tokenizer.argtypes = [c_void_p]
        self.handle = c_void_p()
        self.check(hooks.edgespec_hook_open_tokenizer(str(path).encode(), byref(self.handle)))

    def __del__(self) -> None:
        self.hooks.edgespec_hook_close_tokenizer(self.handle)

    def check(self, failure: bytes | None) -> None:
        if failure is not None:
            raise ValueError(failure.decode())

    def encode(self, text: str, special: int = AROUND) -> list[int]:
        given, tokens, count = text.encode(), POINTER(c_int64)(), c_size_t()
        call = self.hooks.edgespec_hook_encode
        self.check(
            call(self.handle, given, c_size_t(len(given)), special, byref(tokens), byref(count))
        )
        return tokens[: count.value]

    def decode(self, tokens: Sequence[int], skip_special: bool = True) -> str:
        text, size = c_void_p(), c_size_t()
        call = self.hooks.edgespec_hook_decode
        self.check(
            call(
                self.handle,
                int64s(tokens),
                c_size_t(len(tokens)),
                c_int(skip_special),
                byref(text),
                byref(size),
            )
        )
        return string_at(text, size.value).decode()

    def grow(
        self, before: Sequence[int], tokens: Sequence[int], stop: Sequence[str] = ()
    ) -> list[str]:
        """The text that becomes final with each token, and at the end."""
        text, ends = c_void_p(), (c_size_t * (len(tokens) + 1))()
        stops = b"".join(one.encode() + b"\0" for one in stop) + b"\0"
        call = self.hooks.edgespec_hook_grow
        self.check(
            call(
                self.handle,
                int64s([*before, *tokens]),
                c_size_t(len(before)),
                c_size_t(len(tokens)),
                stops,
                byref(text),
                ends,
            )
        )
        whole = string_at(text, ends[-1])
        return [whole[a:b].decode() for a, b in zip([0, *ends], ends, strict=False)]

    def chat(self, folder: Path, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The ids of messages in the chat format of an exported folder."""
        tokens, count = POINTER(c_int64)(), c_size_t()
        call, turns = self.hooks.edgespec_hook_chat, turns_of(messages)
        name = str(folder).encode()
        self.check(
            call(self.handle, name, turns, c_size_t(len(turns)), byref(tokens), byref(count))
        )
        return tokens[: count.value]
