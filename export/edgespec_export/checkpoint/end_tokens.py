"""The tokens that end a text: the configs' ends, the tokenizer's, and the end of a chat's turn."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TypeGuard

from tokenizers import Tokenizer

from edgespec.chat.chat_template import ChatTemplate
from edgespec.errors import EdgespecError, UsageError, shortened
from edgespec_export.checkpoint.json_file import JsonObject, JsonValue

__all__ = ["configured_ends", "turn_end", "within_vocabulary"]

_QUESTION, _ANSWER = "edgeSpec\u2063question", "edgeSpec\u2063answer"
_TURN = [{"role": "user", "content": _QUESTION}, {"role": "assistant", "content": _ANSWER}]
_NEXT = [*_TURN, _TURN[0]]

_log = logging.getLogger("edgespec")


def configured_ends(where: Path, *configs: JsonObject) -> list[int]:
    """The end tokens of the first config that names any; none if no config does.

    Raises:
        EdgespecError: a config names something that is no token id.
    """
    for config in configs:
        value = config.get("eos_token_id")
        listed = value if isinstance(value, list) else [value]
        if value is not None and listed:
            ids = [token for token in listed if _is_token_id(token)]
            if len(ids) < len(listed):
                raise EdgespecError(
                    f"{where}: eos_token_id is {shortened(value)}, not a token id or a list of them"
                )
            return ids
    return []


def turn_end(template: ChatTemplate | None, tokenizer: Tokenizer) -> int | None:
    """The token that a chat template writes right after an answer, if it is one of its own."""
    for messages in (_NEXT, _TURN):
        try:
            text = template.render(messages) if template is not None else ""
        except UsageError:
            continue
        after = text.rpartition(_ANSWER)[2].lstrip() if _ANSWER in text else ""
        added = tokenizer.get_added_tokens_decoder()
        found = [(len(token.content), id_) for id_, token in added.items() if token.content]
        fitting = [(size, id_) for size, id_ in found if after.startswith(added[id_].content)]
        if fitting:
            return max(fitting)[1]
    return None


def within_vocabulary(ends: Iterable[int], vocab_size: object, label: str) -> tuple[int, ...]:
    """Each end once; those beyond the model's tokens are left out, with a line that names them."""
    kept = list(dict.fromkeys(ends))
    if type(vocab_size) is not int:
        return tuple(kept)
    beyond = [token for token in kept if token >= vocab_size]
    if beyond:
        _log.warning(
            "%s: end token %s is left out: the model has %d tokens",
            label,
            ", ".join(map(str, beyond[:8])),
            vocab_size,
        )
    return tuple(token for token in kept if token < vocab_size)


def _is_token_id(value: JsonValue) -> TypeGuard[int]:
    return type(value) is int and value >= 0
