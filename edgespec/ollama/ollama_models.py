"""What Ollama's API says of models."""

from __future__ import annotations

from edgespec.ollama.ollama_answer import now
from edgespec.openai.json_value import JsonObject
from edgespec.pair.pair import Pair

__all__ = ["model_card", "model_details", "running_card"]


def model_card(name: str, pair: Pair) -> JsonObject:
    """An entry of /api/tags."""
    size = sum(record.bytes for record in pair.manifest.files.values())
    return {
        "name": name,
        "model": name,
        "modified_at": now(),
        "size": size,
        "digest": _digest(pair),
        "details": _details(pair),
    }


def running_card(name: str, pair: Pair) -> JsonObject:
    """An entry of /api/ps."""
    card = {**model_card(name, pair), "size_vram": 0, "expires_at": now()}
    return {**card, "context_length": pair.target.capacity}


def model_details(name: str, pair: Pair) -> JsonObject:
    """The answer of /api/show."""
    template = pair.parts.template
    family = pair.manifest.target.family
    capabilities = ["completion"]
    if template is not None and template.shows_tools:
        capabilities.append("tools")
    if pair.reasoning is not None:
        capabilities.append("thinking")
    return {
        "modelfile": f"FROM {name}\n",
        "parameters": "",
        "template": "" if template is None else template.template,
        "license": "",
        "details": _details(pair),
        "model_info": {
            "general.architecture": family,
            f"{family}.context_length": pair.target.capacity,
            f"{family}.block_count": pair.manifest.target.layers,
            f"{family}.vocab_size": pair.target.vocab_size,
        },
        "capabilities": capabilities,
        "modified_at": now(),
    }


def _details(pair: Pair) -> JsonObject:
    family = pair.manifest.target.family
    return {
        "parent_model": "",
        "format": "onnx",
        "family": family,
        "families": [family],
        "parameter_size": "",
        "quantization_level": pair.formats[0],
    }


def _digest(pair: Pair) -> str:
    """One for all files: that of the target's largest, its weights."""
    records = pair.manifest.files.values()
    return max(records, key=lambda record: record.bytes).sha256
