"""The contests of compare_chat.py: who takes part, with which weights, decoding how."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace

PEERS = ("llama.cpp", "ik_llama.cpp", "openvino", "ort-genai", "optimum")
DRAFTS = {
    "both": "draft and lookup, γ auto",
    "model": "draft model, γ auto",
    "lookup": "lookup, γ auto",
    "none": "plain",
}


# Modes with a draft model, and their options: each peer's default number of tokens, and another.
DRAFT_MODELS = {
    "llama.cpp": {
        f"draft model, {most}": ("--spec-type", "draft-simple", "--spec-draft-n-max", str(most))
        for most in (3, 6)
    },
    "ik_llama.cpp": {f"draft model, {most}": ("--draft-max", str(most)) for most in (3, 16)},
}


@dataclass(frozen=True)
class Way:
    """A peer, or edgespec itself, with its weights and how it decodes.

    Attributes:
        options: arguments of its process.
    """

    peer: str
    weights: str
    mode: str
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.peer} {self.weights}, {self.mode}"

    @property
    def plain(self) -> str:
        """The name of the same model's way without speculation."""
        return f"{self.peer} {self.weights}, plain"


@dataclass(frozen=True)
class Contest:
    """edgespec in one format against the peers' ways with at most as many bits per weight.

    Attributes:
        format: edgespec's.
        drafts: edgespec's ways, keys of `DRAFTS`. The first is compared with the peers.
    """

    format: str
    opponents: tuple[Way, ...]
    drafts: tuple[str, ...] = tuple(DRAFTS)

    @property
    def ways(self) -> tuple[Way, ...]:
        return (*self.opponents, *(self._our_way(draft) for draft in self.drafts))

    @property
    def ours(self) -> Way:
        """The way that is compared with the peers."""
        return self._our_way(self.drafts[0])

    @property
    def our_plain(self) -> Way:
        return self._our_way("none")

    def among(self, peers: Collection[str]) -> Contest:
        """The contest with these peers only."""
        return replace(self, opponents=tuple(way for way in self.opponents if way.peer in peers))

    def with_draft_model(self, draft: str) -> Contest:
        """The contest with a draft model, a GGUF file, for the peers that take one."""
        plain = (way for way in self.opponents if way.mode == "plain")
        drafting = [
            replace(
                way,
                mode=mode,
                options=(*way.options, *("--model-draft", draft), *options),
            )
            for way in plain
            for mode, options in DRAFT_MODELS.get(way.peer, {}).items()
        ]
        return replace(self, opponents=(*self.opponents, *drafting))

    def _our_way(self, draft: str) -> Way:
        return Way("edgespec", self.format, DRAFTS[draft], ("--draft", draft))


def llama(weights: str) -> tuple[Way, ...]:
    """Plain, and n-gram lookup: 3 tokens that occurred before propose the next 8 or 4.

    Its defaults (12 tokens propose 48) find nothing in prompts as short as these. The kinds that
    remember earlier requests (ngram-mod, ngram-cache) would propose the previous repeat's text.
    """
    lookup = ("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "3")
    return (
        Way("llama.cpp", weights, "plain"),
        Way("llama.cpp", weights, "ngram 3, 8", (*lookup, "--spec-ngram-simple-size-m", "8")),
        Way("llama.cpp", weights, "ngram 3, 4", (*lookup, "--spec-ngram-simple-size-m", "4")),
    )


def ik_llama(weights: str) -> tuple[Way, ...]:
    """Plain, and n-gram lookup as llama.cpp's; weights are repacked for the processor."""
    repack = "--run-time-repack"
    lookup = (repack, "--spec-type", "ngram-simple", "--spec-ngram-size-n", "3")
    return (
        Way("ik_llama.cpp", weights, "plain", (repack,)),
        Way("ik_llama.cpp", weights, "ngram 3, 8", (*lookup, "--spec-ngram-size-m", "8")),
        Way("ik_llama.cpp", weights, "ngram 3, 4", (*lookup, "--spec-ngram-size-m", "4")),
    )


def openvino(weights: str) -> tuple[Way, ...]:
    """Plain, and its sample's prompt lookup: at most 3 tokens propose the next 5."""
    return (
        Way("openvino", weights, "plain"),
        Way("openvino", weights, "lookup 3, 5", ("--lookup", "5", "3")),
    )


def ort_genai(weights: str) -> tuple[Way, ...]:
    """Plain, and n-gram lookup with a fixed and with an adaptive length."""
    fixed = {"ngram_size": 3, "max_draft_tokens": 4}
    adaptive = {"ngram_size": 3, "max_draft_tokens": 8, "min_adaptive_k": 1, "cooldown": True}
    return (
        Way("ort-genai", weights, "plain"),
        Way("ort-genai", weights, "ngram 3, 4", ("--speculative", json.dumps(fixed))),
        Way("ort-genai", weights, "ngram 3, ≤ 8", ("--speculative", json.dumps(adaptive))),
    )


def ort_genai_last(weights: str) -> tuple[Way, ...]:
    """A model that computes no logits of a prompt but the last: the fastest for long prompts."""
    return (Way("ort-genai", f"{weights}-last", "plain"),)


def optimum(weights: str) -> tuple[Way, ...]:
    """optimum's model under transformers' generation, plain and with its prompt lookup."""
    return (
        Way("optimum", weights, "plain"),
        Way("optimum", weights, "lookup 5", ("--lookup", "5")),
    )


FOUR_BITS = (
    *llama("Q4_0"),
    *llama("Q4_K_M"),
    *ik_llama("Q4_0"),
    *openvino("int4"),
    *openvino("Q4_0"),
    *ort_genai("int4"),
    *ort_genai("int4-b128"),
    *ort_genai_last("int4"),
)
CONTESTS = {
    "4 bits": Contest("int4", FOUR_BITS),
    "8 bits": Contest(
        "int8",
        (
            *llama("Q8_0"),
            *ik_llama("Q8_0"),
            *openvino("int8"),
            *openvino("Q8_0"),
            *ort_genai("int8"),
            *ort_genai_last("int8"),
            *optimum("int8"),
        ),
    ),
    "16 bits": Contest(
        "fp16",
        (
            *llama("F16"),
            *llama("BF16"),
            *ik_llama("F16"),
            *ik_llama("BF16"),
            *openvino("F16"),
            *ort_genai("fp16"),
        ),
    ),
    "32 bits": Contest("fp32", (*ort_genai("fp32"), *optimum("fp32"))),
    "4 bits, ours 8": Contest("int8", FOUR_BITS),
}
