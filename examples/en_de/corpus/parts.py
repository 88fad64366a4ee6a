"""The part of the corpus that comes from one source."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from catalogs import (
    read_catalogs,
    read_libreoffice_help,
    read_libreoffice_messages,
    read_po,
    read_po_manuals,
)
from cleaning import clean_pair, shorter
from dictionary import read_freedict
from manuals import read_manuals
from packages import Apt
from pairs import Pair, write_pairs
from sources import Source
from split import HeldOut

READERS: dict[str, Callable[[list[Path]], Iterator[Pair]]] = {
    "manuals": read_manuals,
    "po": read_po,
    "po_manuals": read_po_manuals,
    "libreoffice_help": read_libreoffice_help,
    "libreoffice_messages": read_libreoffice_messages,
    "catalogs": read_catalogs,
    "freedict": read_freedict,
}


def make_part(apt: Apt, source: Source, held_out: HeldOut, vocabulary: set[str], path: Path) -> str:
    """Writes the part of one source; returns a line with the numbers of its pairs.

    The lexicon is limited to words of the descriptions, which the model is trained to translate.
    """
    start, raw, kept = time.monotonic(), 0, {}
    least_words = 1 if source.output == "lexicon" else 3
    held = 0
    for long_pair in READERS[source.reader](apt.fetch(source)):
        for pair in shorter(*long_pair):
            raw += 1
            if found := clean_pair(*pair, least_words):
                if source.output == "lexicon" and not vocabulary.issuperset(
                    found[0].casefold().split()
                ):
                    continue
                if found[0] in held_out:
                    held += 1
                else:
                    kept[found] = None
    write_pairs(path, kept)
    return f"{raw} pairs read, {len(kept)} kept, {held} held out, {time.monotonic() - start:.0f} s"
