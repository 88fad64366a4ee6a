"""Built-in prompts, for measurements where the user gives no texts."""

from __future__ import annotations

from edgespec.artifact.manifest import Exported, Manifest

__all__ = ["CHAT", "TRANSLATION", "prompts_for", "sample_texts"]

TRANSLATION = {
    "packages": [
        "GNOME development IDE, for C/C++ - data files",
        "Python bindings for the GNU scientific library",
        "This package contains the documentation.",
        "tool to convert images between several formats",
        "library for reading and writing audio files (development files)",
        "This package provides the shared libraries that other programs need to run.",
    ],
}

_NOTICE = (
    "The museum opens at nine in the morning and closes at six in the evening. On Mondays the "
    "museum is closed. Tickets cost eight euros for adults and four euros for children under "
    "twelve. Groups of more than ten people should book their visit two weeks in advance by "
    "telephone. Photographs are allowed in all rooms except the special exhibition."
)

_STORIES = (
    "When the snow melted, the river rose over the lower fields and carried off the old bridge. "
    "For three weeks nobody could cross, and the children on the far side had no school.",
    "To replace the battery, switch the device off, open the cover with a small screwdriver and "
    "lift the old battery out. Do not touch the contacts with your fingers.",
)

CHAT = {
    "questions": [
        "Give me three facts about the Moon.",
        "Why is the sky blue? Explain it to a child.",
    ],
    "code": [
        "Write a Python function that returns the n-th Fibonacci number, with a docstring.",
        "Write a small HTML page with a heading and a list of three fruits.",
    ],
    "summaries": [
        f"Summarise the following notice in two sentences, in its own words: {_NOTICE}",
        f"Copy the following notice and correct mistakes, if there are any: {_NOTICE}",
    ],
}


def prompts_for(manifest: Manifest) -> dict[str, list[str]]:
    """Built-in prompts by category: translation for an encoder-decoder, else chat."""
    return TRANSLATION if manifest.target.is_encoder_decoder else CHAT


def sample_texts(exported: Exported) -> list[str]:
    """Texts on which the number formats of a model are compared."""
    if exported.is_encoder_decoder:
        return TRANSLATION["packages"]
    return [_NOTICE, *_STORIES]
