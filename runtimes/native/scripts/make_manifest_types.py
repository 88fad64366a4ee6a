"""Writes src/artifact/manifest_types.inc: the types of the fields of a manifest and of a speech
format, from the dataclasses that Python reads them into.

    python runtimes/native/scripts/make_manifest_types.py

A kind is "int", "float", "str", "bool", "null" or "object" (anything), the name of a dataclass, or
one of {"list": kind}, {"dict": kind} and {"any": [kind, …]}.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from edgespec.artifact.manifest import Manifest
from edgespec.artifact.speech_format import SpeechFormat
from edgespec.artifact.typed_json import LATER

TYPES = Path(__file__).parents[1] / "src" / "artifact" / "manifest_types.inc"


def kind_of(annotation: Any, known: dict[str, Any]) -> Any:
    """The kind of a field; adds the dataclasses that it needs to those that are known."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if dataclasses.is_dataclass(annotation):
        return class_of(annotation, known)
    if origin in (Union, UnionType):
        return {"any": [kind_of(part, known) for part in parts]}
    if origin is dict:
        return {"dict": kind_of(parts[1], known)}
    if origin in (list, tuple):
        return {"list": kind_of(parts[0], known)}
    return "null" if annotation is NoneType else annotation.__name__


def class_of(kind: Any, known: dict[str, Any]) -> str:
    """The name of a dataclass, which is known from then on."""
    name: str = kind.__name__
    if name not in known:
        known[name] = {}
        hints = get_type_hints(kind)
        later = [field.name for field in dataclasses.fields(kind) if field.metadata == LATER]
        known[name] = {
            "fields": {field: kind_of(hints[field], known) for field in hints},
            "later": later,
        }
    return name


def types_text() -> str:
    """The file's content: a text for each class, since compilers bound their length."""
    known: dict[str, Any] = {}
    class_of(Manifest, known)
    class_of(SpeechFormat, known)
    lines = [f'R"({json.dumps(name)}:{json.dumps(known[name])})"' for name in known]
    return "// Made by scripts/make_manifest_types.py.\n" + ' ","\n'.join(lines) + "\n"


if __name__ == "__main__":
    TYPES.write_text(types_text(), encoding="utf-8")
