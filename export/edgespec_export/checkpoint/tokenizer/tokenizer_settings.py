"""What a checkpoint says about its tokenizer besides `tokenizer.json`, as `AutoTokenizer` reads it.

Three files name tokens: `tokenizer_config.json` with `added_tokens_decoder`, which new versions of
transformers write, and `special_tokens_map.json` and `added_tokens.json` of older ones, which count
only where the first names none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import AddedToken

from edgespec.errors import EdgespecError, shortened
from edgespec_export.checkpoint.json_file import JsonObject, JsonValue, read_json_object

__all__ = ["NAMES", "Token", "TokenizerSettings", "added_token"]

CONFIG, SPECIAL, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
# The roles of special tokens, in the order in which new ones get ids.
NAMES = tuple(f"{role}_token" for role in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")

Token = AddedToken | str  # a text alone is special and not normalized


@dataclass(frozen=True)
class TokenizerSettings:
    """The settings of one checkpoint's tokenizer.

    Attributes:
        path: `tokenizer_config.json`, which may be missing.
        values: every setting, by its name there.
        declared: added tokens by the id that a file gives them.
        named: special tokens by role ("eos_token", or one of the model's own such as
            "image_token"); None where a file says that there is none.
        extra: special tokens without a role; None if no file lists any.
        additional: the same from `special_tokens_map.json`.
    """

    path: Path
    values: JsonObject
    declared: Mapping[int, AddedToken] = field(default_factory=dict)
    named: Mapping[str, Token | None] = field(default_factory=dict)
    extra: Sequence[Token] | None = None
    additional: Sequence[Token] | None = None

    @classmethod
    def read(cls, folder: Path, in_json: Iterable[JsonValue] = ()) -> TokenizerSettings:
        """The settings of a checkpoint folder.

        Args:
            in_json: the `added_tokens` of its `tokenizer.json`.

        Raises:
            EdgespecError: a file is damaged, or holds something else than tokens where they belong.
        """
        path = folder / CONFIG
        try:
            return _read(folder, list(in_json))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise EdgespecError(
                f"{path}: it, {SPECIAL} or {ADDED} has tokens that cannot be read "
                f"({shortened(str(error))}); download these files again"
            ) from None

    @property
    def tokenizer_class(self) -> str | None:
        """The name of transformers' class, without "Fast"."""
        name = self.values.get("tokenizer_class")
        return name.removesuffix("Fast") if isinstance(name, str) and name else None

    def flag(self, name: str, default: bool) -> bool:
        """A setting that is true or false; null is the default.

        Raises:
            EdgespecError: it is something else.
        """
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise EdgespecError(f"{self.path}: {name} is {shortened(value)}, not true or false")
        return value

    def text(self, name: str) -> str | None:
        """A setting that is a text, or None.

        Raises:
            EdgespecError: it is something else.
        """
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise EdgespecError(f"{self.path}: {name} is {shortened(value)}, not a text")
        return value


def added_token(value: JsonValue, **flags: bool) -> AddedToken:
    """An added token from its JSON; flags that are given count instead of those there."""
    if not isinstance(value, dict) or not isinstance(value["content"], str):
        raise TypeError(f"{shortened(value)} is no token")
    own = {name: value[name] for name in FLAGS if isinstance(value.get(name), bool)}
    return AddedToken(value["content"], **{**own, **flags})


def _read(folder: Path, in_json: list[JsonValue]) -> TokenizerSettings:
    values = _object(folder / CONFIG)
    roles: JsonObject = {}  # tokens by the model's own names for them
    extra = _tokens(values.pop("extra_special_tokens", None), roles)
    if not extra:
        extra = _tokens(values.pop("additional_special_tokens", None), roles) or extra
    own = values.pop("model_specific_special_tokens", None)
    if not isinstance(own, dict | None):
        raise TypeError(f"model_specific_special_tokens is {shortened(own)}")
    roles.update(own or {})
    declared: dict[int, AddedToken] = {}
    if "added_tokens_decoder" in values:
        listed = values["added_tokens_decoder"]
        if not isinstance(listed, dict):
            raise TypeError(f"added_tokens_decoder is {shortened(listed)}")
        declared = {int(index): added_token(token) for index, token in listed.items()}
    else:
        for key, value in _object(folder / SPECIAL).items():
            values[key] = {**value, "special": True} if isinstance(value, dict) else value
    additional = _tokens(values.pop("additional_special_tokens", None), roles)
    named = {
        key: None if value is None else _token(value)
        for key, value in {**values, **roles}.items()
        if key in NAMES
        or key in roles
        or (key.endswith("_token") and isinstance(value, (str, dict)))
    }
    if "added_tokens_decoder" not in values:
        special = {str(token) for token in (*named.values(), *(extra or ()))}
        declared = _from_older_files(folder, in_json, special)
    known = {token.content: token for token in declared.values()}
    named = {key: known.get(str(token), token) for key, token in named.items()}
    return TokenizerSettings(folder / CONFIG, values, declared, named, extra, additional)


def _object(path: Path) -> JsonObject:
    return read_json_object(path) if path.is_file() else {}


def _from_older_files(
    folder: Path, in_json: list[JsonValue], special: set[str]
) -> dict[int, AddedToken]:
    """Tokens of `added_tokens.json`, and over them those of `tokenizer.json`."""
    declared: dict[int, AddedToken] = {}
    for content, index in _object(folder / ADDED).items():
        is_special = content in special
        declared[_whole(index)] = AddedToken(content, normalized=not is_special, special=is_special)
    for token in in_json:
        if not isinstance(token, dict):
            raise TypeError(f"{shortened(token)} is no token")
        declared[_whole(token["id"])] = added_token(token)
    return declared


def _whole(value: JsonValue) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{shortened(value)} is no token id")
    return value


def _token(value: JsonValue) -> Token:
    return value if isinstance(value, str) else added_token(value)


def _tokens(listed: JsonValue, roles: JsonObject) -> list[Token] | None:
    """A list of tokens. Tokens by the model's own names for them go to `roles`."""
    if isinstance(listed, dict):
        roles.update(listed)
        return None
    if listed is None:
        return None
    if not isinstance(listed, list):
        raise TypeError(f"{shortened(listed)} is no list of tokens")
    return [_token(token) for token in listed]
