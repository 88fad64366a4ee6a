"""Opening a published Gemma 4 assistant, which takes its target's embedding."""

from __future__ import annotations

from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.checkpoint import Checkpoint, open_weights
from edgespec_export.checkpoint.json_file import JsonObject, read_json_object
from edgespec_export.checkpoint.sources import Source
from edgespec_export.checkpoint.tokenizer.tokenizers_file import read_tokenizer_json
from edgespec_export.families import family_of
from edgespec_export.families.drafts.gemma4.assistant import TARGET_TABLE, Gemma4Assistant
from edgespec_export.families.drafts.target_table import WithTargetTable
from edgespec_export.families.gemma.gemma4 import Gemma4

__all__ = ["assistant_config", "open_assistant"]


def assistant_config(source: Source) -> JsonObject | None:
    """The config of an assistant; None for other checkpoints."""
    file = source.path / "config.json"
    if source.path.is_file() or not file.is_file():
        return None
    config = read_json_object(file)
    return config if config.get("model_type") in Gemma4Assistant.model_types else None


def open_assistant(source: Source, config: JsonObject, target: Checkpoint) -> Checkpoint:
    """Raises EdgespecError if the target is not a Gemma 4, or the checkpoint is not whole."""
    family = family_of(target.config, target.label)
    if not isinstance(family, Gemma4):
        raise EdgespecError(
            f"{source.label} reads the keys and values of a Gemma 4, and {target.label} is not "
            "one; pair it with the target it was trained for"
        )
    width = config.get("backbone_hidden_size", family.width)
    if width != family.width:
        raise EdgespecError(
            f"{source.label} reads a Gemma 4 of width {width}, and {target.label} has "
            f"{family.width}; pair it with the target it was trained for"
        )
    read: JsonObject = {
        "positions": family.positions,
        "layers": {
            kind: len(kept) - 1 - kept[::-1].index(kind)
            for kept in [family.kinds[: family.keeping_layers]]
            for kind in dict.fromkeys(kept)
        },
    }
    tokenizer = source.path / "tokenizer.json"
    return Checkpoint(
        config={**config, "target": read},
        weights=WithTargetTable(
            open_weights(source.path),
            family.view(target.weights),
            {TARGET_TABLE: family.table},
        ),
        tokenizer=read_tokenizer_json(tokenizer) if tokenizer.is_file() else target.tokenizer,
        chat=None,
        eos_token_ids=target.eos_token_ids,
        label=source.label,
    )
