"""The input of Tables 3 and 5: an exported pair and a file of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgespec.artifact.manifest import read_manifest
from edgespec.artifact.text_file import read_lines
from edgespec.core.model import Model
from edgespec.device.device import Device
from edgespec.drafters.vocabulary_map import Vocabulary, open_vocabulary
from edgespec.pair.opening.runtime import open_model
from edgespec.pair.tokenizer import load_tokenizer

__all__ = ["TASKS", "Material", "open_material"]

TASKS = {"ende": "EnDe", "cnndm": "CNNDM"}  # the option's value and the paper's name
MAX_PROMPT = 512


@dataclass(frozen=True)
class Material:
    """A pair, its prompts and its reference texts.

    Attributes:
        vocabulary: of the draft.
        prompts: token ids, one list per line of the data.
        references: token ids in which to count n-grams; every text ends with an end token.
        start: the token id before a text's first token.
        ends: token ids that end a text.
        name: a description, for people.
    """

    target: Model
    draft: Model | None
    vocabulary: Vocabulary
    draft_name: str
    prompts: Sequence[Sequence[int]]
    references: Sequence[Sequence[int]]
    start: int
    ends: tuple[int, ...]
    name: str


def open_material(
    pair: Path, data: Path, ngrams: Path | None, prefix: str, threads: int | None
) -> Material:
    """Opens a pair and its texts.

    Args:
        data: each line is a source and, after a tab, its reference if there is one.
        ngrams: lines in which to count n-grams, in the same format or only references;
            None: `data`.
        prefix: put before each source ("translate English to German: ").
        threads: of each model; None: as many as the device has.

    Raises:
        EdgespecError: a file or the pair cannot be read.
    """
    manifest, device = read_manifest(pair), Device(threads)
    variant, measured = next(iter(manifest.target.variants.items()))
    min_rows = measured.row_invariance.min_rows if measured.row_invariance else 2
    target = open_model(pair, manifest.target, variant, device=device, min_rows=min_rows)
    draft = None
    if manifest.draft is not None:
        format_ = next(iter(manifest.draft.variants))
        draft = open_model(
            pair,
            manifest.draft,
            format_,
            capacity=target.capacity,
            device=device,
            target=target,
        )
    tokenizer = load_tokenizer(pair)
    ends = tuple(manifest.eos_token_ids)
    sources = [prefix + line.split("\t")[0] for line in read_lines(data)]
    references = [line.split("\t")[-1] for line in read_lines(ngrams or data)]
    encoded = [list(tokenizer.encode(text).ids) for text in references]
    start = manifest.target.start_token
    return Material(
        target,
        draft,
        open_vocabulary(pair, manifest),
        Path(manifest.draft.source).name if manifest.draft else "",
        [tokenizer.encode(text).ids[-MAX_PROMPT:] for text in sources],
        [text if text[-1:] and text[-1] in ends else [*text, ends[0]] for text in encoded],
        ends[0] if start is None else start,
        ends,
        f"{manifest.target.source} ({variant}), {len(sources)} prompts of {data.name}",
    )
