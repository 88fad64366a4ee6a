"""A program that reads grammars for another process, within limits, and may be ended by them.

llguidance has limits of its own, but not of its stack, nor of the time that some expressions take.
It is run by path (`grammar_reading`) and imports nothing but llguidance's library.

For each line of standard input, `{"rules": …, "special": […]}`, it writes one: the reason why the
grammar is refused, or an empty text, as JSON. Whatever goes over a limit ends it.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import random
import re
import signal
import sys
from collections.abc import Sequence
from threading import Thread, stack_size
from types import ModuleType
from typing import Any, TextIO

__all__ = ["Bytes", "refusal"]

# Tokens that a Lark grammar names, <[5-7,9]> and <|end|>: the model's vocabulary is asked for them.
IDS = re.compile(r"<\[([^\]]*)\]>")
NUMBER = re.compile(r"[0-9]{1,9}")
NAMES = re.compile(r"<[^<>\s\[][^<>\s]*>")
MOST_TOKENS = 2_000_000  # ids from here on are refused
WALKED = 32  # bytes of a text
# Of a thread: glibc's where the limit is infinite; Python's programs have more on Windows.
STACK_UNLIMITED, STACK_ELSEWHERE = 2 << 20, 1 << 20


class Bytes:
    """A vocabulary of all bytes, and of the tokens that a grammar names. How long a grammar is read
    does not depend on the vocabulary.

    The attributes are those that llguidance reads.

    Args:
        rules: of the grammar.
        special: ids of special tokens in them.
    """

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, rules: str, special: Sequence[int]) -> None:
        ids = [int(number) for part in IDS.findall(rules) for number in NUMBER.findall(part)]
        self._first = max((n for n in (*special, *ids) if n < MOST_TOKENS), default=-1) + 1
        self.tokens = [b""] * self._first + [bytes([value]) for value in range(256)]
        for token in special:
            self.tokens[token] = b"<%d>" % token
        names = [b"<end of text>", *sorted({name.encode() for name in NAMES.findall(rules)})]
        self.eos_token_id = len(self.tokens)
        self.tokens += names
        self.special_token_ids = [*special, *range(self.eos_token_id, len(self.tokens))]

    def __call__(self, text: bytes | str) -> list[int]:
        written = text.encode() if isinstance(text, str) else text
        return [self._first + value for value in written]

    def walk(self, matcher: Any) -> None:
        """Writes the beginning of a text of a grammar: some take ever longer with its length. What
        stops the matcher there is found again by the model's vocabulary."""
        choose = random.Random(0)
        for _ in range(WALKED):
            bits = matcher.compute_bitmask()
            if matcher.is_error():
                return
            ids = range(self._first, self._first + 256)
            legal = [token for token in ids if bits[token >> 3] >> (token & 7) & 1]
            if not legal or not matcher.consume_token(choose.choice(legal)):
                return


def refusal(library: ModuleType, rules: str, special: Sequence[int]) -> str:
    """Why llguidance refuses a grammar; empty if it reads it, and the beginning of a text."""
    vocabulary = Bytes(rules, special)
    tokens = library.LLTokenizer(
        vocabulary, n_vocab=len(vocabulary.tokens), eos_token=[vocabulary.eos_token_id]
    )
    limits = library.LLParserLimits(verbose_errors=False)
    grammar = library.LLMatcher.grammar_from_lark(rules)
    matcher = library.LLMatcher(tokens, grammar, log_level=0, limits=limits)
    reason: str = matcher.get_error()
    if not reason:
        vocabulary.walk(matcher)
    return reason


def _limited(seconds: float) -> None:
    """Ends this process after so much processor time from now; 0 for no end."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _answer(library: ModuleType, lines: TextIO, seconds: float) -> None:
    for line in lines:
        asked = json.loads(line)
        _limited(seconds)
        reason = refusal(library, asked["rules"], asked["special"])
        _limited(0)
        print(json.dumps(reason), flush=True)
    os._exit(0)  # without a failure, so that one is known by its code


def _loaded(path: str) -> ModuleType:
    """llguidance's library alone: its package imports ten times as long."""
    loader = importlib.machinery.ExtensionFileLoader("llguidance._lib", path)
    spec = importlib.util.spec_from_file_location("llguidance._lib", path, loader=loader)
    assert spec is not None
    library = importlib.util.module_from_spec(spec)
    loader.exec_module(library)
    return library


def _limit_memory(most: int) -> None:
    """Bytes of address space; no files of crashes are written."""
    try:
        import resource
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _stack() -> int:
    """Bytes: three quarters of a thread's, so that what is read here is read in any thread."""
    try:
        import resource
    except ImportError:
        return STACK_ELSEWHERE * 3 // 4
    soft = resource.getrlimit(resource.RLIMIT_STACK)[0]
    own = STACK_UNLIMITED if soft == resource.RLIM_INFINITY else soft
    return own * 3 // 4 >> 12 << 12


def main(path: str, seconds: str, memory: str) -> None:
    """Answers until standard input ends.

    Args:
        path: of llguidance's library.
        seconds: of processor time for one grammar.
        memory: of the process, in MiB.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent's
    library = _loaded(path)
    _limit_memory(int(memory) << 20)
    stack_size(_stack())
    answering = Thread(target=_answer, args=(library, sys.stdin, float(seconds)))
    answering.start()
    answering.join()
    sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
