"""The prompts of compare_chat.py: built-in ones, those of a file, or summaries of documents."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import edgespec
from edgespec.pair.opening.sample_prompts import CHAT

LENGTHS = (1024, 3000)  # of documents, in tokens
WINDOWS = 3  # documents of each length


@dataclass(frozen=True)
class Prompt:
    """A prompt in the model's chat format.

    Attributes:
        index: among those of its category.
        limit: of new tokens.
    """

    category: str
    index: int
    tokens: list[int]
    limit: int


@dataclass(frozen=True)
class Request:
    """What a user asks: an entry of a file of prompts."""

    kind: str
    prompt: str
    max_new_tokens: int


def built_in(limit: int) -> list[Request]:
    """The prompts of `edgespec bench`."""
    return [Request(kind, text, limit) for kind, texts in CHAT.items() for text in texts]


def of_file(path: Path) -> list[Request]:
    """A JSON list of objects with `kind`, `prompt` and `max_new_tokens`."""
    return [Request(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def first_of_kinds(requests: Iterable[Request], count: int | None) -> Iterator[Request]:
    """The first requests of each kind; all of them where no count is given."""
    seen: Counter[str] = Counter()
    for request in requests:
        seen[request.kind] += 1
        if count is None or seen[request.kind] <= count:
            yield request


def summaries(pair: edgespec.Pair, documents: Sequence[Path], limit: int) -> list[Request]:
    """Requests for summaries of successive parts of some texts, of each length in `LENGTHS`.

    Raises:
        ValueError: the texts are too short.
    """
    tokens = pair.encode(
        "\n".join(path.read_text(encoding="utf-8") for path in documents), chat=False
    )
    if len(tokens) < max(LENGTHS) * WINDOWS:
        raise ValueError(f"{max(LENGTHS) * WINDOWS} tokens are needed, there are {len(tokens)}")
    parts = [
        (length, tokens[length * window : length * (window + 1)])
        for length in LENGTHS
        for window in range(WINDOWS)
    ]
    return [
        Request(f"{length} tokens", f"Summarise this text:\n{pair.tokenizer.decode(part)}", limit)
        for length, part in parts
    ]


def encoded(pair: edgespec.Pair, requests: Sequence[Request]) -> list[Prompt]:
    """The requests, numbered in each category; in the model's chat format, if it has one."""
    counts: dict[str, int] = {}
    prompts = []
    for request in requests:
        index = counts.setdefault(request.kind, 0)
        tokens = pair.encode(request.prompt, chat=pair.manifest.chats)
        prompts.append(Prompt(request.kind, index, tokens, request.max_new_tokens))
        counts[request.kind] += 1
    return prompts


def first_of_each(prompts: Sequence[Prompt], count: int, limit: int) -> list[Prompt]:
    """The first prompts of each category, with at most `limit` new tokens."""
    first = (prompt for prompt in prompts if prompt.index < count)
    return [replace(prompt, limit=min(limit, prompt.limit)) for prompt in first]


def digest(prompts: Sequence[Prompt]) -> str:
    """Tells whether two runs have the same prompts and limits."""
    return hashlib.sha256(repr(prompts).encode()).hexdigest()[:12]
