"""Opening a distilled EAGLE head without tables: it has rows of its target's embedding and head."""

from __future__ import annotations

from edgespec.artifact.manifest import VOCABULARY
from edgespec.drafters.vocabulary_map import SomeTokens, read_vocabulary
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.checkpoint import Checkpoint, open_weights
from edgespec_export.checkpoint.json_file import JsonObject, read_json_object
from edgespec_export.checkpoint.sources import Source
from edgespec_export.families import Family, family_of
from edgespec_export.families.drafts.eagle import TARGET_TABLES, Eagle
from edgespec_export.families.drafts.target_table import WithTargetTable

__all__ = ["open_own_tables", "own_head_config"]


def own_head_config(source: Source) -> JsonObject | None:
    """The config of such a head; None for other checkpoints."""
    file = source.path / "config.json"
    if source.path.is_file() or not file.is_file():
        return None
    config = read_json_object(file)
    is_head = config.get("model_type") in Eagle.model_types and config.get(TARGET_TABLES) is True
    return config if is_head else None


def open_own_tables(source: Source, config: JsonObject, target: Checkpoint) -> Checkpoint:
    """The head, with its target's tokenizer and those rows of its tables that are its tokens.

    Raises:
        EdgespecError: it was distilled from another target, or its list of tokens is wrong.
    """
    family, head = family_of(target.config, target.label), family_of(config, source.label)
    if head.width != family.width:
        raise EdgespecError(
            f"{source.label} takes the tables of a target of width {head.width}, and "
            f"{target.label} has width {family.width}; pair it with the target it was trained for"
        )
    vocabulary = source.path / VOCABULARY
    rows = None
    if vocabulary.is_file():
        maps = read_vocabulary(vocabulary, family.vocab_size, head.vocab_size)
        rows = maps.outputs if isinstance(maps, SomeTokens) else None
    weights = open_weights(source.path)
    return Checkpoint(
        config=config,
        weights=WithTargetTable(weights, family.view(target.weights), _tables(head, family), rows),
        tokenizer=target.tokenizer,
        chat=None,
        eos_token_ids=target.eos_token_ids,
        label=source.label,
        vocabulary=vocabulary if vocabulary.is_file() else None,
    )


def _tables(head: Family, target: Family) -> dict[str, str]:
    """The target's name of each of the head's tables."""
    tables = {head.table: target.table}
    if not head.tied_head:
        tables[head.head] = target.table if target.tied_head else target.head
    return tables
