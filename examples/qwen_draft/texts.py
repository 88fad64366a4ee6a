"""Texts of 60 to 250 words and paragraphs by language, from Debian packages.

debian-handbook (passages.py), gnome-user-docs (CC BY-SA 3.0), dict-foldoc (GFDL 1.2+) and the
novels of Jane Austen (in the public domain; r-cran-janeaustenr, MIT): downloaded, not kept here.
"""

from __future__ import annotations

import gzip
import html
import random
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

FEWEST_WORDS, MOST_WORDS, MOST_CHARACTERS = 60, 250, 1400
HELP_FOLDERS = {
    "English": "C",
    "French": "fr",
    "Spanish": "es",
    "German": "de",
    "Italian": "it",
    "Portuguese": "pt_BR",
    "Dutch": "nl",
}
_CHARACTERS = re.compile(rb"\x00[\x00-\x04]\x00\x09(....)", re.DOTALL)  # a string of R, serialised


def read_help(root: Path, language: str) -> list[str]:
    """The paragraphs of GNOME's manual."""
    folder = root / "usr/share/help" / HELP_FOLDERS[language] / "gnome-help"
    found: dict[str, None] = {}
    for page in sorted(folder.glob("*.page")):
        for part in re.findall(r"<p>(.*?)</p>", page.read_text(encoding="utf-8"), re.DOTALL):
            found[_plain(html.unescape(re.sub(r"<[^>]+>", "", part)))] = None
    return [one for one in found if len(one) > 40]


def read_foldoc(root: Path) -> list[str]:
    """The paragraphs of a dictionary of computing."""
    packed = (root / "usr/share/dictd/foldoc.dict.dz").read_bytes()
    parts = re.split(r"\n\s*\n", gzip.decompress(packed).decode("utf-8", "replace"))
    return _whole(_plain(re.sub(r"[{}]|<[^>]*>", "", part)) for part in parts if part[:1] == " ")


def read_novels(root: Path) -> list[str]:
    """The paragraphs of Jane Austen's novels, from R's serialised data: one stream for each."""
    left = (root / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").read_bytes()
    found: list[str] = []
    while left:
        stream = zlib.decompressobj()
        data = stream.decompress(left[4:])  # behind the size
        left = stream.unused_data
        lines = []
        for start in _CHARACTERS.finditer(data):
            end = start.end() + int.from_bytes(start[1], "big", signed=True)
            lines.append(data[start.end() : end].decode("utf-8", "replace"))
        found += _whole(map(_plain, re.split(r"\n\s*\n", "\n".join(lines))))
    return found


def _whole(paragraphs: Iterator[str]) -> list[str]:
    return [one for one in paragraphs if len(one) > 60 and one[-1] in '.!?"']


def _plain(text: str) -> str:
    return " ".join(text.split())


def texts_of(paragraphs: list[str], rng: random.Random) -> Iterator[str]:
    """Paragraphs that follow each other, until they have words enough."""
    text, enough = "", FEWEST_WORDS
    for one in paragraphs:
        text = f"{text}\n\n{one}" if text else one
        words = len(text.split())
        if words > MOST_WORDS or len(text) > MOST_CHARACTERS:
            text = ""
        elif words >= enough:
            yield text
            text, enough = "", rng.randint(FEWEST_WORDS, 215)
