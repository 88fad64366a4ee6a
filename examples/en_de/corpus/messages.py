"""The text of a message without its markup."""

import html
import re

from groff import plain_groff


def plain_markup(text: str) -> str:
    """A message without tags, entities, po4a's B<> and I<>, groff escapes and newlines."""
    text = re.sub(r"""<u?link\s[^<>]*(?:url|href)=["']([^"']*)["']\s*/>""", r"\1", text)
    while text != (text := re.sub(r"\b[BICEFLSX]<([^<>]*)>", r"\1", text)):
        pass
    text = re.sub(r"</?[a-zA-Z][^<>]*>", "", text)
    text = html.unescape(text.replace("\\n", " "))
    return plain_groff(text) if re.search(r"\\[-f(*&]", text) else text


def plain_message(text: str) -> str:
    """A message without markup and the mark of its shortcut key."""
    text = plain_markup(text)
    text = re.sub(r"\s?\([_&~]\w\)", "", text)
    return re.sub(
        r"(?<![\w%$&_~])([_&~])(?=\w)|(?<=[a-zäöü])[_&~](?=[a-zäöü]+\b(?![_(]))", "", text
    )
