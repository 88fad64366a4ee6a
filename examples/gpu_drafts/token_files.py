"""Prompts and texts as files of NumPy arrays (.npz)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgespec.artifact.atomic_file import whole_file
from edgespec_distill.data.examples import Text

TRAINED_ON = ""  # the kind of the texts that do not judge


@dataclass(frozen=True)
class Prompts:
    """What prompts.py writes.

    Attributes:
        trained_on: prompts, token ids each.
        judges: the kinds and the prompts of the texts that judge a draft.
        before_message, after_message: the tokens around a user's message.
    """

    trained_on: list[list[int]]
    judges: list[tuple[str, list[int]]]
    before_message: list[int]
    after_message: list[int]

    def save(self, file: Path) -> None:
        rows = [
            *((TRAINED_ON, prompt) for prompt in self.trained_on),
            *self.judges,
        ]
        kinds, tokens = zip(*rows, strict=True)
        around = {"before": self.before_message, "after": self.after_message}
        with whole_file(file) as aside, aside.open("wb") as out:
            np.savez_compressed(out, kinds=kinds, **_packed(tokens), **around)

    @staticmethod
    def load(file: Path) -> Prompts:
        """Raises SystemExit: it is no such file."""
        with _opened(file, "before", "prompts.py") as stored:
            rows = list(zip(stored["kinds"].tolist(), _unpacked(stored), strict=True))
            before, after = (stored[name].tolist() for name in ("before", "after"))
        return Prompts(
            [prompt for kind, prompt in rows if kind == TRAINED_ON],
            [(kind, prompt) for kind, prompt in rows if kind != TRAINED_ON],
            before,
            after,
        )


def save_texts(file: Path, target: str, kinds: dict[str, list[Text]]) -> None:
    """Writes texts by kind; those to train on have the kind TRAINED_ON.

    Args:
        target: the digest of the target that wrote them.
    """
    rows = [(kind, text) for kind, texts in kinds.items() for text in texts]
    with whole_file(file) as aside, aside.open("wb") as out:
        np.savez(
            out,
            target=target,
            kinds=[kind for kind, _ in rows],
            prompt_lengths=[len(text.prompt) for _, text in rows],
            **_packed([[*text.prompt, *text.output] for _, text in rows]),
        )


def load_texts(file: Path, target: str) -> dict[str, list[Text]]:
    """Texts by kind, in the order of the file.

    Raises:
        SystemExit: it is no such file, or another target wrote them.
    """
    found: dict[str, list[Text]] = {}
    with _opened(file, "prompt_lengths", "write.py") as stored:
        if stored["target"] != target:
            raise SystemExit(f"{file} was written by another target; let this one write texts")
        columns = stored["kinds"].tolist(), stored["prompt_lengths"].tolist(), _unpacked(stored)
        for kind, prompt, tokens in zip(*columns, strict=True):
            found.setdefault(kind, []).append(Text(tokens[:prompt], tokens[prompt:]))
    return found


def _opened(file: Path, name: str, maker: str) -> np.lib.npyio.NpzFile:
    """A file that has an array of this name."""
    try:
        stored = np.load(file)
    except (ValueError, EOFError):
        stored = None
    if not isinstance(stored, np.lib.npyio.NpzFile) or name not in stored:
        raise SystemExit(f"{file} is not what {maker} writes; make it with {maker}")
    return stored


def _packed(lists: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
    """Lists of token ids as two arrays."""
    tokens = np.fromiter((token for tokens in lists for token in tokens), np.uint32)
    smallest = np.uint16 if tokens.max(initial=0) < 1 << 16 else np.uint32
    return {"tokens": tokens.astype(smallest), "lengths": np.array([*map(len, lists)], np.int64)}


def _unpacked(stored: np.lib.npyio.NpzFile) -> list[list[int]]:
    """The lists of `_packed`."""
    ends = stored["lengths"].cumsum().tolist()
    tokens = stored["tokens"].tolist()
    return [tokens[start:end] for start, end in zip([0, *ends], ends, strict=False)]
