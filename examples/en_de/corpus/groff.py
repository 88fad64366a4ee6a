"""Man pages: their blocks, and text without the escapes of groff."""

import re

from alignment import Block

GROFF_CHARACTERS = {
    "aq": "'", "bu": "•", "em": "—", "en": "–", "lq": '"', "rq": '"', "oq": "'", "cq": "'",
    "dq": '"', "Aq": "'", "co": "©", "ha": "^", "ti": "~", "rs": "\\", "hy": "-", "mi": "-",
    "Fo": "«", "Fc": "»", "fo": "<", "fc": ">", "bq": "„", "Bq": "„", "ga": "`", "->": "→",
    "<-": "←", "mu": "×", "ss": "ß", ":a": "ä", ":o": "ö", ":u": "ü",
}  # fmt: skip
GROFF_STRINGS = {
    "lq": '"',
    "rq": '"',
    "Aq": "'",
    "(C`": '"',
    "(C'": '"',
    "C`": '"',
    "C'": '"',
    "--": "--",
    "R": "®",
}


def plain_groff(text: str) -> str:
    """Text without groff's escapes; an unknown escape stays in it, so its pair is dropped."""
    text = re.sub(r'\\".*', "", text)
    text = re.sub(r"\\f(\[\w*\]|\(..|.)", "", text)
    text = re.sub(r"\\s[-+]?\d", "", text)
    text = re.sub(
        r"\\\*(?:\((..)|\[([^\]]+)\]|(.))",
        lambda m: GROFF_STRINGS.get(m[1] or m[2] or m[3], m[0]),
        text,
    )
    text = re.sub(
        r"\\(?:\((..)|\[([^\]]+)\])", lambda m: GROFF_CHARACTERS.get(m[1] or m[2], m[0]), text
    )
    text = re.sub(r"\\[&/,|^:%c)]", "", text)
    text = re.sub(r"\\[~0 ]", " ", text)
    return (
        text.replace("\\-", "-")
        .replace("\\'", "'")
        .replace("\\`", "`")
        .replace("\\.", ".")
        .replace("\\e", "\\")
    )


def groff_arguments(text: str) -> list[str]:
    return [
        (a or b).replace('""', '"') for a, b in re.findall(r'"((?:[^"]|"")*)"?|((?:\\ |\S)+)', text)
    ]


# Requests that begin what is no text, and the lines that end it.
SKIPPED = {"nf": ".fi", "EX": ".EE", "TS": ".TE", "EQ": ".EN", "ig": "..", "de": "..", "de1": ".."}
BREAKS = ("PP", "P", "LP", "HP", "RS", "RE", "sp", "TH", "Sp", "Vb", "Ve")
FONTS = ("B", "I", "SM", "SB", "R")
ALTERNATING_FONTS = ("BR", "RB", "IR", "RI", "BI", "IB")


class _Page:
    """The blocks of a page, and the words of the one that is read."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.kind = "p"
        self.words: list[str] = []
        self.until = ""  # what ends the lines that are no text
        self.tag_next = False  # the next words are a tag, which ends with its line

    def end(self, following: str = "p") -> None:
        if found := " ".join(plain_groff(" ".join(self.words)).split()):
            self.blocks.append((self.kind, found))
        self.words.clear()
        self.kind = following

    def skips(self, line: str, request: str) -> bool:
        """Whether a line is in what is no text."""
        if not self.until:
            return False
        if line.startswith(self.until) or (self.until == ".fi" and request in ("EE", "SH")):
            self.until = ""
        return True

    def begin(self, request: str, rest: str) -> bool:
        """Reads a request that ends a block; whether it is one and its line may end a tag."""
        if request in SKIPPED:
            self.end()
            self.until = SKIPPED[request]
        elif request in ("SH", "SS"):
            self.end("h")
            self.words.append(" ".join(groff_arguments(rest)))
            if self.words[0]:
                self.end()
        elif request == "IP":
            self.end("tag")
            self.words.extend(groff_arguments(rest)[:1])
            self.end()
        elif request in BREAKS:
            self.end()
            self.until = ".Ve" if request == "Vb" else ""
        else:
            return False
        return True

    def add(self, line: str, request: str, rest: str) -> bool:
        """Reads words; whether the line has some, or is empty."""
        if request in FONTS:
            self.words.append(" ".join(groff_arguments(rest)))
        elif request in ALTERNATING_FONTS:
            self.words.append("".join(groff_arguments(rest)))
        elif request in ("UE", "ME"):
            self.words[-1:] = [self.words[-1] + rest] if self.words else []
        elif request or line[:1] in (".", "'"):
            return False
        elif line.strip():
            self.words.append(line)
        else:
            self.end()
        return True

    def end_of_line(self) -> None:
        """A tag and a heading end with their line."""
        if self.tag_next and self.words:
            self.tag_next = False
            self.end()
        elif self.kind == "h" and self.words:
            self.end()


def groff_blocks(data: bytes) -> list[Block]:
    """Headings, tags and paragraphs of a page written with the man macros; none for mdoc pages."""
    text = data.decode("utf-8", "replace")
    if re.search(r"^\.(so|Dd|Sh) ", text, re.MULTILINE):
        return []
    page = _Page()
    for line in re.sub(r"\\\n", "", text).splitlines():
        request, _, rest = (
            line[1:].strip().partition(" ") if line[:1] in (".", "'") else ("", "", line)
        )
        if page.skips(line, request):
            continue
        if request in ("TP", "TQ"):
            page.end("tag")
            page.tag_next = True
        elif page.begin(request, rest) or page.add(line, request, rest):
            page.end_of_line()
    page.end()
    return page.blocks
