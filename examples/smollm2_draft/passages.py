"""Paragraphs of the Debian Administrator's Handbook, by language.

Hertzog, Mas: CC BY-SA 3.0 or GPL 2+; Debian's package debian-handbook, downloaded, not kept here.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-ZÀ-Ý])")
FOLDERS = {
    "English": "en-US",
    "French": "fr-FR",
    "Spanish": "es-ES",
    "German": "de-DE",
    "Italian": "it-IT",
    "Portuguese": "pt-BR",
    "Dutch": "nl-NL",
}


class _Paragraphs(HTMLParser):
    """Texts of <div class="para">, without what stands in nested ones."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._classes: list[str] = []
        self._parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "div":
            self._classes.append(dict(attrs).get("class") or "")
            self._parts = []

    def handle_endtag(self, tag: str) -> None:
        if tag != "div" or not self._classes:
            return
        if self._classes.pop() == "para":
            self.found.append(" ".join("".join(self._parts).split()))
        self._parts = []

    def handle_data(self, data: str) -> None:
        self._parts.append(data)


def read_paragraphs(handbook: Path, language: str) -> list[str]:
    """Those of 30 to 130 words, each once. `handbook` holds the HTML by language."""
    found: dict[str, None] = {}
    for file in sorted((handbook / FOLDERS[language]).glob("*.html")):
        reader = _Paragraphs()
        reader.feed(file.read_text(encoding="utf-8"))
        found |= dict.fromkeys(one for one in reader.found if 30 <= one.count(" ") <= 130)
    return list(found)


def sentences_of(paragraph: str) -> list[str]:
    """Its sentences of 6 to 30 words."""
    return [one for one in SENTENCE.split(paragraph) if 6 <= one.count(" ") <= 30]
