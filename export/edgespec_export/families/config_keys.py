"""Which keys of a config.json change what transformers computes, and what a missing key means.

The table is made from transformers' own classes (scripts/config_keys.py). A key that a class does
not declare and that nothing reads changes nothing, so a config may have it.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

__all__ = ["ClassKeys", "class_keys"]

_VERSION = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True)
class ClassKeys:
    """The keys that a class of transformers reads.

    Attributes:
        defaults: the values of keys that a config may leave out.
        others: further keys that are read.
        version: of transformers, whose class it is.
    """

    defaults: Mapping[str, Any]
    others: frozenset[str]
    version: str

    def changes_nothing(self, key: str, value: Any) -> bool:
        """Whether a model is the same with this key as without it."""
        if key in self.defaults:
            return bool(value == self.defaults[key])
        return key not in self.others

    def is_older_than(self, version: object) -> bool:
        """Whether a newer transformers wrote a config, whose keys may be unknown here."""
        theirs, ours = _numbers(version), _numbers(self.version)
        return theirs is not None and ours is not None and theirs > ours


def class_keys(model_type: object) -> ClassKeys | None:
    """The keys that transformers reads for a model type; None if it has no such type here."""
    table = _table()
    entry = table["types"].get(model_type) if isinstance(model_type, str) else None
    if entry is None:
        return None
    return ClassKeys(entry["defaults"], frozenset(entry["others"]), table["transformers"])


@functools.cache
def _table() -> Any:
    file = resources.files("edgespec_export.families").joinpath("config_keys.json")
    return json.loads(file.read_text(encoding="utf-8"))


def _numbers(version: object) -> tuple[int, int] | None:
    found = _VERSION.match(version) if isinstance(version, str) else None
    return None if found is None else (int(found[1]), int(found[2]))
