"""Texts of 900 to 2,800 characters in paragraphs, of several genres, from Debian packages.

Novels (r-cran-janeaustenr), essays (anarchism), stories with their translations (wesnoth-1.16-*),
places (endless-sky-data), rules (debian-policy, doc-debian), histories (debian-history,
freeciv-data), manuals (debian-handbook, gnome-user-docs): downloaded, not kept here. The licences
are in the script `all`.
"""

from __future__ import annotations

import gettext
import gzip
import html
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

SHORTEST, LONGEST = 900, 2800  # characters
CATALOGUES = {
    "French": "fr",
    "Spanish": "es",
    "German": "de",
    "Italian": "it",
    "Portuguese": "pt",
    "Dutch": "nl",
}
GAMES = "usr/share/games"
RULES = (
    "usr/share/doc/debian-policy/policy.txt.gz",
    "usr/share/doc/debian-policy/menu-policy.txt.gz",
    "usr/share/developers-reference/developers-reference.txt.gz",
    "usr/share/doc/debian-history/constitution.txt.gz",
    "usr/share/doc/debian-history/social-contract.txt.gz",
)


def read_pages(folder: Path, names: str) -> list[str]:
    """The paragraphs of HTML pages."""
    found = []
    for page in sorted(folder.glob(names)):
        text = page.read_text(encoding="utf-8", errors="replace")
        found += re.findall(r"<p\b[^>]*>(.*?)(?:</p>|(?=<p\b))", text, re.DOTALL)
    return _whole(html.unescape(re.sub(r"<[^>]+>", "", part)) for part in found)


def read_rules(root: Path) -> list[str]:
    """The paragraphs of plain texts, without headings."""
    found = []
    for name in RULES:
        found += re.split(r"\n\s*\n", gzip.decompress((root / name).read_bytes()).decode("utf-8"))
    return _whole(found)


def read_places(root: Path) -> list[str]:
    """Descriptions of planets and harbours of a game, and what is said there."""
    found = []
    for file in sorted((root / GAMES / "endless-sky/data").glob("*.txt")):
        found += re.findall(r"`\s*([^`<]{80,})`", file.read_text(encoding="utf-8"))
    return _whole(found)


def read_histories(root: Path) -> list[str]:
    """What a game tells of inventions, buildings and governments."""
    found: list[str] = []
    for file in sorted((root / GAMES / "freeciv").glob("civ2civ3/*.ruleset")):
        parts = re.findall(r'_\("((?:[^"\\]|\\.)*)"\)', file.read_text(encoding="utf-8"), re.DOTALL)
        found += (
            part.replace("\\\n", "").replace("\\n", "\n").replace('\\"', '"') for part in parts
        )
    return _whole(part for one in found for part in one.split("\n\n"))


def read_stories(root: Path) -> list[str]:
    """What campaigns of a game tell and what is said in them, in their order."""
    found = []
    for file in sorted((root / GAMES / "wesnoth/1.16/data").glob("campaigns/*/**/*.cfg")):
        text = file.read_text(encoding="utf-8", errors="replace")
        found += re.findall(r'(?:story|message|description)\s*=\s*_\s*"([^"]{61,})"', text)
    return _whole(filter(_is_prose, found))


def read_translations(root: Path) -> list[tuple[str, str, str]]:
    """Paragraphs of these campaigns: a language, the English text and the translation."""
    found = []
    for language, code in CATALOGUES.items():
        folder = root / GAMES / "wesnoth/1.16/locale" / code / "LC_MESSAGES"
        for file in sorted(folder.glob("*.mo")):
            with file.open("rb") as stream:
                catalogue = gettext.GNUTranslations(stream)._catalog
            for text, translated in catalogue.items():
                if isinstance(text, str) and _is_prose(text) and _is_prose(translated):
                    found.append((language, _plain(text.split("\4")[-1]), _plain(translated)))
    return found


def _is_prose(text: str) -> bool:
    return len(text) > 60 and not re.search(r"[<>|{}$=*~^]", text)


def _whole(paragraphs: Iterable[str]) -> list[str]:
    """Each once: those that end like a sentence, and nothing that a pattern would read."""
    plain = dict.fromkeys(map(_plain, paragraphs))
    return [
        one for one in plain if len(one) > 60 and one[-1] in '.!?"”' and not set("{|}\0") & set(one)
    ]


def _plain(text: str) -> str:
    return " ".join(text.split())


def long_texts(paragraphs: list[str], rng: random.Random) -> Iterator[str]:
    """Paragraphs that follow each other, of SHORTEST to LONGEST characters."""
    text, enough = "", rng.randint(SHORTEST, LONGEST - 400)
    for one in paragraphs:
        text = f"{text}\n\n{one}" if text else one
        if len(text) > LONGEST:
            text = ""
        elif len(text) >= enough:
            yield text
            text, enough = "", rng.randint(SHORTEST, LONGEST - 400)
