"""Small files like those of the packages that drafts' prompts are made of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# One entry of each file, as wndb(5WN) and cntlist(5WN) have them.
WORDNET = {
    "data.noun": (
        "  1 This is a licence line.\n"
        '02084071 05 n 02 dog 0 domestic_dog 0 001 @ 02083346 n 0000 | a kept wolf; "the dog'
        ' barked all night long"  \n'
        "09620078 18 n 01 Curie 0 001 @i 10020890 n 0000 | French chemist (born in Poland) who"
        " won two Nobel prizes; one with her husband  \n"
    ),
    "data.verb": "00001740 29 v 01 bark 0 000 | make a sound  \n",
    "data.adj": "00001740 00 a 01 able 0 000 | having means  \n",
    "data.adv": "00001740 02 r 01 badly 0 000 | ill  \n",
    "cntlist.rev": "dog%1:05:00:: 1 42\nable%3:00:00:: 1 1\n",
}


def write_wordnet(folder: Path) -> None:
    for name, text in WORDNET.items():
        (folder / name).write_text(text, encoding="utf-8")


def write_handbook(folder: Path, folders: Mapping[str, str]) -> None:
    """A page in every language: two paragraphs that count, one too short, one not translated."""
    long = " ".join(["word"] * 30)
    for language, name in folders.items():
        (folder / name).mkdir()
        page = (
            f'<div class="para">Not in any language but English: {long}.</div>'
            f'<div class="section"><div class="para">{language} has <b>one</b>\n{long}.</div></div>'
            f'<div class="para">{language} in braces {{a|b}} {long}.</div>'
            '<div class="para">Too short.</div>'
        )
        (folder / name / "page.html").write_text(page, encoding="utf-8")
