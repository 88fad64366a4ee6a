"""Selection of pairs that are a sentence and its translation, and their normalisation."""

import re
import unicodedata
from collections.abc import Iterator

from pairs import Pair


def normal(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


def is_prose(text: str, least_words: int) -> bool:
    """Whether a text is words rather than code: enough of them, and most of its characters."""
    words = re.findall(r"[^\W\d_]{2,}", text)
    plain = re.findall(r"(?<![^\s(\"'»„“-])[^\W\d_]{2,}(?=[\s.,;:!?)\"'«“”-]|$)", text)
    return len(words) >= least_words and sum(map(len, plain)) >= 0.55 * len(text.replace(" ", ""))


ENGLISH = frozenset("the of and to is a for with that be this are on or it by from as at".split())
GERMAN = frozenset(
    "der die das und zu den ist für mit ein eine nicht im von auf wird dem des sie".split()
)


def is_english_german(english: str, german: str) -> bool:
    """Whether each side has at least as many function words of its language as of the other."""
    for text, own, other in ((english, ENGLISH, GERMAN), (german, GERMAN, ENGLISH)):
        words = re.findall(r"\w+", text.casefold())
        found = sum(word in own for word in words)
        if found < sum(word in other - own for word in words) or (len(words) > 12 and not found):
            return False
    return True


def clean_pair(english: str, german: str, least_words: int) -> Pair | None:
    """The pair normalised, or None if it is not a sentence and its translation."""
    english, german = normal(english), normal(german)
    if not 1 <= len(english) <= 600 or not 1 <= len(german) <= 600:
        return None
    if not 0.4 <= len(german) / len(english) <= 2.5:
        return None
    if english == german or re.search(
        r"\s[.,;)](\s|$)|&[\w.-]+;|[\w”](Section|Figure|Chapter) \d", english + "\n" + german
    ):
        return None  # the second: a cross reference or entity is missing
    if not is_prose(english, least_words) or not is_prose(german, min(least_words, 1)):
        return None
    if least_words > 1 and not is_english_german(english, german):
        return None
    words = english.split()
    same = len(set(words) & set(german.split())) / len(set(words))
    if len(words) > 4 and same > 0.6:  # left in English, or mostly names
        return None
    if re.search(r"<[a-z/][^<>]*>|<!|\\[a-zA-Z(*]|[\ue000-\uf8ff�]", english + german):
        return None
    return english, german


def shorter(english: str, german: str) -> Iterator[Pair]:
    """A long paragraph as its sentences, if both sides have the same number of them."""
    if max(len(english), len(german)) > 600:
        cut = re.compile(r"(?<=[.!?])\s+(?=[A-ZÄÖÜ»\"])")
        sides = cut.split(english), cut.split(german)
        if len(sides[0]) == len(sides[1]):
            yield from zip(*sides, strict=True)
    else:
        yield english, german
