"""Writes src/text/unicode_tables.inc: what the package tokenizers knows of each character.

Its parts come from different Unicode versions (a regular expression library, Rust's own, crates for
categories and normal forms), so each table is asked of the part that uses it, character by
character: python runtimes/native/scripts/make_unicode.py
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import regex
from tokenizers import Regex, normalizers, pre_tokenizers

TABLES = Path(__file__).parents[1] / "src" / "text" / "unicode_tables.inc"
CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
CATEGORIES = (
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn"
).split()
HANGUL = range(0xAC00, 0xAC00 + 11172)  # composed by arithmetic


def matching(pattern: str) -> set[str]:
    """The characters that one of a regular expression's classes has."""
    kept = normalizers.Replace(Regex(f"[^{pattern}]+"), "")
    return set(kept.normalize_str("".join(CHARACTERS)))


def where(test: Callable[[str], object]) -> set[str]:
    return set(filter(test, CHARACTERS))


def changed_to(normalizer: normalizers.Normalizer, text: str) -> set[str]:
    """The characters that a normalizer turns into this text."""
    return where(lambda one: one != text and normalizer.normalize_str(one) == text)


def bert(**on: bool) -> normalizers.Normalizer:
    names = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
    return normalizers.BertNormalizer(**{name: on.get(name, False) for name in names})


def sets() -> Iterator[tuple[str, set[str]]]:
    """The sets of characters, by the names that unicode.h gives them."""
    word, digits = pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=False)
    yield "Space", matching(r"\s")
    yield "Word", matching(r"\w")  # of regular expressions
    yield "Han", matching(r"\p{Han}")
    # Of Rust: added tokens with single_word, and the pre-tokenizer Whitespace.
    yield "RustWord", where(lambda one: word.pre_tokenize_str("a" + one)[0][1] == (0, 2))
    yield "Numeric", where(lambda one: len(digits.pre_tokenize_str("a" + one)) == 2)
    punctuation = pre_tokenizers.Punctuation("isolated")
    yield "Punctuation", where(lambda one: len(punctuation.pre_tokenize_str("a" + one)) == 2)
    bert_words = pre_tokenizers.BertPreTokenizer()
    yield "BertPunctuation", where(lambda one: len(bert_words.pre_tokenize_str("a" + one)) == 2)
    yield "Mark", changed_to(normalizers.StripAccents(), "")
    yield "BertAccent", changed_to(bert(strip_accents=True), "")
    yield "BertRemoved", changed_to(bert(clean_text=True), "")
    yield "BertSpace", changed_to(bert(clean_text=True), " ")
    yield "Chinese", where(lambda one: len(bert(handle_chinese_chars=True).normalize_str(one)) == 3)
    yield "NmtRemoved", changed_to(normalizers.Nmt(), "")
    yield "NmtSpace", changed_to(normalizers.Nmt(), " ")
    for name in ("Control", "Extend", "Prepend", "SpacingMark"):
        yield f"Grapheme{name}", where(regex.compile(rf"\p{{GCB={name}}}").fullmatch)
    yield "Pictographic", where(regex.compile(r"\p{Extended_Pictographic}").fullmatch)


def ranges(characters: Iterable[str]) -> Iterator[int]:
    """First and last code of each run."""
    codes = sorted(map(ord, characters))
    for index, code in enumerate(codes):
        if index == 0 or codes[index - 1] != code - 1:
            yield code
        if index + 1 == len(codes) or codes[index + 1] != code + 1:
            yield code


def categories() -> Iterator[int]:
    """(first code << 5) + index of its category, wherever another one begins."""
    of = {}
    for index, name in enumerate(CATEGORIES):
        of |= dict.fromkeys(matching(rf"\p{{{name}}}"), index)
    before = None
    for code in range(0x110000):
        index = of.get(chr(code), len(CATEGORIES) - 1)
        if index != before:
            yield (code << 5) + index
        before = index


def lower_case() -> Iterator[int]:
    """Each character with its small one; U+0130, which has two, is written out in unicode.cpp."""
    for one in CHARACTERS:
        small = normalizers.Lowercase().normalize_str(one)
        if small != one and one != "\u0130":
            yield from (ord(one), ord(small))


def decompositions(
    form: normalizers.Normalizer, pool: list[int], known: dict[str, str]
) -> Iterator[int]:
    """Code, then (begin in the pool << 5) + length, of each that is not `known` already."""
    for one in CHARACTERS:
        parts = form.normalize_str(one)
        if parts != known.get(one, one) and ord(one) not in HANGUL:
            known[one] = parts
            yield from (ord(one), (len(pool) << 5) + len(parts))
            pool += map(ord, parts)


def combining_classes() -> Iterator[int]:
    """First, last and class; of the characters that the library orders as Python does."""
    nfd = normalizers.NFD()
    found = []
    for one in CHARACTERS:
        order = unicodedata.combining(one)
        if not order or unicodedata.normalize("NFD", one) != one:
            continue
        # U+0345 has the highest class, 240, and U+0334 the lowest, 1.
        last = order < 240 and nfd.normalize_str(f"a\u0345{one}") == f"a{one}\u0345"
        first = order > 1 and nfd.normalize_str(f"a{one}\u0334") == f"a\u0334{one}"
        if last or first:
            found.append((ord(one), order))
    for index, (code, order) in enumerate(found):
        if index == 0 or found[index - 1] != (code - 1, order):
            yield code
        if index + 1 == len(found) or found[index + 1] != (code + 1, order):
            yield from (code, order)


def compositions() -> Iterator[int]:
    """First, second and the one character that they become."""
    nfc = normalizers.NFC()
    for one in CHARACTERS:
        parts = unicodedata.decomposition(one).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            pair = "".join(chr(int(part, 16)) for part in parts)
            if nfc.normalize_str(pair) == one:
                yield from (*map(ord, pair), ord(one))


def array(name: str, numbers: Iterable[int]) -> str:
    """As C++, in lines of at most 100 characters."""
    lines, line = [], ""
    for number in numbers:
        text = f"{number},"
        if len(line) + len(text) > 100:
            lines.append(line)
            line = ""
        line += text
    return "\n".join((f"constexpr uint32_t k{name}[] = {{", *lines, line + "};"))


def main() -> None:
    pool: list[int] = []
    known: dict[str, str] = {}
    parts = ["// Made by scripts/make_unicode.py."]
    parts += (array(name, ranges(members)) for name, members in sets())
    parts.append(array("Categories", categories()))
    parts.append(array("LowerCase", lower_case()))
    parts.append(array("Canonical", decompositions(normalizers.NFD(), pool, known)))
    parts.append(array("Compatible", decompositions(normalizers.NFKD(), pool, known)))
    parts.append(array("DecomposedPool", pool))
    parts.append(array("CombiningClasses", combining_classes()))
    parts.append(array("Compositions", compositions()))
    TABLES.write_text("\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
