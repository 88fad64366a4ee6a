"""Writes a target and a draft into one folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from edgespec.artifact import integrity
from edgespec.artifact.generation_defaults import GenerationDefaults
from edgespec.artifact.manifest import CHAT_TEMPLATE, TOKENIZER, VOCABULARY, Exported, Manifest
from edgespec.artifact.typed_json import write_json
from edgespec.version import VERSION
from edgespec_export.changes.fewer_tokens import FewerTokens
from edgespec_export.checkpoint.checkpoint import Checkpoint
from edgespec_export.checkpoint.generation_config import generation_defaults, without_start
from edgespec_export.checkpoint.tokenizer.written_tokenizer import written_tokenizer
from edgespec_export.families import Family
from edgespec_export.pairing import PairedDraft, pair_models
from edgespec_export.write_model import ModelWriter

__all__ = ["write_pair"]


def write_pair(
    target: Checkpoint,
    draft: Checkpoint | None,
    writer: ModelWriter,
    *,
    target_formats: Sequence[str],
    draft_formats: Sequence[str],
    cache_formats: Sequence[str],
    fewer: FewerTokens | None = None,
) -> Manifest:
    """Writes graphs, weights and tokenizer; returns the manifest, which it does not write.

    Args:
        writer: writes into the folder of the pair.
        target_formats, draft_formats, cache_formats: known ones, at least one of each.
        fewer: what the draft proposes; None: all that it knows.

    Raises:
        EdgespecError: a model is of no known family, lacks a tensor, or the two cannot be paired.
    """
    family, paired = pair_models(target, draft)
    if fewer is not None:
        paired = fewer.of(family, paired)
    writer.check(family)
    if paired is not None:
        writer.check(paired.family)
    folder = writer.folder
    tokenizer = written_tokenizer(target.tokenizer)
    (folder / TOKENIZER).write_text(tokenizer, encoding="utf-8")
    if target.template is not None:
        write_json(dataclasses.asdict(target.template), folder / CHAT_TEMPLATE)
    exported = writer.write(target, family, "target", target_formats, cache_formats)
    exported_draft = _written_draft(paired, writer, draft_formats, cache_formats)
    for journal in folder.rglob("*.journal"):
        journal.unlink()
    return Manifest(
        eos_token_ids=target.eos_token_ids,
        chat=target.chat,
        target=exported,
        draft=exported_draft,
        files={
            path.relative_to(folder).as_posix(): integrity.record(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        },
        created_by=f"edgespec {VERSION}",
        generation=_generation_defaults(target, family),
        languages=target.languages,
    )


def _written_draft(
    draft: PairedDraft | None, writer: ModelWriter, formats: Sequence[str], caches: Sequence[str]
) -> Exported | None:
    """The draft, if there is one. Its own cache is small, so it is in float32.

    Args:
        caches: formats of the target's.
    """
    if draft is None:
        return None
    own = caches if draft.family.reads_target_cache else ["fp32"]
    exported = writer.write(draft.checkpoint, draft.family, "draft", formats, own)
    if draft.tokens is None:
        return exported
    listed = Path("draft") / VOCABULARY
    (writer.folder / listed).write_bytes(draft.tokens)
    return dataclasses.replace(exported, vocabulary=listed.as_posix())


def _generation_defaults(target: Checkpoint, family: Family) -> GenerationDefaults:
    """The settings that are left to the runtime; a speech model's are rules on its tokens."""
    if family.sound is not None:
        return GenerationDefaults()
    left = {
        name: value
        for name, value in target.generation.items()
        if name not in family.applied_settings
    }
    if family.start_token is not None:
        left = without_start(left)
    return generation_defaults(left, target.label)
