"""Which draft to take for a well-known target: a smaller model with the same tokenizer.

A draft pays where it is much cheaper than its target. Targets of less than about six times the
parameters of their smallest relative are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Proposal", "proposed_draft"]


@dataclass(frozen=True)
class Proposal:
    """A draft for a target.

    Attributes:
        draft: its hub id.
        reason: why it fits, to be shown.
    """

    draft: str
    reason: str


@dataclass(frozen=True)
class _Relatives:
    """Models of one tokenizer.

    Attributes:
        draft: hub id of the smallest.
        parameters: of the draft, in millions.
        name: hub id of a target, with "{}" for its size.
        targets: the sizes, each with its parameters in millions.
    """

    draft: str
    parameters: int
    name: str
    targets: dict[str, int]


_T5_SIZES = {"large": 780, "xl": 2850, "xxl": 11300}
_QWEN25_SIZES = {"3B": 3090, "7B": 7620, "14B": 14800, "32B": 32800, "72B": 72700}

_FAMILIES = (
    _Relatives("google/t5-v1_1-small", 77, "google/t5-v1_1-{}", _T5_SIZES),
    _Relatives("google/flan-t5-small", 77, "google/flan-t5-{}", _T5_SIZES),
    _Relatives("google/mt5-small", 300, "google/mt5-{}", {"xl": 3740, "xxl": 12900}),
    _Relatives("google/byt5-small", 300, "google/byt5-{}", {"xl": 3740, "xxl": 12900}),
    _Relatives(
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        135,
        "HuggingFaceTB/SmolLM2-{}-Instruct",
        {"1.7B": 1710},
    ),
    _Relatives("HuggingFaceTB/SmolLM2-135M", 135, "HuggingFaceTB/SmolLM2-{}", {"1.7B": 1710}),
    _Relatives("Qwen/Qwen2.5-0.5B-Instruct", 494, "Qwen/Qwen2.5-{}-Instruct", _QWEN25_SIZES),
    _Relatives("Qwen/Qwen2.5-0.5B", 494, "Qwen/Qwen2.5-{}", _QWEN25_SIZES),
    _Relatives(
        "Qwen/Qwen2.5-Coder-0.5B-Instruct",
        494,
        "Qwen/Qwen2.5-Coder-{}-Instruct",
        {"3B": 3090, "7B": 7620, "14B": 14800, "32B": 32800},
    ),
    _Relatives(
        "Qwen/Qwen3-0.6B",
        596,
        "Qwen/Qwen3-{}",
        {"4B": 4020, "8B": 8190, "14B": 14800, "32B": 32800},
    ),
    _Relatives(
        "google/gemma-3-270m-it",
        268,
        "google/gemma-3-{}-it",
        {"4b": 3880, "12b": 11800, "27b": 27000},
    ),
    _Relatives(
        "meta-llama/Llama-3.2-1B-Instruct",
        1240,
        "meta-llama/Llama-{}-Instruct",
        {"3.1-8B": 8030, "3.1-70B": 70600, "3.3-70B": 70600},
    ),
)


def proposed_draft(target: str) -> Proposal | None:
    """The draft for a target on the hub, by the target's id; None if none is known."""
    for family in _FAMILIES:
        for size, parameters in family.targets.items():
            if target.lower() == family.name.format(size).lower():
                times = round(parameters / family.parameters)
                reason = f"it has the same tokenizer and {times} times fewer parameters"
                return Proposal(family.draft, reason)
    return None
