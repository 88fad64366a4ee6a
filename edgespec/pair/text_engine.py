"""From a request to the stream of its text: what a loop of `edgespec.core.decode` is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cache, partial

from edgespec.chat.reasoning import reasoning_format
from edgespec.core.decode import Loop, Round, decoded
from edgespec.core.draft import Drafter
from edgespec.core.logit_edits import LogitEdit, edit_of
from edgespec.core.model import Model
from edgespec.core.randomness import Coupled, Seeded
from edgespec.core.sampling import SamplingProcessor
from edgespec.grammar.draft_matcher import DraftMatcher
from edgespec.grammar.grammar import Grammar
from edgespec.grammar.grammar_matcher import GrammarMatcher
from edgespec.grammar.grammar_vocabulary import GrammarVocabulary
from edgespec.grammar.legal_tokens import only_legal
from edgespec.grammar.spellings import Spellings
from edgespec.pair.drafting import DraftChoice, Drafting, loop_of
from edgespec.pair.generation import (
    Generation,
    Progress,
    Settings,
    StopCondition,
    Stream,
    stream_of,
)
from edgespec.pair.generation_options import GenerationOptions
from edgespec.pair.generation_request import GenerationRequest, RequestReader
from edgespec.pair.keeping.kept_file import KeptFile
from edgespec.pair.keeping.prefix_folder import PrefixFolder
from edgespec.pair.parts import OneAtATime, PairParts
from edgespec.pair.prompt import Prompt, PromptEncoder, PromptInput
from edgespec.pair.round_clock import CostClock
from edgespec.pair.scoring.prompt_scoring import prompt_scoring
from edgespec.pair.thinking_limit import ThinkingLimit
from edgespec.pair.tokenizer import GrowingText
from edgespec.tools.tool_use import ToolUse

__all__ = ["Drive", "TextEngine"]

LAST_TOKENS = 32  # of a prompt; more than a mark of thinking and white space have

# Computes what a loop asks for: its rounds, and its progress if other loops make it go on, too.
Drive = Callable[[Loop], tuple[Iterator[Round], Progress | None]]


def alone(loop: Loop) -> tuple[Iterator[Round], None]:
    """Everything is computed as a round is asked for."""
    return decoded(loop), None


class TextEngine:
    """Generates texts of a pair, one at a time, in the caches of its models.

    Args:
        parts: of the pair.
        drafting: what drafts are made from.

    Attributes:
        parts, drafting: the arguments.
        tool_use: how the target uses tools.
        reasoning: how the target marks its thinking; None if it is not known to think.
        encoder: makes token ids of prompts.
        read: checks the options of a call.
        target: the model that verifies.
        drive: turns a text's loop into its rounds.
        occupied: is entered while the caches hold a text that is being made.
        prefix_tokens: of the kept prompt that texts may begin with.
        kept_prompts: of batches; None if they keep none.
    """

    def __init__(self, parts: PairParts, drafting: Drafting) -> None:
        manifest, tokenizer = parts.manifest, parts.tokenizer
        self.parts = parts
        self.drafting = drafting
        self.target = parts.target
        self.drive: Drive = alone
        self.tool_use = ToolUse(parts.template, tokenizer, manifest.eos_token_ids)
        self.reasoning = reasoning_format(parts.template, self.tool_use.special_names)
        self.encoder = PromptEncoder(tokenizer, manifest.chat, parts.template)
        self.read = RequestReader(
            self.encoder, self.tool_use, manifest.eos_token_ids, manifest.languages
        )
        # Made when it is first needed, in some tenths of a second, and shared by all slots.
        self._grammar_vocabulary = cache(
            partial(GrammarVocabulary, tokenizer, parts.target.vocab_size, manifest.eos_token_ids)
        )
        self._spellings = Spellings()
        self.occupied = parts.occupied
        self.prefix_tokens: Sequence[int] = ()
        self.kept_prompts: PrefixFolder | None = None
        self._prefix: Callable[[], None] | None = None  # ends the use of a kept prompt

    def slot(
        self,
        target: Model,
        draft: Model | None,
        clock: CostClock,
        drive: Drive,
    ) -> TextEngine:
        """The same with other caches, for one of several concurrent texts.

        Args:
            target, draft: of the slot; without a draft, prompt lookup drafts.
            clock: for γ "auto".
            drive: turns a text's loop into its rounds.
        """
        slot = copy(self)
        slot.target, slot.drive = target, drive
        slot.drafting = self.drafting.with_models(target, draft, clock)
        slot.occupied = OneAtATime()
        return slot

    @property
    def longest_prompt(self) -> int | None:
        """Tokens; None where an encoder reads them."""
        is_source = self.parts.manifest.target.is_encoder_decoder
        return None if is_source else self.target.capacity

    def stream(self, prompt: PromptInput, options: GenerationOptions) -> Stream:
        """The text of a prompt as it grows; see `edgespec.Pair.stream`."""
        request = self.read(prompt, options, self.longest_prompt)
        choice = self.drafting.choice(
            request.draft, request.gamma, request.rule, request.sampling.greedy
        )
        tokens = request.prompt.tokens
        coupled = choice.rule == "coupled"
        randomness = Coupled(request.seed, len(tokens)) if coupled else Seeded(request.seed)
        ends = StopCondition(self.growing_text(request), request.last_tokens)
        matcher = self._matcher(request.grammar)
        drafter, start = self._start(request, choice, matcher)
        loop = start(
            self.target,
            prompt=tokens,
            randomness=randomness,
            max_new_tokens=(
                self.target.capacity if request.max_new_tokens is None else request.max_new_tokens
            ),
            ends=ends,
            logits=request.top_logprobs is not None,
        )
        scores = None
        if request.score_prompt:
            scores, loop = prompt_scoring(self.parts, self.target, request, loop)
        rounds, progress = self.drive(loop)
        if matcher is not None:
            rounds = matcher.fitting(rounds)
        if self.parts.remembered is not None:
            rounds = self.parts.remembered.watched(rounds)
        return stream_of(
            rounds,
            ends,
            Generation(
                prompt_tokens=len(tokens),
                seed=randomness.seed,
                settings=self._settings(choice),
                opens_thinking=self._opens_thinking(tokens),
                prompt_scores=scores,
                dropped_messages=request.prompt.dropped,
            ),
            max_new_tokens=request.max_new_tokens,
            model_seconds=lambda: (self.target.seconds, drafter.seconds if drafter else 0.0),
            top_logprobs=request.top_logprobs,
            occupied=self.occupied(),
            progress=progress,
        )

    def _start(
        self, request: GenerationRequest, choice: DraftChoice, matcher: GrammarMatcher | None
    ) -> tuple[Drafter | None, Callable[..., Loop]]:
        """The drafter of a text, and what makes its loop: plain decoding, or speculation."""
        process = SamplingProcessor(request.sampling)
        assistant_spans = self.assistant_spans(request.prompt, self._prefix is not None)
        edit = self.edit(request)
        drafter, gamma = self.drafting.drafter(
            choice,
            process,
            last_tokens=request.last_tokens,
            assistant_spans=assistant_spans,
            legal=self._draft_matcher(request.grammar, choice),
        )
        return drafter, partial(
            loop_of(drafter, gamma, choice.rule),
            process=process,
            assistant_spans=assistant_spans,
            edit=edit if matcher is None else only_legal(matcher, edit),
            start=request.translation.start,
        )

    def assistant_spans(self, prompt: Prompt, has_prefix: bool) -> Sequence[range] | None:
        """Positions of a prompt that are computed as those of earlier answers, as of
        `Model.prefill`; None if it is computed whole, whatever the caches hold.

        Args:
            has_prefix: the caches may begin with a kept prompt.
        """
        if prompt.assistant_spans is None:
            return () if has_prefix else None
        return prompt.assistant_spans if self.drafting.exact else None

    def use_prefix(self, prefix: KeptFile) -> None:
        """Lets texts begin with a kept prompt, instead of the one before."""
        forget = prefix.use(self.parts)
        self.forget_prefix()
        self._prefix, self.prefix_tokens = forget, prefix.tokens

    def forget_prefix(self) -> None:
        """Ends the use of a kept prompt."""
        if self._prefix is not None:
            self._prefix()
        self._prefix, self.prefix_tokens = None, ()

    def growing_text(self, request: GenerationRequest) -> GrowingText:
        """A text that goes on from its prompt's, or stands alone: an answer, a translation, what a
        grammar describes."""
        model = self.parts.manifest.target
        alone = model.is_encoder_decoder or model.is_speech or request.grammar is not None
        goes_on = request.prompt.is_continued and not alone
        tokens = request.prompt.tokens
        # A token that the model does not have is refused when the prompt is read.
        are_known = all(0 <= token < self.target.vocab_size for token in tokens)
        before = tokens if goes_on and are_known else ()
        return GrowingText(self.parts.tokenizer, request.stops, request.marks, before)

    def edit(self, request: GenerationRequest) -> LogitEdit | None:
        """What changes the logits of each row; the source of an encoder-decoder is no repetition,
        as in transformers."""
        is_source = self.parts.manifest.target.is_encoder_decoder
        repeated = () if is_source else request.prompt.tokens
        edit = edit_of(request.edits, repeated, request.last_tokens, self.target.vocab_size)
        edit = request.translation.edit(edit)
        if request.thinking_budget is None or self.reasoning is None:
            return edit
        limit = ThinkingLimit(
            self.reasoning,
            request.thinking_budget,
            self._opens_thinking(request.prompt.tokens),
            self.parts.tokenizer,
        )
        if edit is None:
            return limit
        return lambda logits, generated: limit(edit(logits, generated), generated)

    def _opens_thinking(self, prompt: Sequence[int]) -> bool:
        """Whether a prompt ends within thinking. The end of its text is enough to see."""
        if self.reasoning is None:
            return False
        known = [token for token in prompt[-LAST_TOKENS:] if 0 <= token < self.target.vocab_size]
        text = self.parts.tokenizer.decode(known, skip_special_tokens=False)
        return self.reasoning.is_open_after(text)

    def _matcher(self, grammar: Grammar | None) -> GrammarMatcher | None:
        """Says which tokens a text may have; None if it may have all."""
        return None if grammar is None else GrammarMatcher(grammar, self._grammar_vocabulary())

    def _draft_matcher(self, grammar: Grammar | None, choice: DraftChoice) -> DraftMatcher | None:
        """The same for the text's drafter."""
        if grammar is None:
            return None
        # What one text spelled changes what others draft, which must not change them.
        spellings = self._spellings if choice.keeps_text else Spellings()
        return DraftMatcher(grammar, self._grammar_vocabulary(), spellings)

    def _settings(self, choice: DraftChoice) -> Settings:
        target_format, draft_format = self.parts.formats
        device, draft_device = self.parts.devices
        gamma = choice.gamma if choice.gamma == "auto" else int(choice.gamma)
        return Settings(
            target_format=target_format,
            provider=device.provider,
            draft=choice.name,
            draft_format=draft_format if choice.uses_model else None,
            draft_provider=draft_device.provider if choice.uses_model else None,
            gamma=None if choice.kind is None else gamma,
            rule=choice.rule,
        )
