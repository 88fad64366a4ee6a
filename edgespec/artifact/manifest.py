"""What an exported model is: the names in its graphs and the manifest beside them.

Export writes this, runtimes read it, and neither imports the other. docs/reference/folder-format.md says the same
for readers in other languages.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from edgespec.artifact.chat_format import ChatFormat
from edgespec.artifact.graph_io import CACHE_FORMATS, DECODER, MAX_ROWS
from edgespec.artifact.integrity import check_file
from edgespec.artifact.typed_json import ADDED_LATER, parsed, write_json
from edgespec.errors import EdgespecError

__all__ = [
    "FORMAT_VERSION",
    "MANIFEST",
    "TOKENIZER",
    "VOCABULARY",
    "WEIGHTS",
    "Distance",
    "Exported",
    "FusedBlocks",
    "Manifest",
    "RowInvariance",
    "Variant",
    "read_manifest",
    "write_manifest",
]

FORMAT_VERSION = 1
MANIFEST = "edgespec.json"
TOKENIZER = "tokenizer.json"
# Beside a draft that has only some of its target's tokens: {"outputs": […], "inputs": […]}.
VOCABULARY = "draft_vocabulary.json"
WEIGHTS = "weights.data"  # beside the graphs that read it


@dataclass(frozen=True)
class RowInvariance:
    """Whether a position's logits are bitwise the same whatever else is in the call.

    Attributes:
        verdict: true if they were, for every number of positions from `min_rows` to `max_rows` and
            with the other rows changed. Only then may the variant be a target.
        min_rows: the fewest positions a call may hold (1, or 2 where one position is another
            kernel: a single token is then padded, and the cache rewound).
        max_rows: the most positions that were tried.
        one_row_difference: largest |difference| of a logit between a call of one position and
            longer calls.
        measured_on: what ran it: runtime, provider, threads, processor.
        candidates: another guess at a place has the logits, and leaves the keys and values, that it
            has as the only one.
    """

    is_row_invariant: bool
    min_rows: int
    max_rows: int
    one_row_difference: float
    measured_on: str
    candidates: bool = field(default=False, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        if not 1 <= self.min_rows <= self.max_rows <= MAX_ROWS:
            raise ValueError(f"min_rows is {self.min_rows}, max_rows {self.max_rows}")


@dataclass(frozen=True)
class Distance:
    """How far a variant's distributions are from those of another variant, on a sample of text.

    Attributes:
        reference: the other variant ("fp32").
        kl: mean KL(reference, variant) of the next token's distribution at temperature 1, in nats.
        top1: share of positions where both have the same most probable token.
        perplexity, reference_perplexity: of the sample's tokens under each.
        positions: in the sample.
    """

    reference: str
    kl: float
    top1: float
    perplexity: float
    reference_perplexity: float
    positions: int

    def __str__(self) -> str:
        return (
            f"KL {self.kl:.4f} from {self.reference}, same first choice {self.top1:.1%}, "
            f"perplexity {self.perplexity:.2f} ({self.reference} {self.reference_perplexity:.2f})"
        )


@dataclass(frozen=True)
class FusedBlocks:
    """How many blocks of a graph's layers one operator each computes.

    Attributes:
        fused: blocks that are one operator.
        total: blocks of the graph's layers. Those that are not fused run as several operators,
            more slowly where kernels are installed.
    """

    fused: int
    total: int

    def __post_init__(self) -> None:
        if not 0 <= self.fused <= self.total:
            raise ValueError(f"fused is {self.fused}, total {self.total}")


@dataclass(frozen=True)
class Variant:
    """One set of graphs of a model: the same weights and cache in one number format each.

    Attributes:
        graphs: graph name to file, relative to the manifest's folder. Variants that differ only in
            their cache share the other files.
        row_invariance: measured by the export; None until then.
        distance: from the "fp32" variant, where one was exported along.
        cache: format of the self-attention's keys and values, one of `CACHE_FORMATS`.
        blocks: graph name to the blocks that are fused, for number formats with operators that
            compute whole blocks.
    """

    graphs: dict[str, str]
    row_invariance: RowInvariance | None = None
    distance: Distance | None = None
    cache: str = field(default="fp32", metadata=ADDED_LATER)
    blocks: dict[str, FusedBlocks] = field(default_factory=dict, metadata=ADDED_LATER)


@dataclass(frozen=True)
class Exported:
    """A target or a draft: what a runtime must know to run its graphs.

    Attributes:
        family: "t5", "llama" or, of a draft only, "eagle".
        source: where the weights came from, for people.
        vocab_size: width of a row of logits.
        layers: decoder layers, each with one pair of self-attention buffers.
        kv_heads: heads of those buffers.
        head_size: width of a head.
        capacity: positions a cache should hold unless the caller says otherwise.
        positions: that the model can tell apart, the most a cache may hold; None if no limit.
        start_token: first decoder token of an encoder-decoder; None for decoder-only models.
        variants: number format to graphs.
        vocabulary: of a draft that has only some of its target's tokens: the file that says which,
            relative to the manifest's folder.
        features: numbers that a target shows of each position, or that a draft reads; 0 for others.
    """

    family: str
    source: str
    vocab_size: int
    layers: int
    kv_heads: int
    head_size: int
    capacity: int
    positions: int | None
    start_token: int | None
    variants: dict[str, Variant]
    vocabulary: str | None = field(default=None, metadata=ADDED_LATER)
    features: int = field(default=0, metadata=ADDED_LATER)


@dataclass(frozen=True)
class Manifest:
    """Everything in an exported folder, from `edgespec.json`.

    Attributes:
        eos_token_ids: tokens that end a text.
        chat: the texts around messages; None for models that do not chat.
        target, draft: the models; a pair without draft can still use prompt lookup.
        files: every file of the folder but the manifest, relative path to {"bytes": size,
            "sha256": digest}; earlier exports have no digest of weights.
        created_by: the exporter and its version.
        version: of this format.
    """

    eos_token_ids: tuple[int, ...]
    chat: ChatFormat | None
    target: Exported
    draft: Exported | None
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    created_by: str = ""
    version: int = FORMAT_VERSION

    def bytes(self, role: str, variant: str) -> int:
        """Size of a variant of the "target" or the "draft": its graphs and their weights."""
        model = self.target if role == "target" else self.draft
        graphs = set(model.variants[variant].graphs.values()) if model else set()
        weights = {str(PurePosixPath(graph).with_name(WEIGHTS)) for graph in graphs}
        return sum(self.files[name]["bytes"] for name in (graphs | weights) & self.files.keys())


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Writes `edgespec.json`; `read_manifest` gives the same object back."""
    write_json(dataclasses.asdict(manifest), folder / MANIFEST)


def read_manifest(folder: Path) -> Manifest:
    """Reads and checks `edgespec.json`, and that every file it names is there in full; weights by
    their size (`recorded_files.check_weights` reads them).

    Raises:
        EdgespecError: no manifest, not this format, a newer version, a path that leaves the folder,
            a file that is missing, cut short or changed.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise EdgespecError(
            f"{folder} has no {MANIFEST}, so it is not an exported pair; "
            "make one with: edgespec export TARGET DRAFT -o DIR"
        )
    try:
        manifest = _manifest(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise EdgespecError(f"{path} is damaged ({error}); export the pair again") from None
    for name, record in manifest.files.items():
        check_file(folder, name, record)
    vocabulary = manifest.draft and manifest.draft.vocabulary
    listed = {TOKENIZER, *([vocabulary] if vocabulary else [])} | {
        graph
        for model in (manifest.target, manifest.draft)
        if model
        for variant in model.variants.values()
        for graph in variant.graphs.values()
    }
    for name in sorted(listed - set(manifest.files)):
        raise EdgespecError(f"{path} does not record {name!r} among its files; export it again")
    return manifest


def _manifest(data: dict[str, Any]) -> Manifest:
    version = data["version"]
    if version != FORMAT_VERSION:
        raise EdgespecError(
            f"the pair has format version {version} and this edgespec reads {FORMAT_VERSION}; "
            "update edgespec or export the pair again"
        )
    manifest: Manifest = parsed(Manifest, data, "manifest")
    for model in (manifest.target, manifest.draft):
        variants = model.variants.values() if model else ()
        if model and not (variants and all(DECODER in variant.graphs for variant in variants)):
            raise ValueError(f"a variant of {model.source} has no {DECODER}")
        if model:
            _check_sizes(model)
        for variant in variants:
            if variant.cache not in CACHE_FORMATS:
                raise ValueError(f"cache is {variant.cache!r}")
    return manifest


def _check_sizes(model: Exported) -> None:
    for name in ("vocab_size", "layers", "kv_heads", "head_size", "capacity"):
        if getattr(model, name) < 1:
            raise ValueError(f"{name} is {getattr(model, name)}")
    if model.features < 0 or (model.start_token or 0) < 0:
        raise ValueError(f"features is {model.features}, start_token {model.start_token}")
