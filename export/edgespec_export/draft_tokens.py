"""Which of its target's tokens a draft reads and proposes."""

from __future__ import annotations

import json
import logging

from edgespec.artifact.manifest import VOCABULARY
from edgespec.drafters.vocabulary_map import read_vocabulary
from edgespec.errors import EdgespecError
from edgespec_export.checkpoint.checkpoint import Checkpoint
from edgespec_export.checkpoint.tokenizer.common_tokens import (
    CommonTokens,
    NoCommonTokensError,
    common_tokens,
)
from edgespec_export.checkpoint.tokenizer.tokenizer_diff import same_tokenizer
from edgespec_export.families import Family

__all__ = ["draft_tokens"]

_log = logging.getLogger("edgespec")


def draft_tokens(
    target: Checkpoint, target_family: Family, draft: Checkpoint, draft_family: Family
) -> bytes | None:
    """The content of a draft's `draft_vocabulary.json`; None if all tokens are its target's.

    A distilled draft has it as a file, a published EAGLE-3 head among its tensors, and for a draft
    with another tokenizer it is made of what the two tokenizers spell alike.

    Raises:
        EdgespecError: the list is missing or wrong, the two models have no token in common, or the
            draft was trained for another target.
    """
    listed = draft_family.proposed_tokens(draft.weights)
    if listed is None:
        _check_has_list(draft, draft_family, target_family)
    common = _common_tokens(target, target_family, draft, draft_family)
    if draft.vocabulary is not None:
        read_vocabulary(draft.vocabulary, target_family.vocab_size, draft_family.vocab_size)
        return draft.vocabulary.read_bytes()
    if common is not None:
        return common.to_json().encode()
    reads = draft_family.input_vocab_size
    if listed is None or reads is None or reads == draft_family.vocab_size:
        return None
    return json.dumps({"outputs": listed, "inputs": list(range(reads))}).encode()


def _check_has_list(draft: Checkpoint, family: Family, target: Family) -> None:
    """Refuses a draft with a reduced vocabulary that lacks the list of its tokens.

    Without the list it would be read as if it had the target's first tokens. Tokens that the target
    lacks, too, do not count.
    """
    tokens = min(draft.tokenizer.get_vocab_size(), target.vocab_size)
    if draft.vocabulary is None and family.vocab_size < tokens:
        raise EdgespecError(
            f"{draft.label} has {family.vocab_size} of its tokenizer's {tokens} tokens, and no "
            f"{VOCABULARY} that lists them; put that file back, or choose another draft"
        )


def _common_tokens(
    target: Checkpoint, target_family: Family, draft: Checkpoint, draft_family: Family
) -> CommonTokens | None:
    """What two models with different tokenizers have in common; None if they have the same one.

    Raises:
        EdgespecError: nothing, or the draft was trained for another target.
    """
    difference = same_tokenizer(
        target.tokenizer,
        draft.tokenizer,
        max(target_family.vocab_size, draft_family.vocab_size),
    )
    if difference is None:
        return None
    differ = f"the tokenizers of {target.label} and {draft.label} differ: {difference}"
    if draft.vocabulary is not None or draft_family.target_inputs is not None:
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
