"""Whether a target and a draft go together, and what each must know of the other."""

from __future__ import annotations

from dataclasses import dataclass

from edgespec.artifact.manifest import VOCABULARY
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.checkpoint import Checkpoint
from edgespec_export.draft_tokens import draft_tokens
from edgespec_export.families import Family
from edgespec_export.families.tensor_check import fitted

__all__ = ["PairedDraft", "check_target", "pair_models"]


@dataclass(frozen=True)
class PairedDraft:
    """A draft that goes with its target.

    Attributes:
        tokens: the content of its `draft_vocabulary.json`; None if all tokens are its target's.
    """

    checkpoint: Checkpoint
    family: Family
    tokens: bytes | None


def pair_models(target: Checkpoint, draft: Checkpoint | None) -> tuple[Family, PairedDraft | None]:
    """The family of a target, which outputs what its draft reads of it, and the draft, if any.

    Raises:
        EdgespecError: a model is of no known family, its tensors are not those of its config, or
            the two do not go together.
    """
    family = fitted(target)
    check_target(target, family)
    _check_tokens_around(target, family)
    if draft is None:
        return family, None
    draft_family = fitted(draft)
    family = draft_family.prepared_target(family)
    tokens = draft_tokens(target, family, draft, draft_family)
    return family, PairedDraft(draft, draft_family, tokens)


def check_target(target: Checkpoint, family: Family) -> None:
    """Raises EdgespecError if the checkpoint is a draft that works only with its target."""
    reason = None
    if target.vocabulary is not None:
        reason = f"has only some of its target's tokens ({VOCABULARY})"
    elif family.target_inputs is not None:
        reason = f"reads {family.target_inputs}"
    if reason is not None:
        raise EdgespecError(f"{target.label} is a draft that {reason}, so it cannot be a target")


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
