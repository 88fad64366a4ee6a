"""The split into training and held-out pairs, and the texts that repeat held-out ones."""

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256


def bucket(english: str) -> int:
    return int.from_bytes(sha256(english.encode()).digest(), "big") % 100


class HeldOut:
    """The descriptions that are not trained on, and a check whether a text repeats one."""

    RUN = 10

    def __init__(self, english: Iterable[str]):
        self.lines: set[str] = set()
        self.runs: set[tuple[str, ...]] = set()
        for text in english:
            words = self.words(text)
            self.lines.add(" ".join(words))
            self.runs.update(self.of_run(words))

    def words(self, text: str) -> list[str]:
        return re.findall(r"\w+", text.casefold())

    def of_run(self, words: list[str]) -> Iterator[tuple[str, ...]]:
        return zip(*(words[i:] for i in range(self.RUN)), strict=False)

    def __contains__(self, english: str) -> bool:
        words = self.words(english)
        return (
            bucket(english) < 3
            or " ".join(words) in self.lines
            or not self.runs.isdisjoint(self.of_run(words))
        )
