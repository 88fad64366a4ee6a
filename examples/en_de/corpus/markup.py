"""HTML, DocBook and Mallard pages: their blocks, and the entities they declare and use."""

import re
from html.parser import HTMLParser

from alignment import Block
from cleaning import normal


class Markup(HTMLParser):
    """The blocks of an HTML, DocBook or Mallard page."""

    BLOCKS = frozenset(
        """
        p para simpara title subtitle h1 h2 h3 h4 h5 h6 li listitem term dt dd td th entry desc
        item caption section sect1 sect2 sect3 sect4 chapter div table tr ul ol dl list steps
        itemizedlist variablelist orderedlist varlistentry note tip warning caution important
        example figure page body blockquote row informaltable tbody thead tgroup terms header
        footer nav main article br hr synopsis
        """.split()
    )
    SKIPPED = frozenset(
        """
        script style pre programlisting screen literallayout code-block screenshot info
        articleinfo bookinfo head indexterm svg math footer nav synopsis cmdsynopsis
        informalequation equation index glossary glosslist
        """.split()
    )

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[Block] = []
        self.words: list[str] = []
        self.skipping: list[str] = []
        self.kind = "p"

    def end(self, following: str = "p") -> None:
        if text := normal("".join(self.words)):
            self.blocks.append((self.kind, text))
        self.words.clear()
        self.kind = following

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = dict(attrs).get("class") or ""
        if self.skipping:
            if tag == self.skipping[-1]:
                self.skipping.append(tag)
        elif (tag in self.SKIPPED and (tag != "info" or dict(attrs))) or re.search(
            "nav|toc|footnote|index|gloss", classes
        ):
            if tag not in ("br", "hr", "img", "body", "link", "meta"):
                self.end()
                self.skipping.append(tag)
        elif tag in self.BLOCKS:
            self.end(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.BLOCKS and not self.skipping:
            self.end()

    def handle_endtag(self, tag: str) -> None:
        if self.skipping:
            if tag == self.skipping[-1]:
                self.skipping.pop()
        elif tag in self.BLOCKS:
            self.end()

    def handle_data(self, data: str) -> None:
        if not self.skipping:
            self.words.append(data)


def markup_blocks(data: bytes, entities: dict[str, str]) -> list[Block]:
    text = data.decode("utf-8", "replace")
    if re.search(r"charset=[\"']?iso-8859-1|encoding=[\"']iso-8859-1", text[:1500], re.IGNORECASE):
        text = data.decode("latin-1")
    entities = entities | declared_entities(text)
    text = re.sub(
        r"<!DOCTYPE[^\[>]*(\[.*?\]\s*)?>|<!\[(?!CDATA).*?\]\]>", "", text, flags=re.DOTALL
    )
    text = re.sub(r"<(/?)(\w+):(\w+)", r"<\1\3", text)
    text = with_entities(text, entities)
    page = Markup()
    page.feed(text)
    page.close()
    page.end()
    return [block for block in page.blocks if not re.search(r"&[\w.-]+;", block[1])]


def declared_entities(text: str) -> dict[str, str]:
    found = re.findall(r"""<!ENTITY\s+([\w.-]+)\s+(?:"([^"]*)"|'([^']*)')\s*>""", text)
    return {name: one or other for name, one, other in found}


def with_entities(text: str, entities: dict[str, str]) -> str:
    for _ in range(3):  # an entity's text may use others
        text = re.sub(r"&([\w.-]+);", lambda m: entities.get(m[1], m[0]), text)
    return text
