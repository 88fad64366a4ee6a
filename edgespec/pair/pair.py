"""A loaded pair: the API that applications embed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from edgespec.artifact.manifest import Manifest
from edgespec.core.controller import Confident, Controller, controller
from edgespec.core.cost_model import Costs
from edgespec.core.decode import Round, plain, speculate
from edgespec.core.device import Device
from edgespec.core.draft import Drafter
from edgespec.core.model import Model, candidate_model_of
from edgespec.core.randomness import Seeded
from edgespec.core.sampling import Sampling, SamplingProcessor
from edgespec.core.verification import RULES
from edgespec.drafters.alternating import AlternatingDrafter
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec.drafters.prompt_lookup import PromptLookup
from edgespec.drafters.registry import KINDS
from edgespec.drafters.vocabulary_map import Vocabulary
from edgespec.errors import EdgespecError, UsageError
from edgespec.pair.generation import Generation, Settings, StopCondition, Stream, stream_of
from edgespec.pair.profile import Profile
from edgespec.pair.prompt import PromptInput, encoded
from edgespec.pair.tokenizer import GrowingText

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["Pair"]


class Pair:
    """A target, perhaps a draft, and their tokenizer; `edgespec.load` makes it. One text at a time.

    Attributes:
        manifest: what the folder says about itself.
        tokenizer: a `tokenizers.Tokenizer`.
        target, draft: the models (`edgespec.core.model.Model`); the draft may be None.
        vocabulary: which of the target's tokens the draft has.
        costs: of rounds with a draft "model" and with prompt "lookup"; what γ "auto" goes by.
        formats: which variants of the target and of the draft were loaded.
        devices: where the target and the draft run.

    Args:
        tuned: what `edgespec tune` found for these variants on this machine.
        exact: this machine has found the target row-invariant.
        allow_inexact: let it verify even if not.
    """

    def __init__(
        self,
        manifest: Manifest,
        tokenizer: Tokenizer,
        target: Model,
        draft: Model | None,
        *,
        vocabulary: Vocabulary,
        costs: Mapping[str, Costs],
        formats: tuple[str, str | None],
        devices: tuple[Device, Device],
        tuned: Profile | None,
        exact: bool,
        allow_inexact: bool,
    ) -> None:
        self.manifest = manifest
        self.tokenizer = tokenizer
        self.target = target
        self.draft = draft
        self.vocabulary = vocabulary
        self.costs = costs
        self.formats = formats
        self.devices = devices
        self._usual_draft = "both" if draft is not None else "lookup"  # lookup costs nothing
        self._default_draft = tuned.draft if tuned else self._usual_draft
        self._default_gamma = tuned.gamma if tuned else "auto"
        self._exact = exact
        self._may_speculate = exact or allow_inexact
        self._latest: Generation | None = None

    def generate(self, prompt: PromptInput, **options: Any) -> Generation:
        """Generates to the end; takes the options of `stream`."""
        stream = self.stream(prompt, **options)
        for _ in stream:
            pass
        return stream.result

    def stream(
        self,
        prompt: PromptInput,
        *,
        max_new_tokens: int | None = None,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        seed: int | None = None,
        gamma: int | str | None = None,
        draft: bool | str | Drafter = True,
        rule: str | None = None,
        stop: str | Sequence[str] = (),
        ignore_eos: bool = False,
        logprobs: bool = False,
        chat: bool = False,
    ) -> Stream:
        """Starts a generation and returns an iterator over its tokens.

        Args:
            prompt: text; token ids, used as they are; or the messages of a conversation,
                [{"role": "user", "content": "…"}, …], to be answered. What the caches hold of its
                earlier turns is not computed again, and the answer is the same as if it were (of a
                target that is not row-invariant everything is computed again).
            max_new_tokens: None goes on to the end of the text or of the cache.
            temperature, top_k, top_p, min_p: see `Sampling`; temperature 0 is greedy.
            seed: draws the same text again, with the same draft, γ and rule; None takes a new one,
                found in the result.
            gamma: tokens drafted a round, or "auto": what acceptance and costs make fastest. None
                is "auto", unless a profile found a number to be faster with the draft it says.
            draft: "model", prompt "lookup", or "both", each round the one that promises more. True
                takes both, or prompt lookup where the pair has no draft model; False decodes
                plainly. A profile of `edgespec tune` may change what True means, to no draft at all
                where none pays. Any other `edgespec.core.draft.Drafter` works too: the text is the
                target's, as long as the draft says truthfully which distribution each token was drawn from.
            rule: "block" or "token", both exact; None takes the block rule, or the token rule where
                the block rule gains nothing (greedy, prompt lookup).
            stop: a string, or strings, that end the text and are not part of it.
            ignore_eos: go on behind an end-of-text token.
            logprobs: report the target's log-probability of each token.
            chat: put the model's own chat format around the prompt (the command line does so for
                every model that has one).

        Raises:
            UsageError: an argument is out of range. That a prompt is too long is found with the
                first token.
        """
        if max_new_tokens is not None and not (
            isinstance(max_new_tokens, Integral) and max_new_tokens >= 1
        ):
            raise UsageError(f"max_new_tokens is {max_new_tokens!r}; give a whole number from 1")
        if rule is not None and rule not in tuple(RULES):
            raise UsageError(f"rule is {rule!r}; give one of: {', '.join(RULES)}")
        kind = self._draft_kind(draft, gamma)
        if gamma is None:
            gamma = self._default_gamma if draft is True else "auto"
        process = Sampling(temperature, top_k, top_p, min_p).processor()
        given = encoded(prompt, self.tokenizer, self.manifest.chat, chat)
        tokens, answers = given.tokens, given.answers if self._exact else None
        randomness = Seeded(seed)
        last_tokens = () if ignore_eos else self.manifest.eos_token_ids
        ending = StopCondition(GrowingText(self.tokenizer, _stops(stop)), last_tokens)
        limit = self.target.capacity if max_new_tokens is None else max_new_tokens
        shared: dict[str, Any] = {
            "process": process,
            "randomness": randomness,
            "max_new_tokens": limit,
            "ends": ending,
            "answers": answers,
            "logits": logprobs,
        }
        drafter, gammas = self._drafting(kind, gamma, process, last_tokens, answers)
        if drafter is None:
            rule = None
            rounds = plain(self.target, tokens, **shared)
        else:
            rule = rule or ("token" if process.sampling.greedy or kind == "lookup" else "block")
            rounds = speculate(
                self.target,
                drafter,
                tokens,
                rule=RULES[rule],
                gamma=gammas,
                **shared,
            )
        settings = self._settings(kind, gamma, rule)
        self._latest = result = Generation(
            prompt_tokens=len(tokens), seed=randomness.seed, settings=settings
        )
        return stream_of(
            self._while_latest(rounds, result, ending, limit),
            ending,
            result,
            max_new_tokens=max_new_tokens,
            model_seconds=lambda: (self.target.seconds, drafter.seconds if drafter else 0.0),
            logprobs=logprobs,
        )

    def encode(self, prompt: PromptInput, chat: bool = False) -> list[int]:
        """The tokens of a prompt, in the model's chat format if asked for."""
        return encoded(prompt, self.tokenizer, self.manifest.chat, chat).tokens

    def _draft_kind(
        self, draft: bool | str | Drafter, gamma: int | str | None
    ) -> str | Drafter | None:
        """ "model", "lookup", "both" or the caller's own; None decodes plainly."""
        own = hasattr(draft, "propose")
        if not (own or isinstance(draft, bool) or draft in KINDS):
            raise UsageError(f"draft is {draft!r}; give True, False, 'model', 'lookup' or 'both'")
        automatic = gamma in (None, "auto")
        if draft is False or (draft is True and automatic and self._default_draft == "none"):
            return None
        if not self._may_speculate:
            raise EdgespecError(
                "this target is not row-invariant on this machine, so speculation might change "
                "its text; decode with --no-draft (draft=False), export another format, or load "
                "it with allow_inexact=True"
            )
        if draft in ("model", "both") and self.draft is None:
            raise UsageError("the pair was exported without a draft model; use draft 'lookup'")
        if not isinstance(draft, bool):
            return draft
        return self._usual_draft if self._default_draft == "none" else self._default_draft

    def _drafting(
        self,
        kind: str | Drafter | None,
        gamma: int | str,
        process: SamplingProcessor,
        last_tokens: Sequence[int],
        answers: Sequence[range] | None,
    ) -> tuple[Drafter | None, Controller]:
        """What drafts, and what says how much."""
        lookup = controller(gamma, self.costs["lookup"])
        if not isinstance(kind, str):
            return kind, lookup
        if kind == "lookup" or self.draft is None:
            return PromptLookup(), lookup
        gammas = controller(gamma, self.costs["model"], Confident)
        sure = gammas if isinstance(gammas, Confident) else None
        model = ModelDrafter(
            self.draft,
            process,
            self.vocabulary,
            last_tokens,
            should_continue=sure.should_continue if sure else None,
            worth_candidate=sure.worth_candidate
            if sure and candidate_model_of(self.target)
            else None,
            answers=answers,
        )
        if kind == "model":
            return model, gammas
        alternating = AlternatingDrafter([(PromptLookup(), lookup), (model, gammas)])
        return alternating, alternating

    def _settings(self, kind: str | Drafter | None, gamma: int | str, rule: str | None) -> Settings:
        target_format, draft_format = self.formats
        device, draft_device = self.devices
        name = kind if isinstance(kind, str) else "none" if kind is None else type(kind).__name__
        uses_model = kind in ("model", "both")
        return Settings(
            target_format=target_format,
            provider=device.provider,
            draft=name,
            draft_format=draft_format if uses_model else None,
            draft_provider=draft_device.provider if uses_model else None,
            gamma=None if kind is None else gamma if gamma == "auto" else int(gamma),
            rule=rule,
        )

    def _while_latest(
        self, rounds: Iterator[Round], result: Generation, ending: StopCondition, limit: int
    ) -> Iterator[Round]:
        """The caches hold one text: a stream that was overtaken by another must not go on."""
        while self._latest is result:
            round_ = next(rounds, None)
            if round_ is None:
                return
            yield round_
        if ending.reason or len(result.token_ids) == limit:
            return  # it had all its tokens
        raise EdgespecError(
            "another text was begun on this pair, which keeps one at a time; finish a stream "
            "before starting the next, or load the pair twice"
        )

    def __repr__(self) -> str:
        draft = self.manifest.draft.source if self.manifest.draft else "none"
        return f"<edgespec.Pair target={self.manifest.target.source!r} draft={draft!r}>"

    def seconds(self) -> tuple[float, float]:
        """Spent so far in the target and in the draft."""
        return self.target.seconds, self.draft.seconds if self.draft else 0.0


def _stops(stop: str | Sequence[str]) -> tuple[str, ...]:
    """The strings that end a text."""
    stops = (stop,) if isinstance(stop, str) or not isinstance(stop, Iterable) else tuple(stop)
    if not all(isinstance(text, str) for text in stops):
        raise UsageError(f"stop is {stop!r:.80}; give a string, or several")
    return stops
