"""What a text must look like: a JSON schema, a regular expression or a Lark grammar."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from edgespec.errors import UsageError, needs_extra, printable, shortened
from edgespec.grammar.grammar_reading import reason_to_refuse
from edgespec.grammar.schema_applied import applied
from edgespec.grammar.schema_ends import check_ends
from edgespec.grammar.schema_keywords import DEEPEST, check_keywords
from edgespec.grammar.schema_references import check_chains

__all__ = ["MAX_CHARACTERS", "Grammar", "check_schema", "json_rule", "json_schema", "lark", "regex"]

MAX_CHARACTERS = 100_000  # of a grammar
LONGEST_REASON = 300
LARK = "Lark grammar"  # the kind whose rules are the user's
# JSON as Python's `json.dumps` writes it. With free white space hardly a token would be forced, and
# a model could go on with spaces for ever.
JSON_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
OWN_OPTIONS = "%llguidance"


@dataclass(frozen=True)
class Grammar:
    """What a text must look like, from its first to its last character; checked when it is made.

    `json_schema`, `regex` and `lark` make one. Special tokens are never part of the text.

    Attributes:
        kind: what users call it.
        rules: in llguidance's dialect of Lark.
        special_tokens: ids that `rules` may name, as <[id]>: a chat format's marks around calls.

    Raises:
        UsageError: it is too large, takes too long to read, or llguidance refuses it.
        EdgespecError: llguidance is not installed, or no process can be started to read it.
    """

    kind: str
    rules: str
    special_tokens: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        _check_length(self.kind, self.rules)
        _check_unicode(self.kind, self.rules)
        reason = reason_to_refuse(self.kind, self.rules, self.special_tokens)
        if reason:
            raise UsageError(refusal_line(self.kind, reason))


def json_schema(schema: Mapping[str, object] | bool | str) -> Grammar:
    """A JSON value that fits a schema, written as Python's `json.dumps` writes it.

    Args:
        schema: an object, or its JSON text. Keywords and formats that restrict values and are not
            known are refused: docs/guides/structured-output.md lists those that are.

    Raises:
        UsageError: it is no schema, has an unknown keyword, or no value that ends fits it.
    """
    parsed = _parsed(schema) if isinstance(schema, str) else schema
    if isinstance(parsed, bool):
        if not parsed:
            raise UsageError("the JSON schema is false, and nothing fits that; give another")
        parsed = {}
    if not isinstance(parsed, Mapping):
        raise UsageError(f"the JSON schema is {shortened(parsed)}; give an object")
    check_schema(parsed)
    return Grammar("JSON schema", f"start: {json_rule(parsed)}")


def check_schema(schema: Mapping[str, object]) -> None:
    """Raises UsageError unless texts of a JSON schema can be written. Its length is looked at
    before anything else."""
    _check_length("JSON schema", _written(schema))
    check_keywords(schema)
    check_chains(schema)
    check_ends(schema)


def json_rule(schema: Mapping[str, object]) -> str:
    """The values of a checked schema, for use in the rules of a grammar."""
    return "%json " + _written({**applied(schema), "x-guidance": JSON_STYLE})


def _written(schema: Mapping[str, object]) -> str:
    try:
        return json.dumps(schema, ensure_ascii=False)
    except RecursionError:
        raise UsageError(
            f"the JSON schema is nested deeper than {DEEPEST} schemas; flatten it"
        ) from None
    except (TypeError, ValueError) as error:
        raise UsageError(f"the JSON schema is no JSON ({error}); give plain values") from None


def regex(pattern: str) -> Grammar:
    """A text that matches a regular expression as a whole.

    Args:
        pattern: in Rust's syntax, which has no look-around and no back-references.

    Raises:
        UsageError: it is none.
    """
    if not isinstance(pattern, str):
        raise UsageError(f"the regular expression is {shortened(pattern)}; give a text")
    _check_length("regular expression", pattern)
    _check_unicode("regular expression", pattern)
    with needs_extra("grammar"):
        from llguidance import regex_to_lark
    return Grammar("regular expression", f"start: /{regex_to_lark(pattern, '')}/")


def lark(rules: str) -> Grammar:
    """A text of a context-free grammar.

    Args:
        rules: in llguidance's dialect of Lark; the text is a `start`.

    Raises:
        UsageError: it is none.
    """
    if not isinstance(rules, str):
        raise UsageError(f"the Lark grammar is {shortened(rules)}; give a text")
    if OWN_OPTIONS in rules:
        raise UsageError(f"the Lark grammar sets options by {OWN_OPTIONS}; leave that line out")
    return Grammar(LARK, rules)


def refusal_line(kind: str, refusal: str) -> str:
    """llguidance's message as one line: its first part, without the excerpt of the rules."""
    reason = refusal.partition("\n   1 | ")[0].replace("failed to compile JSON schema: ", "")
    if kind != LARK:  # the position counts in rules that the user has not written
        reason = reason.partition("): ")[2] or reason
    line = " ".join(reason.split())[:LONGEST_REASON]
    return f"the {kind} cannot be used: {printable(line)}; change it"


def _check_unicode(kind: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the {kind} is not Unicode text at character {error.start}; give it as UTF-8"
        ) from None


def _check_length(kind: str, text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"the {kind} has {len(text)} characters; the limit is {MAX_CHARACTERS}")


def _parsed(text: str) -> Mapping[str, object]:
    _check_length("JSON schema", text)
    try:
        return cast("Mapping[str, object]", json.loads(text))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the JSON schema is no JSON ({str(error)[:80]})") from None
