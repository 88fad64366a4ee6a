"""Reads the FreeDict dictionary."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

from packages import read_files
from pairs import Pair


def read_freedict(archives: list[Path]) -> Iterator[Pair]:
    """Headwords of a dictd dictionary, each with its first translation, without notes."""
    (data,) = read_files(archives, r"freedict-eng-deu\.dict\.dz$").values()
    note = re.compile(r"<[^<>]*>|\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\}|/[^/]*/")
    other = re.compile(r"[^\w\s'-]|\b(sth|sb|etw|jd[mns]?)\b")
    found: dict[str, str] = {}
    for headword, translation in re.findall(
        r"^(\S.*) /.*/\n(\S.*)$", gzip.decompress(data).decode("utf-8"), re.MULTILINE
    ):
        english = note.sub("", headword).strip()
        german = re.split("[,;]", note.sub("", translation))[0].strip()
        if len(english.split()) <= 4 and not other.search(english + german):
            found.setdefault(english, german)
    yield from found.items()
