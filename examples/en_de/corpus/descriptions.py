"""Package descriptions and their translations, from the lists that apt fetched."""

import re
from pathlib import Path

from cleaning import normal
from packages import Apt
from pairs import Pair


def translations(path: Path, language: str) -> dict[str, list[str]]:
    """Description-md5 -> short description and paragraphs."""
    found = {}
    field = re.compile(rf"^Description-{language}: ?(.*(?:\n .*)*)", re.MULTILINE)
    for stanza in path.read_text(encoding="utf-8").split("\n\n"):
        md5, text = (
            re.search(r"^Description-md5: (\w+)", stanza, re.MULTILINE),
            field.search(stanza),
        )
        if md5 and text:
            short, _, rest = text[1].partition("\n")
            paragraphs = re.split(r"^[^\S\n]+\.[^\S\n]*$", rest, flags=re.MULTILINE)
            found[md5[1]] = [short, *(p for p in paragraphs if p.strip())]
    return found


def read_descriptions(apt: Apt) -> list[Pair]:
    """All pairs of descriptions, held-out ones too: short descriptions first, then paragraphs."""
    english, german = (
        translations(apt.lists(f"Translation-{code}")[0], code) for code in ("en", "de")
    )
    short, long = {}, {}
    for md5, translated in german.items():
        original = english.get(md5)
        if not original:
            continue
        short[normal(original[0]), normal(translated[0])] = None
        if len(original) == len(translated):
            for pair in zip(original[1:], translated[1:], strict=True):
                long[normal(pair[0]), normal(pair[1])] = None
    return [pair for pair in {**short, **long} if is_description(*pair)]


def is_description(english: str, german: str) -> bool:
    """The limits of an earlier corpus; with them this recipe gives exactly its lines."""
    if (
        english == german
        or len(english) > 900
        or len(german) > 1000
        or not re.search("[a-z]", english)
    ):
        return False
    return len(english) <= 20 or 0.4 <= len(german) / len(english) <= 3
