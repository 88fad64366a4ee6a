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


def groff_blocks(data: bytes) -> list[Block]:
    """Headings, tags and paragraphs of a page written with the man macros; none for mdoc pages."""
    text = data.decode("utf-8", "replace")
    if re.search(r"^\.(so|Dd|Sh) ", text, re.MULTILINE):
        return []
    blocks: list[Block] = []
    kind, words, until, tag_next = "p", [], "", False

    def end(following: str = "p") -> None:
        nonlocal kind
        if found := " ".join(plain_groff(" ".join(words)).split()):
            blocks.append((kind, found))
        words.clear()
        kind = following

    for line in re.sub(r"\\\n", "", text).splitlines():
        request, _, rest = (
            line[1:].strip().partition(" ") if line[:1] in (".", "'") else ("", "", line)
        )
        if until:
            until = (
                ""
                if line.startswith(until) or (until == ".fi" and request in ("EE", "SH"))
                else until
            )
            continue
        if request in ("nf", "EX", "TS", "ig", "de", "de1", "EQ"):
            end()
            until = {"nf": ".fi", "EX": ".EE", "TS": ".TE", "EQ": ".EN"}.get(request, "..")
        elif request in ("SH", "SS"):
            end("h")
            words.append(" ".join(groff_arguments(rest)))
            if words[0]:
                end()
        elif request in ("TP", "TQ"):
            end("tag")
            tag_next = True
            continue
        elif request == "IP":
            end("tag")
            words.extend(groff_arguments(rest)[:1])
            end()
        elif request in ("PP", "P", "LP", "HP", "RS", "RE", "sp", "TH", "Sp", "Vb", "Ve"):
            end()
            until = ".Ve" if request == "Vb" else ""
        elif request in ("B", "I", "SM", "SB", "R"):
            words.append(" ".join(groff_arguments(rest)))
        elif request in ("BR", "RB", "IR", "RI", "BI", "IB"):
            words.append("".join(groff_arguments(rest)))
        elif request in ("UR", "MT"):
            continue
        elif request in ("UE", "ME"):
            words[-1:] = [words[-1] + rest] if words else []
        elif not request and line[:1] not in (".", "'"):
            if line.strip():
                words.append(line)
            else:
                end()
        else:
            continue
        if tag_next and words:
            tag_next = False
            end()
        elif kind == "h" and words:
            end()
    end()
    return blocks
