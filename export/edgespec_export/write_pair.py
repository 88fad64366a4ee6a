"""Writes a target and a draft into one folder."""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx_ir as ir

from edgespec import __version__
from edgespec.artifact import integrity as recorded_files
from edgespec.artifact import manifest
from edgespec.artifact.generation_defaults import GenerationDefaults
from edgespec.artifact.graph_io import DECODER
from edgespec.artifact.manifest import WEIGHTS
from edgespec.artifact.speech_format import write_speech_format
from edgespec.artifact.typed_json import write_json
from edgespec.drafters.vocabulary_map import read_vocabulary
from edgespec.errors import EdgespecError, UsageError, shortened
from edgespec_export.calibration.calibrated import Calibration, calibrated
from edgespec_export.checkpoint.checkpoint import Checkpoint
from edgespec_export.checkpoint.generation_config import generation_defaults
from edgespec_export.checkpoint.speech_tokens import speech_format
from edgespec_export.checkpoint.tokenizer.common_tokens import (
    CommonTokens,
    NoCommonTokensError,
    common_tokens,
)
from edgespec_export.checkpoint.tokenizer.tokenizer_diff import same_tokenizer
from edgespec_export.checkpoint.weights import Weights
from edgespec_export.components.attention.attention import Attention
from edgespec_export.components.attention.choose_attention import attention_for
from edgespec_export.components.attention.kv_cache import CACHES
from edgespec_export.components.number_format import NumberFormat
from edgespec_export.families import DecoderOnly, Family
from edgespec_export.families.drafts.eagle import Eagle
from edgespec_export.families.drafts.eagle3.eagle3 import Eagle3
from edgespec_export.families.drafts.shared_encoder import SharedEncoder
from edgespec_export.families.speech.whisper import STRIDE, Whisper
from edgespec_export.families.t5 import T5
from edgespec_export.families.tensor_check import fitted
from edgespec_export.onnx_graph.external_data import WeightFile
from edgespec_export.onnx_graph.graph import Graph
from edgespec_export.passes.fuse_blocks import Fusion, fuse_blocks
from edgespec_export.passes.inline_functions import inline_functions
from edgespec_export.progress import Advance, Progress
from edgespec_export.quantization.formats import FORMATS

__all__ = ["check_formats", "check_target", "float32_bytes", "write_graphs", "write_pair"]


def check_formats(
    target_formats: Sequence[str], draft_formats: Sequence[str], cache_formats: Sequence[str]
) -> None:
    """Raises UsageError if a format is unknown, or a list of formats is empty."""
    _check_known("target format", FORMATS, target_formats)
    _check_known("draft format", FORMATS, draft_formats)
    _check_known("cache format", CACHES, cache_formats)


def _check_known(what: str, known: Collection[str], given: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise UsageError(f"no {what} {shortened(name)}; there is: {', '.join(known)}")
    if not given:
        raise UsageError(f"no {what} is given; there is: {', '.join(known)}")


_log = logging.getLogger("edgespec")


def write_pair(
    target: Checkpoint,
    draft: Checkpoint | None,
    folder: Path,
    *,
    target_formats: Sequence[str],
    draft_formats: Sequence[str],
    cache_formats: Sequence[str],
    calibration: Calibration,
    progress: Progress,
    shard_bytes: int = sys.maxsize,
    inline: bool = False,
) -> manifest.Manifest:
    """Writes graphs, weights and tokenizer; returns the manifest, which it does not write.

    Args:
        target_formats, draft_formats, cache_formats: as `check_formats` accepts them.
        calibration: for the formats that need one.
        progress: see `edgespec_export.export_pair.export_pair`.
        shard_bytes: no file of weights becomes larger.
        inline: replace edgespec's operators by their bodies, for runtimes without kernels for them.

    Raises:
        EdgespecError: a model is of no known family, lacks a tensor, or the two cannot be paired.
    """
    target_family, draft_family = _families(target, draft)
    _check_tokens_around(target, target_family)
    common = None
    if draft is not None and draft_family is not None:
        common = _common_tokens(target, target_family, draft, draft_family)
    tokenizer = target.tokenizer.to_str(pretty=True)
    (folder / manifest.TOKENIZER).write_text(tokenizer, encoding="utf-8")
    if target.template is not None:
        write_json(dataclasses.asdict(target.template), folder / manifest.CHAT_TEMPLATE)
    write = partial(
        _write_model,
        folder=folder,
        calibration=calibration,
        progress=progress,
        shard_bytes=shard_bytes,
        inline=inline,
    )
    exported = write(
        target, target_family, role="target", formats=target_formats, caches=cache_formats
    )
    exported_draft = None
    if draft is not None and draft_family is not None:
        exported_draft = write(
            draft, draft_family, role="draft", formats=draft_formats, caches=["fp32"]
        )
        if draft.vocabulary is not None:
            exported_draft = _with_vocabulary(exported_draft, exported, draft.vocabulary, folder)
        elif common is not None:
            exported_draft = _with_common_tokens(exported_draft, common, folder)
        elif isinstance(draft_family, Eagle3):
            exported_draft = _with_proposed_tokens(exported_draft, draft, draft_family, folder)
    for journal in folder.rglob("*.journal"):
        journal.unlink()
    return manifest.Manifest(
        eos_token_ids=target.eos_token_ids,
        chat=target.chat,
        target=exported,
        draft=exported_draft,
        files={
            path.relative_to(folder).as_posix(): recorded_files.record(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        },
        created_by=f"edgespec {__version__}",
        generation=_generation_defaults(target, target_family),
        languages=target.languages,
    )


def _generation_defaults(target: Checkpoint, family: Family) -> GenerationDefaults:
    """The settings that are left to the runtime; a speech model's are rules on its tokens."""
    if isinstance(family, Whisper):
        return GenerationDefaults()
    left = {
        name: value
        for name, value in target.generation.items()
        if name not in family.applied_settings
    }
    if family.start_token is not None and type(least := left.pop("min_length", None)) is int:
        left.setdefault("min_new_tokens", max(least - 1, 0))  # it counts the start token, too
    return generation_defaults(left, target.label)


def _families(target: Checkpoint, draft: Checkpoint | None) -> tuple[Family, Family | None]:
    """The families of a target and a draft that can be paired."""
    target_family = fitted(target)
    check_target(target, target_family)
    if draft is None:
        return target_family, None
    draft_family = fitted(draft)
    _check_pair(target, target_family, draft, draft_family)
    if isinstance(draft_family, Eagle):
        target_family = _with_features(target_family, draft_family)
    if isinstance(draft_family, SharedEncoder):
        target_family = _with_encoder_states(target_family, draft_family)
    return target_family, draft_family


def _with_vocabulary(
    draft: manifest.Exported, target: manifest.Exported, file: Path, folder: Path
) -> manifest.Exported:
    """Copies the list of a draft's tokens, after a check that the target has them all."""
    read_vocabulary(file, target.vocab_size, draft.vocab_size)
    copied = Path("draft") / manifest.VOCABULARY
    shutil.copyfile(file, folder / copied)
    return dataclasses.replace(draft, vocabulary=copied.as_posix())


def _with_common_tokens(
    draft: manifest.Exported, common: CommonTokens, folder: Path
) -> manifest.Exported:
    """Writes which tokens a draft with another tokenizer has in common with its target."""
    written = Path("draft") / manifest.VOCABULARY
    (folder / written).write_text(common.to_json(), encoding="utf-8")
    return dataclasses.replace(draft, vocabulary=written.as_posix())


def _with_proposed_tokens(
    exported: manifest.Exported, draft: Checkpoint, family: Eagle3, folder: Path
) -> manifest.Exported:
    """Writes which of its target's tokens a head proposes that reads all of them, if not all."""
    if family.vocab_size == family.input_vocab_size:
        return exported
    outputs = family.proposed_tokens(draft.weights)
    written = Path("draft") / manifest.VOCABULARY
    maps = {"outputs": outputs, "inputs": list(range(family.input_vocab_size))}
    (folder / written).write_text(json.dumps(maps), encoding="utf-8")
    return dataclasses.replace(
        exported, vocabulary=written.as_posix(), input_vocab_size=family.input_vocab_size
    )


def check_target(target: Checkpoint, family: Family) -> None:
    """Raises EdgespecError if the checkpoint is a draft that works only with its target."""
    reason = None
    if target.vocabulary is not None:
        reason = f"has only some of its target's tokens ({manifest.VOCABULARY})"
    elif isinstance(family, Eagle):
        reason = "reads its target's hidden states (an EAGLE head)"
    elif isinstance(family, SharedEncoder):
        reason = "reads its target's encoder"
    if reason is not None:
        raise EdgespecError(f"{target.label} is a draft that {reason}, so it cannot be a target")


def _with_features(target: Family, draft: Eagle) -> Family:
    """The target that also outputs the hidden states of the layers its EAGLE head reads."""
    if (
        not isinstance(target, DecoderOnly)
        or target.width != draft.target_width
        or not all(1 <= layer <= target.layers for layer in draft.reads)
    ):
        raise EdgespecError(
            f"{draft.label} reads layers {', '.join(map(str, draft.reads))} of a Llama-like target "
            f"of width {draft.target_width}, and {target.label} is not one; pair it with the "
            "target it was trained for"
        )
    return dataclasses.replace(target, read_layers=draft.reads)


def _with_encoder_states(target: Family, draft: SharedEncoder) -> Family:
    """The target whose encoder also returns its states."""
    if not isinstance(target, T5) or target.width != draft.target_width:
        raise EdgespecError(
            f"{draft.label} reads the encoder of a T5 of width {draft.target_width}, and "
            f"{target.label} is not one; pair it with the target it was trained for"
        )
    return dataclasses.replace(target, shows_encoder=True)


def _check_pair(
    target: Checkpoint, target_family: Family, draft: Checkpoint, draft_family: Family
) -> None:
    if (target_family.start_token is None) != (draft_family.start_token is None):
        raise EdgespecError(
            f"{target.label} and {draft.label} cannot be paired: one has an encoder, one has none"
        )
    if _sound(target_family) != _sound(draft_family):
        raise EdgespecError(
            f"{target.label} and {draft.label} cannot be paired: one reads "
            f"{_sound(target_family)}, one {_sound(draft_family)}"
        )
    _check_vocabulary(draft, draft_family, target_family)


def _sound(family: Family) -> str:
    """What the encoder of a model reads."""
    if not isinstance(family, Whisper):
        return "text"
    return f"{STRIDE * family.source} frames of sound in {family.mel_bins} bands"


def _common_tokens(
    target: Checkpoint, target_family: Family, draft: Checkpoint, draft_family: Family
) -> CommonTokens | None:
    """What two models with different tokenizers have in common; None if they have the same one.

    Raises:
        EdgespecError: nothing, or the draft was trained for another target.
    """
    difference = same_tokenizer(target.tokenizer, draft.tokenizer)
    if difference is None:
        return None
    differ = f"the tokenizers of {target.label} and {draft.label} differ: {difference}"
    if draft.vocabulary is not None or draft_family.features:
        raise EdgespecError(f"{differ}; pair the draft with the target that it was trained for")
    try:
        common = common_tokens(
            target.tokenizer,
            draft.tokenizer,
            ends=(target.eos_token_ids, draft.eos_token_ids),
            sizes=(target_family.vocab_size, draft_family.vocab_size),
        )
    except NoCommonTokensError as reason:
        raise EdgespecError(f"{differ}; {reason}, so this draft can propose nothing") from None
    count = len(common.common[0])
    share = count / draft.tokenizer.get_vocab_size()
    _log.warning(
        "%s; it drafts the %s tokens that both have, %.0f %% of its own",
        differ,
        f"{count:,}",
        100 * share,
    )
    return common


def _check_tokens_around(target: Checkpoint, family: Family) -> None:
    """Refuses a target whose tokenizer puts a token around every text that the model lacks."""
    for token in target.tokenizer.encode("").ids:
        if token >= family.vocab_size:
            name = target.tokenizer.id_to_token(token)
            raise EdgespecError(
                f"{target.label}: its tokenizer puts {name!r} around a text, which is token "
                f"{token}, and the model has {family.vocab_size}; to have tokenizer.json as it is, "
                "set tokenizer_class in tokenizer_config.json to PreTrainedTokenizerFast"
            )


def _check_vocabulary(draft: Checkpoint, family: Family, target: Family) -> None:
    """Refuses a draft with a reduced vocabulary that lacks the list of its tokens.

    Without the list it would be read as if it had the target's first tokens. Tokens that the target
    lacks, too, do not count. A published EAGLE-3 head has the list among its tensors.
    """
    if isinstance(family, Eagle3):
        family.proposed_tokens(draft.weights)
        return
    tokens = min(draft.tokenizer.get_vocab_size(), target.vocab_size)
    if draft.vocabulary is None and family.vocab_size < tokens:
        raise EdgespecError(
            f"{draft.label} has {family.vocab_size} of its tokenizer's {tokens} tokens, and no "
            f"{manifest.VOCABULARY} that lists them; put that file back, or choose another draft"
        )


def _write_model(
    checkpoint: Checkpoint,
    family: Family,
    folder: Path,
    role: str,
    formats: Sequence[str],
    caches: Sequence[str],
    calibration: Calibration,
    progress: Progress,
    shard_bytes: int,
    inline: bool,
) -> manifest.Exported:
    if isinstance(family, Whisper):
        _write_speech_format(checkpoint, family, folder / role)
    variants = {}
    for format_ in dict.fromkeys(formats):  # without repetitions
        relative = Path(role) / format_
        (folder / relative).mkdir(parents=True, exist_ok=True)
        done = progress(f"{role} {format_}", float32_bytes(checkpoint))
        decoders = {cache: _with_cache(DECODER, cache) for cache in caches}
        scratch = folder / "calibration"
        with calibrated(format_, checkpoint, family, calibration, scratch) as number_format:
            fusions = write_graphs(
                checkpoint.weights,
                family,
                folder / relative,
                number_format=number_format,
                attentions={
                    file: attention_for(family.heads, cache) for cache, file in decoders.items()
                },
                progress=done,
                shard_bytes=shard_bytes,
                inline=inline,
            )
        for cache, decoder in decoders.items():
            files = {**{name: name for name in family.graphs}, DECODER: decoder}
            graphs = {name: (relative / f"{file}.onnx").as_posix() for name, file in files.items()}
            blocks = {
                name: _blocks(fusions[file]) for name, file in files.items() if file in fusions
            }
            said = FORMATS[format_]
            variants[_with_cache(format_, cache)] = manifest.Variant(
                graphs,
                format_,
                cache,
                run_by_kernels=said.run_by_kernels,
                row_cost=said.row_cost,
                blocks=blocks,
            )
            for name in blocks:
                _log.info("%s %s %s: %s", role, format_, files[name], fusions[files[name]])
    return manifest.Exported(
        family=family.family,
        source=checkpoint.label,
        vocab_size=family.vocab_size,
        layers=family.cache_layers,
        kv_heads=family.kv_heads,
        head_size=family.head_size,
        capacity=family.capacity,
        positions=family.positions,
        start_token=family.start_token,
        variants=variants,
        features=family.features,
    )


def _write_speech_format(checkpoint: Checkpoint, family: Whisper, folder: Path) -> None:
    speech = speech_format(
        checkpoint.tokenizer,
        checkpoint.generation,
        mel_bins=family.mel_bins,
        frames=STRIDE * family.source,
        vocab_size=family.vocab_size,
        label=checkpoint.label,
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_speech_format(speech, folder)


def _blocks(fusion: Fusion) -> manifest.FusedBlocks:
    return manifest.FusedBlocks(fusion.fused, fusion.fused + len(fusion.obstacles))


def _with_cache(name: str, cache: str) -> str:
    """The name of a variant or a file; a cache format other than fp32 is part of it."""
    return name if cache == "fp32" else f"{name}-cache-{cache}"


def write_graphs(
    weights: Weights,
    family: Family,
    folder: Path,
    *,
    number_format: NumberFormat,
    attentions: Mapping[str, Attention],
    progress: Advance = lambda _: None,
    shard_bytes: int = sys.maxsize,
    inline: bool = False,
) -> dict[str, Fusion]:
    """Writes every graph of a model and the weights they share into `folder`.

    Returns:
        What was fused in each file, if the format has operators for whole blocks.

    Args:
        attentions: the attention of each decoder file, by the file's name.
        progress: called with the bytes of the checkpoint's tensors that were processed.
        shard_bytes: no file of weights becomes larger.
        inline: replace edgespec's operators by their bodies; nothing is fused then.
    """
    models: dict[str, ir.Model] = {}
    decoders = [(DECODER, file, attention) for file, attention in attentions.items()]
    others = [(name, name, decoders[0][2]) for name in family.graphs if name != DECODER]
    fusions: dict[str, Fusion] = {}
    transformed = number_format.transform_checkpoint(family.view(weights), family.residual_stream())
    with WeightFile(folder / WEIGHTS, transformed, progress, shard_bytes) as weight_file:
        for name, file, attention in others + decoders:
            graph = Graph(name, weight_file)
            family.emit(graph, number_format, attention)
            models[file] = graph.model()
            if inline:
                inline_functions(models[file])
            elif number_format.has_block_operators and graph.blocks:
                fusions[file] = fuse_blocks(models[file], graph.blocks)
        _check_all_read(weight_file, family)
    for name, model in models.items():
        ir.save(model, folder / f"{name}.onnx")
    return fusions


def _check_all_read(file: WeightFile, family: Family) -> None:
    """Refuses a tensor that no graph uses: it is a part of the model that the graphs lack."""
    unread = sorted(name for name in file.unread if not family.redundant.fullmatch(name))
    if unread:
        raise EdgespecError(
            f"{family.label}: the checkpoint has {len(unread)} tensors that its config does not "
            f"account for, such as {unread[0]!r}; config.json belongs to another model"
        )


def float32_bytes(checkpoint: Checkpoint) -> int:
    """Bytes of all tensors of a checkpoint as float32."""
    weights = checkpoint.weights
    return 4 * sum(int(np.prod(weights.shape(name))) for name in weights.names())
