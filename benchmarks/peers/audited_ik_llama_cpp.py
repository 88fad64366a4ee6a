"""ik_llama.cpp behind completions with n-gram lookup, to audit: `python … MODEL.gguf PORT`.

In an environment of its own, with the package ik-llama-cpp-python, which has the library and no
server. Drafts come from lookup of two tokens in the text so far, and are verified as the library's
own server does it: a call of the pending token and the draft, greedy. `"lookup": 0` in a request
leaves them out. One text at a time.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
from ik_llama_cpp import _ctypes_api as c
from ik_llama_cpp._internals import make_batch_range
from ik_llama_cpp.llama import IkLlama

CONTEXT, MATCH, LOOKUP = 2048, 2, 8


class Texts:
    """Greedy texts of one model.

    Attributes:
        drafted, accepted: tokens so far.
    """

    def __init__(self, model: str) -> None:
        self._llama = IkLlama(model, n_ctx=CONTEXT, n_threads=1)
        self._vocabulary = self._llama._model.n_vocab
        self._remove = c._lib.llama_kv_cache_seq_rm
        self._remove.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32]
        self._remove.restype = ctypes.c_bool
        self.drafted = self.accepted = 0

    def pieces(self, prompt: str, most: int, lookup: int) -> Iterator[str]:
        """The tokens of a text, each as text."""
        tokens = self._llama.tokenize(prompt)
        self._llama._context.kv_cache_clear()
        (pending,) = self._chosen(tokens, 0, 1)
        made = 0
        while made < most and not c.llama_token_is_eog(self._llama._model.model, pending):
            yield self._llama.detokenize([pending])
            made += 1
            tokens.append(pending)
            draft = self._draft(tokens, min(lookup, most - made))
            chosen = self._chosen([pending, *draft], len(tokens) - 1, len(draft) + 1)
            right = 0
            while right < len(draft) and draft[right] == chosen[right]:
                right += 1
            self.drafted += len(draft)
            self.accepted += right
            for token in draft[:right]:
                if c.llama_token_is_eog(self._llama._model.model, token):
                    return
                yield self._llama.detokenize([token])
            made += right
            tokens += draft[:right]
            self._remove(self._llama.ctx, 0, len(tokens), -1)
            pending = chosen[right]

    def _draft(self, tokens: Sequence[int], most: int) -> list[int]:
        """What came after the latest earlier occurrence of the last tokens."""
        last = tokens[-MATCH:]
        for start in range(len(tokens) - MATCH - 1, -1, -1):
            if tokens[start : start + MATCH] == last:
                return list(tokens[start + MATCH : start + MATCH + most])
        return []

    def _chosen(self, tokens: Sequence[int], position: int, rows: int) -> list[int]:
        """The likeliest token after each of the last `rows` tokens of a call."""
        batch = make_batch_range(list(tokens), pos_start=position)
        for row in range(len(tokens) - rows, len(tokens)):
            batch.logits[row] = 1
        if self._llama._context.decode(batch):
            raise RuntimeError("the call failed")
        c.llama_batch_free(batch)
        logits = (
            np.ctypeslib.as_array(self._llama._context.get_logits(row), (self._vocabulary,))
            for row in range(len(tokens) - rows, len(tokens))
        )
        return [int(row.argmax()) for row in logits]


class Handler(BaseHTTPRequestHandler):
    """Streamed completions."""

    texts: Texts

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        lookup = int(body.get("lookup", LOOKUP))
        for piece in self.texts.pieces(body["prompt"], body["max_tokens"], lookup):
            event = {"choices": [{"index": 0, "text": piece}]}
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")
        print(f"drafted {self.texts.drafted}, accepted {self.texts.accepted} so far", flush=True)

    def log_message(self, *_: object) -> None:
        """Nothing."""


if __name__ == "__main__":
    Handler.texts = Texts(sys.argv[1])
    HTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
