"""A conversation in a file, which goes on from there as if it had never been closed."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgespec.artifact.atomic_file import remove_whole
from edgespec.artifact.manifest import CHAT_TEMPLATE, TOKENIZER
from edgespec.artifact.typed_json import read_json, write_json
from edgespec.cli.terminal.conversation import Conversation
from edgespec.cli.terminal.model_name import model_name
from edgespec.device.home import kept_home
from edgespec.errors import EdgespecError, UsageError, shortened

if TYPE_CHECKING:
    from edgespec.pair.pair import Pair

__all__ = [
    "SavedChat",
    "chat_file",
    "chat_names",
    "open_chat",
    "reopen_chat",
    "save_chat",
    "use_kept_cache",
]

VERSION = 1
LONGEST_NAME = 100  # characters
CACHE = ".edgespec-cache"  # after the name of a chat's file
PRIVATE = 0o700  # of a folder that is made
NUMBERED = "logit_bias"  # an option whose names are token ids, which JSON makes texts


@dataclass(frozen=True)
class SavedChat:
    """What a file holds: all that the next answer depends on.

    Attributes:
        version: of this format.
        model: its name, for people.
        target_format: the variant that answered.
        target: digest of its weights, tokenizer and chat template.
        system: the system prompt, if one was given.
        options: of `Pair.stream`, by name.
        made_again: see `Conversation`.
        messages: of the user and of the model, by turns.
    """

    version: int
    model: str
    target_format: str
    target: str
    system: str | None
    options: dict[str, object]
    made_again: int
    messages: list[dict[str, str]]


def chat_file(name: str) -> Path:
    """The file of a name: NAME is chats/NAME.json where edgespec keeps what is a user's own; with
    a folder or ".json" in it, it is a path.

    Raises:
        UsageError: it is no name of a file.
    """
    if not name or len(name) > LONGEST_NAME * 10 or "\0" in name:
        raise UsageError(f"{shortened(name)} is no name for a chat; give one such as: holiday")
    if os.path.basename(name) != name or name.endswith(".json"):
        return Path(name).expanduser()
    if len(name) > LONGEST_NAME or name.startswith("."):
        raise UsageError(f"{shortened(name)} is no name for a chat; give one such as: holiday")
    return _folder() / f"{name}.json"


def chat_names() -> list[str]:
    """The names of the chats that were saved by name."""
    try:
        return sorted(file.stem for file in _folder().glob("*.json"))
    except OSError:
        return []


def _folder() -> Path:
    return kept_home() / "chats"


def save_chat(conversation: Conversation, file: Path, keeps_cache: bool = False) -> None:
    """Writes the file whole or not at all.

    Args:
        keeps_cache: keep the caches in a file beside it, too. Else there is none afterwards.

    Raises:
        OSError: it cannot be written.
        EdgespecError: the caches cannot be kept.
    """
    manifest = conversation.pair.manifest
    options = {**conversation.options, "seed": conversation.given["seed"]}
    saved = SavedChat(
        VERSION,
        model_name(manifest.target.source),
        conversation.pair.formats[0],
        _target_digest(conversation.pair),
        conversation.system,
        options,
        conversation.made_again,
        [{name: str(text) for name, text in message.items()} for message in conversation.messages],
    )
    file.parent.mkdir(PRIVATE, parents=True, exist_ok=True)
    write_json(dataclasses.asdict(saved), file)
    remove_whole(_cache_file(file))  # it may be of another chat
    if keeps_cache and conversation.messages:
        conversation.pair.save_prefix(conversation.prompt(), _cache_file(file))


def reopen_chat(conversation: Conversation, file: Path) -> str | None:
    """`open_chat` with the caches that were kept beside it."""
    differs = open_chat(conversation, file)
    use_kept_cache(conversation.pair, file)
    return differs


def use_kept_cache(pair: Pair, file: Path) -> str:
    """Lets the next answer begin with the caches that were kept beside a chat, if they were, and
    says what it reads again."""
    again = "reads them again"
    if not _cache_file(file).exists():
        return again
    try:
        pair.use_prefix(_cache_file(file))
    except EdgespecError as error:
        return f"{again} ({error})"
    return "need not read them again"


def _cache_file(file: Path) -> Path:
    return file.with_name(f"{file.name}{CACHE}")


def open_chat(conversation: Conversation, file: Path) -> str | None:
    """Makes a conversation the one that was saved; it is unchanged after an error.

    Returns what to say if the target is the same model in other numbers, so that it may answer
    differently.

    Raises:
        EdgespecError: there is no such file, it is damaged, or it is of another model.
    """
    saved = _read(file)
    here = model_name(conversation.pair.manifest.target.source)
    digest = _target_digest(conversation.pair)
    if saved.target != digest and saved.model != here:
        raise UsageError(
            f"{file} is a chat with {shortened(saved.model)}, and this is {shortened(here)}; "
            "open it with the pair of that model: edgespec chat PAIR --load FILE"
        )
    before = (conversation.messages, conversation.system, conversation.made_again)
    conversation.messages = list(saved.messages)
    conversation.system, conversation.made_again = saved.system, saved.made_again
    try:
        conversation.change({**saved.options, "greedy": False})
    except (UsageError, TypeError) as error:
        conversation.messages, conversation.system, conversation.made_again = before
        raise UsageError(f"{file} cannot go on with this pair: {error}") from None
    if saved.target == digest:
        return None
    return (
        f"it was saved with another export of {here} ({saved.target_format}), so the next answers "
        "may be others than they would have been there"
    )


def _read(file: Path) -> SavedChat:
    try:
        saved = read_json(SavedChat, file)
    except OSError as error:
        known = f"; there is: {', '.join(chat_names()[:8])}" if chat_names() else ""
        raise EdgespecError(f"{file} cannot be read: {error.strerror}{known}") from None
    except ValueError as error:
        raise EdgespecError(f"{file} is no saved chat ({error})") from None
    roles = [message.get("role") for message in saved.messages]
    whole = all(message.keys() == {"role", "content"} for message in saved.messages)
    turns = ["user", "assistant"] * (len(roles) // 2)
    if saved.version != VERSION or roles != turns or not whole or saved.made_again < 0:
        raise EdgespecError(f"{file} is no chat that this edgespec can read; it may be of a newer")
    return dataclasses.replace(saved, options=_options(saved.options, file))


def _options(options: dict[str, object], file: Path) -> dict[str, object]:
    """With token ids as numbers, and lists as `Pair.stream` was given them."""
    read: dict[str, object] = {}
    for name, value in options.items():
        if name == NUMBERED and isinstance(value, dict):
            try:
                value = {int(token): bias for token, bias in value.items()}
            except ValueError:
                raise EdgespecError(f"{file} is no saved chat (its {name} is damaged)") from None
        read[name] = tuple(value) if isinstance(value, list) else value
    return read


def _target_digest(pair: Pair) -> str:
    """SHA-256 over the digests of what makes the target's texts."""
    manifest = pair.manifest
    weights = manifest.weights("target", pair.formats[0])
    others = [name for name in (TOKENIZER, CHAT_TEMPLATE) if name in manifest.files]
    digests = [record.sha256 for _, record in sorted(weights.items())]
    digests += [manifest.files[name].sha256 for name in others]
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()
