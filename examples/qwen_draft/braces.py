"""The functions of source files in languages with braces.

No parser: a function starts at a line that looks like the head of one and ends at the first line
that closes the brace with the same indentation. What does not fit this is not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from functions import MOST_COLUMNS, MOST_LINES, Function

HEADS = {
    "C": r"(?:static |inline |const |unsigned |struct )*\w[\w ]*[ *]+NAME\(ARGUMENTS\) *\{?",
    "C++": r"(?:\w[\w:<>,&* ]*[ &*])?NAME\(ARGUMENTS\)(?: const| override| noexcept)* *\{?",
    "Go": r"func (?:\([^)]*\) )?NAME\(ARGUMENTS\).*\{",
    "Java": r" {4}(?:(?:public|private|protected|static) )+[\w<>\[\], ?]+ NAME\(ARGUMENTS\).*\{",
    "JavaScript": r" *(?:export |default |async |function )*NAME(?:: function)? ?\(ARGUMENTS\) \{",
    "Rust": r" *(?:pub(?:\(\w+\))? )?(?:const |async |unsafe )*fn NAME(?:<.*?>)?\(ARGUMENTS\).*\{",
}
NO_NAMES = r"(?!(?:if|for|while|switch|catch|function|with|return)\b)"
COMMENT = re.compile(r"^(?:///?!?|/?\*+/?) ?|\*/$")
ANNOTATION = ("@", "#[")
MARKS = re.compile(r"^ *//! \[.*\n", re.MULTILINE)  # of parts that Qt's manual quotes
TABS = {"C": 8}
MARKUP = re.compile(r"\{@\w+ ([^}]*)\}|</?\w+>")


def _pattern(head: str) -> re.Pattern[str]:
    name = rf"{NO_NAMES}(?P<name>\w[\w:~]*)"
    return re.compile(head.replace("NAME", name).replace("ARGUMENTS", r"(?P<arguments>[^()]*)"))


PATTERNS = {language: _pattern(head) for language, head in HEADS.items()}


def functions_in(text: str, language: str) -> Iterator[Function]:
    """Those of at most MOST_LINES lines; none of those inside of another one."""
    text = MARKS.sub("", text).expandtabs(TABS.get(language, 4))
    lines = text.split("\n")
    free = 0
    for number, line in enumerate(lines):
        if number < free or len(line) > MOST_COLUMNS or "(" not in line:
            continue
        head = PATTERNS[language].fullmatch(line)
        if head and (end := _end(lines, number)):
            free = end + 1
            indentation = len(line) - len(line.lstrip())
            source = "\n".join(one[indentation:].rstrip() for one in lines[number:free])
            summary = _summary(lines, number)
            yield Function(language, head["name"], head["arguments"].strip(), summary, source)


def _end(lines: list[str], start: int) -> int:
    """The line that closes a function; 0 if it is none, or a long one."""
    indentation = " " * (len(lines[start]) - len(lines[start].lstrip()))
    first = start + 1 if lines[start].endswith("{") else start + 2
    if first == start + 2 and lines[start + 1 : first] != [indentation + "{"]:
        return 0
    for number in range(first, min(start + MOST_LINES, len(lines))):
        if lines[number].rstrip(",; ") == indentation + "}":
            return number
        if lines[number] and not lines[number].startswith(indentation):
            return 0
    return 0


def _summary(lines: list[str], start: int) -> str:
    """The first sentence of the comment that stands directly above."""
    above: list[str] = []
    for line in map(str.strip, reversed(lines[:start])):
        if not line.startswith(("//", "*", "/*", *ANNOTATION)):
            break
        if not line.startswith(ANNOTATION):
            above.insert(0, COMMENT.sub("", line))
    words = " ".join(MARKUP.sub(r"\1", " ".join(above)).split())
    return re.split(r"(?<=[.!?]) (?=[A-Z])| @\w+ ", words)[0]
