"""Files of batches, as tests write and read them."""

from __future__ import annotations

import json
from pathlib import Path


def written(path: Path, *lines: object) -> Path:
    """A file with these lines; bytes are written as they are."""
    path.write_bytes(
        b"".join(
            (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n"
            for line in lines
        )
    )
    return path


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def choices_of(path: Path) -> dict[str, list[str]]:
    """The texts of each answer, by the line's name."""
    answers = lines_of(path)
    texts = {
        answer["custom_id"]: [choice["text"] for choice in answer["response"]["body"]["choices"]]
        for answer in answers
    }
    assert len(texts) == len(answers), "a line was answered twice"
    return texts


def texts_of(path: Path) -> dict[str, str]:
    """The text of each answer, where each has one, by the line's name."""
    return {name: text for name, (text,) in choices_of(path).items()}


def messages_of(path: Path) -> dict[str, str]:
    """The message of each error, by the line's name."""
    return {
        answer["custom_id"]: answer["response"]["body"]["error"]["message"]
        for answer in lines_of(path)
    }
