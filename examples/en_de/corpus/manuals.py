"""Reads manuals that exist only in rendered form: a page and its original, aligned."""

import re
from collections.abc import Iterator
from pathlib import Path

from alignment import align
from groff import groff_blocks
from markup import declared_entities, markup_blocks
from packages import read_files
from pairs import Pair


def english_paths(german: str) -> Iterator[str]:
    """Where the English original of a German page may be."""
    for old, new in (
        ("/man/de/", "/man/"),
        ("/de-DE/", "/en-US/"),
        ("/help/de/", "/help/C/"),
        ("/HTML/de/", "/HTML/en/"),
        ("-reference-de/de/", "-reference/"),
        ("developers-reference/de/", "developers-reference/"),
        ("/de/", "/en/"),
        ("/de/", "/C/"),
        ("-de/", "-en/"),
        ("-de/", "/"),
        ("-de/", "-C/"),
    ):
        if old in german:
            path = german.replace(old, new)
            yield from (
                path,
                path.replace(".de.html", ".en.html"),
                path.replace(".de.html", ".html"),
            )
    yield from (german.replace(".de.html", ".en.html"), german.replace(".de.html", ".html"))


def read_manuals(archives: list[Path]) -> Iterator[Pair]:
    """Man pages, HTML, DocBook and Mallard pages: the blocks of both languages, aligned."""
    files = read_files(archives, r"/man/(de/)?man\d/|\.(html|page|docbook|xml|entities)$")
    entities: dict[str, str] = {}
    for path, data in files.items():
        if path.endswith(".entities") and not re.search(
            r"/HTML/(?!en/|de/)|customization/(?!entities|en/|de/)", path
        ):
            entities |= declared_entities(data.decode("utf-8", "replace"))
    for path, data in files.items():
        if not re.search(r"/(man|help|HTML|FAQ)/de/|/de-DE/|[/.]de[/.]|-de/", path):
            continue
        original = next((p for p in english_paths(path) if p != path and p in files), None)
        if original is None:
            continue
        if "/man/" in path:
            yield from align(groff_blocks(files[original]), groff_blocks(data))
        else:
            yield from align(
                markup_blocks(files[original], entities), markup_blocks(data, entities)
            )
