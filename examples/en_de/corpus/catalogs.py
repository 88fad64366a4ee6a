"""Reads message catalogs: PO files of source packages and compiled ones of programs."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import polib
from markup import declared_entities, with_entities
from messages import plain_markup, plain_message
from packages import read_files
from pairs import Pair


def entries(catalog: Iterable[polib.POEntry | polib.MOEntry]) -> Iterator[Pair]:
    for entry in catalog:
        if isinstance(entry, polib.POEntry) and (entry.obsolete or entry.fuzzy):
            continue
        if entry.msgid_plural:
            yield entry.msgid, entry.msgstr_plural.get(0, "")
            yield entry.msgid_plural, entry.msgstr_plural.get(1, "")
        elif entry.msgstr:
            yield entry.msgid, entry.msgstr


def read_po(archives: list[Path], pattern: str = r"(/po/de/.*|[/.]de)\.po$") -> Iterator[Pair]:
    """PO files of a source package, with the entities that its .ent files declare."""
    files = read_files(archives, rf"{pattern}|\.ent$")
    known: dict[str, str] = {}
    for path, data in files.items():
        if path.endswith(".ent") and not re.search(r"/[a-z]{2}(_[A-Z]{2})?(/|\.ent$)", path):
            known |= declared_entities(data.decode("utf-8", "replace"))
    for path, data in files.items():
        if not path.endswith(".ent"):
            for pair in entries(polib.pofile(data.decode("utf-8", "replace"))):
                if "<bookmark_value>" not in pair[0]:
                    english, german = (plain_markup(with_entities(text, known)) for text in pair)
                    yield english, german


def read_po_manuals(archives: list[Path]) -> Iterator[Pair]:
    yield from read_po(archives, r"/(doc|man)/.*de\.po$")


def read_libreoffice_help(archives: list[Path]) -> Iterator[Pair]:
    yield from read_po(archives, r"source/de/helpcontent2/.*\.po$")


def read_libreoffice_messages(archives: list[Path]) -> Iterator[Pair]:
    for data in read_files(archives, r"source/de/(?!helpcontent2).*\.po$").values():
        for english, german in entries(polib.pofile(data.decode("utf-8", "replace"))):
            yield plain_message(english), plain_message(german)


def read_catalogs(archives: list[Path]) -> Iterator[Pair]:
    """Compiled catalogs (.mo) of programs."""
    for data in read_files(archives, r"/de/LC_MESSAGES/.*\.mo$").values():
        try:
            catalog = polib.mofile(data)  # pyright: ignore[reportArgumentType]  # bytes will do
        except (OSError, UnicodeDecodeError, ValueError):
            continue
        for english, german in entries(catalog):
            yield plain_message(english), plain_message(german)
