"""Writes which keys of a config.json transformers reads, for each model type that edgespec exports.

    .venv/bin/python scripts/config_keys.py

writes export/edgespec_export/families/config_keys.json anew from the installed version. A key is
read if the type's config class declares it, renames it or takes it from its keyword arguments, or
if the model's file or one of the files that all models share reads it from a config. Any other key
changes nothing that transformers computes.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import transformers
from transformers import cache_utils, masking_utils, modeling_rope_utils
from transformers.models.auto import configuration_auto, modeling_auto

from edgespec_export.families import FAMILIES

TABLE = Path(__file__).parent.parent / "export/edgespec_export/families/config_keys.json"
SHARED = (cache_utils, masking_utils, modeling_rope_utils)
MODELS = (
    modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING,
    modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING,
    modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
)
CONFIG = re.compile(r"(\w+_)?config")
TAKES = {"pop", "get", "setdefault"}  # methods of the keyword arguments
ROPE = ("rope_theta", "partial_rotary_factor")
READS = {"getattr", "hasattr", "setattr"}
# The functions of a config class whose keyword arguments are keys; others load files.
MAKES = {"__init__", "__post_init__", "convert_rope_params_to_dict"}


def table() -> dict[str, Any]:
    """The version of transformers, and by model type the defaults of the fields and other names."""
    types = sorted({kind for family in FAMILIES for kind in family.model_types})
    known = configuration_auto.CONFIG_MAPPING
    return {
        "transformers": transformers.__version__,
        "types": {kind: _keys(known[kind]) for kind in types if kind in known},
    }


def text() -> str:
    """The table as the file has it: one line for each model type."""
    made = table()
    lines = [f' "{kind}": {json.dumps(keys)}' for kind, keys in made["types"].items()]
    version = json.dumps(made["transformers"])
    return f'{{"transformers": {version}, "types": {{\n' + ",\n".join(lines) + "\n}}\n"


def _keys(kind: type) -> dict[str, Any]:
    defaults = {
        field.name: field.default for field in dataclasses.fields(kind) if _is_json(field.default)
    }
    made = _made(kind)
    if type(tied := getattr(made, "tie_word_embeddings", None)) is bool:
        defaults["tie_word_embeddings"] = tied
    if "rope_parameters" in defaults:
        rope = {"rope_theta": kind.default_theta, **(getattr(made, "rope_parameters", None) or {})}
        defaults |= {key: rope[key] for key in ROPE if key in rope and _is_json(rope[key])}
    names = {field.name for field in dataclasses.fields(kind)} | set(kind.attribute_map)
    for module in _modules(kind):
        names.update(_read_by(ast.parse(inspect.getsource(module))))
    keys = {name for name in names if not callable(getattr(kind, name, None))}
    others = sorted(keys - defaults.keys())
    return {"defaults": dict(sorted(defaults.items())), "others": others}


def _made(kind: type) -> Any:
    """A config of the class with all defaults; None if it has no whole default."""
    try:
        return kind()
    except Exception:  # what a class raises for its own defaults is its own matter
        return None


def _is_json(value: object) -> bool:
    return value is None or type(value) in (bool, int, float, str)


def _modules(kind: type) -> Iterator[ModuleType]:
    """The files that read a config of this class."""
    yield from SHARED
    for base in kind.__mro__:
        if base.__module__.startswith("transformers."):
            yield inspect.getmodule(base)
    for mapping in MODELS:
        if kind in mapping:
            yield inspect.getmodule(mapping[kind])


def _read_by(tree: ast.AST) -> Iterator[str]:
    """Names that a file reads from a config, or from the keywords that make one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_config(node.value):
            yield node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", None) in READS:
            if _is_config(node.args[0]) or _is_named(node.args[0], "self"):
                yield from _text(node.args[1])
        elif isinstance(node, ast.FunctionDef) and node.name in MAKES:
            yield from _taken_by(node)


def _taken_by(function: ast.FunctionDef) -> Iterator[str]:
    """Names that a function takes from its keyword arguments."""
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and _is_named(node.value, "kwargs"):
            yield from _text(node.slice)
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", None) in TAKES
            and _is_named(node.func.value, "kwargs")
        ):
            yield from _text(node.args[0])


def _is_config(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return bool(CONFIG.fullmatch(name))


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _text(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


if __name__ == "__main__":
    TABLE.write_text(text(), encoding="utf-8")
