"""Pairs of an English text and its translation, and the TSV files that hold them."""

import os
from collections.abc import Iterable
from pathlib import Path

Pair = tuple[str, str]


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    aside = path.with_suffix(f".{os.getpid()}.part")  # two runs may share OUT_DIR
    with aside.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{english}\t{german}\n" for english, german in pairs)
    aside.replace(path)


def read_pairs(path: Path) -> list[Pair]:
    lines = path.read_text(encoding="utf-8").split("\n")
    return [
        (english, german)
        for english, _, german in (line.partition("\t") for line in lines)
        if german
    ]
