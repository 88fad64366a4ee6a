"""The models that have a short name: what each takes to download, to keep and to run."""

from __future__ import annotations

from dataclasses import dataclass

from edgespec_export.catalogue import proposed_draft
from edgespec_export.checkpoint.sources import ALIASES

__all__ = ["AvailableModel", "available_models"]

# Parameters in millions, by the short name's beginning and its size.
PARAMETERS: dict[str, dict[str, int]] = {
    "t5": {"small": 77, "base": 248, "large": 783, "xl": 2850, "xxl": 11135},
    "flan-t5": {"small": 77, "base": 248, "large": 783, "xl": 2850, "xxl": 11135},
    "mt5": {"small": 300, "base": 582, "large": 1230, "xl": 3742, "xxl": 12921},
    "byt5": {"small": 300, "base": 582, "large": 1229, "xl": 3740, "xxl": 12900},
    "madlad400": {"3b": 2940, "7b": 8300, "10b": 10710},
    "smollm2": {"135m": 135, "360m": 362, "1.7b": 1711},
    "qwen2.5": {
        **{"0.5b": 494, "1.5b": 1544, "3b": 3086, "7b": 7616},
        **{"14b": 14770, "32b": 32764, "72b": 72706},
    },
    "qwen3": {"0.6b": 596, "1.7b": 1721, "4b": 4022, "8b": 8191, "14b": 14768, "32b": 32762},
    "gemma3": {"270m": 268, "1b": 1000, "4b": 3880, "12b": 11800, "27b": 27000},
    "llama3": {".2-1b": 1236, ".2-3b": 3213, ".1-8b": 8030, ".1-70b": 70554, ".3-70b": 70554},
}
LICENCES = {
    **dict.fromkeys(("t5", "flan-t5", "mt5", "byt5", "madlad400"), "Apache-2.0"),
    **{"smollm2": "Apache-2.0", "qwen2.5": "Apache-2.0", "qwen3": "Apache-2.0"},
    **{"gemma3": "Gemma terms", "llama3": "Llama community"},
}
# Sizes whose licence is not their family's.
OWN_LICENCES = {"qwen2.5-3b": "Qwen research", "qwen2.5-72b": "Qwen licence"}
# Millions of numbers that a repository holds beside the target's own: a second copy of the table of
# embeddings, or what sees images.
ALSO_STORED = {
    **{"qwen3-0.6b": 156, "qwen3-1.7b": 311},
    **{"gemma3-4b": 420, "gemma3-12b": 422, "gemma3-27b": 423},
}
FLOAT32 = ("t5", "flan-t5", "mt5", "byt5", "madlad400")  # checkpoints of 4 bytes a parameter

# What a parameter takes in int8, with its scales, and in memory, where kernels pack it again. The
# rest is the runtime's, tokenizer's and cache's own.
INT8_BYTES = 1.03
MEMORY_BYTES = 1.15
OWN_MEMORY = 200_000_000


@dataclass(frozen=True)
class AvailableModel:
    """A model that commands know by a short name; sizes are estimates, those of the draft included.

    Attributes:
        name: the short name.
        repository: its hub id.
        parameters: of the target.
        draft: the draft's hub id; None where the pair drafts by prompt lookup.
        licence: the target's, for people.
        download_bytes: of the checkpoints.
        export_bytes: of the folder, in int8.
        memory_bytes: while it runs, in int8.
    """

    name: str
    repository: str
    parameters: int
    draft: str | None
    licence: str
    download_bytes: int
    export_bytes: int
    memory_bytes: int


def available_models() -> list[AvailableModel]:
    """Those of `ALIASES`, in its order."""
    parameters = {
        f"{family}{'' if family == 'llama3' else '-'}{size}": millions * 1_000_000
        for family, sizes in PARAMETERS.items()
        for size, millions in sizes.items()
    }
    sizes = {repository: parameters[name] for name, repository in ALIASES.items()}
    return [_model(name, repository, sizes) for name, repository in ALIASES.items()]


def _model(name: str, repository: str, sizes: dict[str, int]) -> AvailableModel:
    proposal = proposed_draft(repository)
    draft = proposal.draft if proposal else None
    family = _family(name)
    count = sizes[repository]
    with_draft = count + _size_of(draft, sizes)
    downloaded = sum(_stored(model, sizes) for model in (repository, draft) if model)
    stored = 4 if family in FLOAT32 else 2
    return AvailableModel(
        name,
        repository,
        count,
        draft,
        OWN_LICENCES.get(name, LICENCES[family]),
        downloaded * stored,
        round(with_draft * INT8_BYTES),
        round(with_draft * MEMORY_BYTES) + OWN_MEMORY,
    )


def _stored(repository: str, sizes: dict[str, int]) -> int:
    """Numbers in the files of a model."""
    name = next(name for name, known in ALIASES.items() if known == repository)
    return sizes[repository] + ALSO_STORED.get(name, 0) * 1_000_000


def _size_of(draft: str | None, sizes: dict[str, int]) -> int:
    """Parameters of a proposed draft, all of which have short names."""
    return 0 if draft is None else sizes[draft]


def _family(name: str) -> str:
    """The longest beginning that is a family's."""
    return max((family for family in PARAMETERS if name.startswith(family)), key=len)
