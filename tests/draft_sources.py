"""Small files like those of the packages that drafts' prompts are made of."""

from __future__ import annotations

import gzip
import zipfile
import zlib
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
SOURCES = {
    "C": "/* Adds two numbers that are given. Slowly. */\nstatic int add(int one, char *other)\n{"
    "\n\treturn one\n\t\t+ 1;\n}\n",
    "C++": "// Adds two numbers that are given.\nint Sum::add(int one, const List &other) const\n"
    "{\n//! [0]\n    return one;\n//! [0]\n}\n",
    "Go": "// add adds two numbers that are given.\nfunc (s *Sum) add(one, other int) int {\n"
    "\treturn one\n}\n",
    "Java": "class Sum {\n    /**\n     * Adds {@code two} numbers that are given.\n     */\n"
    "    @Override\n    public int add(int one, Map<A, B> other) {\n        return one;\n    }\n"
    "}\n",
    "JavaScript": "/**\n * Adds two numbers that are given.\n *\n * @since 1.0\n */\n"
    "function add(one, other = 2) {\n  if (one) {\n    return one;\n  }\n}\n"
    "each(all, function (one) {\n  more();\n});\nlet a = {\n  b,\n}\n",
    "Rust": "impl Sum {\n    /// Adds two numbers that are given.\n    #[inline]\n"
    "    pub fn add(one: i32, other: &mut [u8]) -> i32 {\n        one\n    }\n}\n",
}
PLACES = {
    "C": "usr/src/uwsgi/core/a.c",
    "C++": "usr/lib/x86_64-linux-gnu/qt5/examples/a/b.cpp",
    "Go": "usr/share/go-1.19/src/a/a.go",
    "JavaScript": "usr/share/nodejs/a/a.js",
    "Rust": "usr/src/rustc-1.63.0/library/core/src/a.rs",
}
JAVA = "usr/lib/jvm/openjdk-17/lib/src.zip"
PYTHON = '''def add(one: int, other: dict[str, int] = {}) -> int:
    """Adds two numbers that are given.

    Slowly.
    """
    return one + 1
'''
LONG = "A paragraph of nine words and a full stop. " * 8


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


def write_packages(root: Path, folders: Mapping[str, str], help_folders: Mapping[str, str]) -> None:
    """The folder of unpacked packages: of each what is read, but little."""
    for place in ("wordnet", "doc/debian-handbook/html", "dictd"):
        (root / "usr/share" / place).mkdir(parents=True)
    write_wordnet(root / "usr/share/wordnet")
    write_handbook(root / "usr/share/doc/debian-handbook/html", folders)
    for language, name in help_folders.items():
        page = root / "usr/share/help" / name / "gnome-help/a.page"
        page.parent.mkdir(parents=True)
        text = f"<page><p>In {language} <b>&lt;one&gt;</b>. {LONG}</p><p>Short.</p></page>"
        page.write_text(text, encoding="utf-8")
    foldoc = f"headword\n\n   <subject> A {{link}}.\n   {LONG}\n\nnext\n\n   (1999)\n"
    (root / "usr/share/dictd/foldoc.dict.dz").write_bytes(gzip.compress(foldoc.encode()))
    novel = ["EMMA", "", "Chapter 1", "", "She said:", f'"{LONG.rstrip()}"', ""]
    strings = (b"\0\4\0\x09" + len(line).to_bytes(4, "big") + line.encode() for line in novel)
    stream = b"size" + zlib.compress(b"".join(strings))
    data = root / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"
    data.parent.mkdir(parents=True)
    data.write_bytes(stream * 2)
    for language, place in PLACES.items():
        (root / place).parent.mkdir(parents=True)
        (root / place).write_text(SOURCES[language], encoding="utf-8")
    (root / JAVA).parent.mkdir(parents=True)
    with zipfile.ZipFile(root / JAVA, "w") as sources:
        sources.writestr("java.base/java/Sum.java", SOURCES["Java"])
        sources.writestr("java.desktop/Other.java", SOURCES["Java"].replace("add", "other"))
