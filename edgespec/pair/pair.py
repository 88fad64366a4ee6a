"""A loaded pair: the API that applications embed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Unpack

from edgespec.artifact.manifest import Manifest
from edgespec.core.decode import Loop, Round, decoded, plain, speculate
from edgespec.core.device import Device
from edgespec.core.distribution import Processor
from edgespec.core.draft import Drafter
from edgespec.core.logit_edits import LogitEdits
from edgespec.core.model import Model
from edgespec.core.randomness import Coupled, Seeded
from edgespec.core.sampling import Sampling
from edgespec.core.verification import RULES
from edgespec.costs.controller import Controller, controller, gamma_number
from edgespec.costs.cost_model import Costs, CostSource
from edgespec.drafters.grammar_drafter import GrammarDrafter
from edgespec.drafters.matcher import Store
from edgespec.drafters.registry import DRAFTER_NAMES, DRAFTERS, DrafterSetup, own_costs
from edgespec.drafters.remembered_texts import RememberedTexts
from edgespec.drafters.vocabulary_map import Vocabulary
from edgespec.errors import EdgespecError, UsageError, shortened
from edgespec.grammar.grammar import Grammar
from edgespec.grammar.grammar_matcher import GrammarMatcher
from edgespec.grammar.grammar_vocabulary import GrammarVocabulary
from edgespec.grammar.legal_tokens import LegalTokens, only_legal
from edgespec.grammar.spellings import Spellings
from edgespec.pair.generation import (
    Generation,
    GenerationOptions,
    Settings,
    StopCondition,
    Stream,
    check_max_new_tokens,
    check_top_logprobs,
    stream_of,
)
from edgespec.pair.profile import Profile
from edgespec.pair.prompt import PromptEncoder, PromptInput
from edgespec.pair.round_clock import CostClock, RoundClock
from edgespec.pair.tokenizer import GrowingText
from edgespec.scheduler.load_costs import CallTimes
from edgespec.scheduler.shared_calls import SharedModel, Texts
from edgespec.tools.jinja_template import ChatTemplate
from edgespec.tools.tool_list import read_tools
from edgespec.tools.tool_use import ToolChoice, ToolUse, chosen_tools

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from edgespec.pair.several.async_texts import AsyncTexts
    from edgespec.pair.several.beams import BeamResult
    from edgespec.pair.several.many_texts import ManyTexts
    from edgespec.pair.speech_pair import SoundInput, TranscriptionOptions, TranscriptStream
    from edgespec.scheduler.beam_search import EarlyStopping
    from edgespec.speech.transcript import Transcript

__all__ = ["Pair"]

MANY = 8  # texts at once


class Pair:
    """A target, perhaps a draft, and their tokenizer; `edgespec.load` makes it.

    It makes one text at a time: another stream, of this thread or another, gets a UsageError while
    one is running.

    Attributes:
        manifest: what the folder says about itself.
        tokenizer: a `tokenizers.Tokenizer`.
        target, draft: the models (`edgespec.core.model.Model`); the draft may be None.
        vocabulary: which of the target's tokens the draft has.
        costs: of rounds, by the name of the drafter, guessed or tuned. γ "auto" goes by them until
            rounds were timed, and always where the text depends on γ. Setting them switches the
            clock off.
        clock: times rounds for γ "auto"; None where costs alone decide.
        call_times: of calls that several texts share.
        formats: which variants of the target and of the draft were loaded.
        shares_calls: several texts can be made at once (`generate_many`).
        drive: turns a text's loop into its rounds.
        devices: where the target and the draft run.
        tool_use: how the target uses tools.

    Args:
        tuned: what `edgespec tune` found for these variants on this machine.
        exact: the target is row-invariant on this machine.
        allow_inexact: let it verify even if it is not.
        corpus: texts in which lookup searches.
        remembered: earlier outputs, in which it searches too, and where each text is added.
        shares_calls: texts that share calls of the target have the bits that they have alone here.
        template: the target's chat template, if that knows tools.
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
        corpus: Store | None = None,
        remembered: RememberedTexts | None = None,
        shares_calls: bool = False,
        template: ChatTemplate | None = None,
    ) -> None:
        self.manifest = manifest
        self.tokenizer = tokenizer
        self.target = target
        self.draft = draft
        self.vocabulary = vocabulary
        self._costs = costs
        self.clock: CostClock | None = RoundClock(costs, draft)
        self.call_times = CallTimes(costs)
        self.formats = formats
        self.devices = devices
        self.tool_use = ToolUse(template, tokenizer, manifest.eos_token_ids)
        # Made when it is first needed, in some tenths of a second, and shared with all seats.
        self._grammar_vocabulary = cache(
            partial(GrammarVocabulary, tokenizer, target.vocab_size, manifest.eos_token_ids)
        )
        self._spellings = Spellings()
        self._encoder = PromptEncoder(tokenizer, manifest.chat, self.tool_use)
        self._untuned_draft = "both" if draft is not None else "lookup"
        self._default_draft = tuned.draft if tuned else self._untuned_draft
        self._default_gamma = tuned.gamma if tuned else "auto"
        self._exact = exact
        self._may_speculate = exact or allow_inexact
        self._running = Lock()
        self.drive: Callable[[Loop], Iterator[Round]] = decoded
        self._remembered = remembered
        self._beam_texts: Texts | None = None
        self.shares_calls = shares_calls
        self._stores = [store for store in (corpus, remembered) if store is not None]

    def generate(self, prompt: PromptInput, **options: Unpack[GenerationOptions]) -> Generation:
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
        repetition_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        logit_bias: Mapping[int, float] | None = None,
        min_tokens: int = 0,
        seed: int | None = None,
        gamma: int | str | None = None,
        draft: bool | str | Drafter = True,
        rule: str | None = None,
        stop: str | Sequence[str] = (),
        ignore_eos: bool = False,
        logprobs: bool = False,
        top_logprobs: int = 0,
        chat: bool = False,
        grammar: Grammar | None = None,
        tools: Sequence[Mapping[str, object]] = (),
        tool_choice: ToolChoice = "auto",
        parallel_tool_calls: bool = True,
    ) -> Stream:
        """Starts a generation and returns an iterator over its tokens.

        Args:
            prompt: text; token ids, used as they are; or the messages of a conversation,
                [{"role": "user", "content": "…"}, …], to be answered. What the caches hold of its
                earlier turns is not computed again, and the answer is the same as if it were (with
                a target that is not row-invariant everything is computed again). Special tokens
                that are spelled out in a text are control tokens; in messages, and with `chat`,
                they are ordinary text.
            max_new_tokens: None: up to the end of the text or of the cache.
            temperature, top_k, top_p, min_p: see `Sampling`; temperature 0 is greedy.
            repetition_penalty, presence_penalty, frequency_penalty, logit_bias, min_tokens: see
                `LogitEdits`. They change the target's distribution, so the text is the one that
                plain decoding gives with the same options.
            seed: draws the same text again; None takes a new one, found in the result. With the
                coupled rule a seed has one text, whatever drafts; with the others another draft or
                γ draws another.
            gamma: tokens drafted a round, or "auto": the number that acceptance and the times of
                earlier rounds make fastest (with the token and the block rule, fixed costs). None
                is "auto", unless a profile found a number to be faster.
            draft: the name of a drafter: "model", prompt "lookup", or "both", which takes in each
                round the one with the larger expected speed-up. True takes both, or prompt lookup
                where the pair has no draft model; False decodes plainly. A profile of
                `edgespec tune` may change what True means, to no draft at all where none pays.
                An `edgespec.Drafter` of your own works too: the text is the target's, as long as
                the drafter gives the distribution that each token was really drawn from. Its
                attribute `cost` is the time of one drafted token in steps of the target, for γ
                "auto"; without it 0.3 is assumed.
            rule: "coupled", "block" or "token", all exact. None takes the coupled rule when
                sampling, also without a draft: the text is then the plain text of its seed, token
                by token. Greedy text is that with every rule.
            stop: a string, or strings, that end the text and are not part of it.
            ignore_eos: go on after an end-of-text token.
            logprobs: report the target's log-probability of each token.
            top_logprobs: with `logprobs`, also of so many of the most probable tokens in its
                stead; at most 20.
            chat: put the model's own chat format around the prompt (the command line does so for
                every model that has one).
            grammar: what the text must look like: `edgespec.json_schema(…)`, `edgespec.regex(…)` or
                `edgespec.lark(…)`. Tokens that do not fit it have no probability, in the target's
                distribution and in the draft's; temperature and truncation come after that. The
                text ends where the grammar does. One that ends for another reason, such as
                max_new_tokens, may not fit it.
            tools: functions that the model may call, as OpenAI's `tools`; its chat template must
                know tools. Calls are in the text as the template writes them, and their arguments
                fit the functions' JSON schemas; `tool_use.form` says where they are.
            tool_choice: "auto"; "required" for a call instead of a text; "none", as without tools;
                or {"type": "function", "function": {"name": …}}, to call that one.
            parallel_tool_calls: an answer may make several calls.

        Raises:
            UsageError: an argument is out of range. A prompt that is too long, or another stream
                that is running, is found with the first token.
        """
        check_max_new_tokens(max_new_tokens)
        check_top_logprobs(top_logprobs)
        if top_logprobs and not logprobs:
            raise UsageError(f"top_logprobs is {top_logprobs} without logprobs; ask for both")
        kind = self._draft_kind(draft, gamma)
        if gamma is None:
            gamma = self._default_gamma if draft is True else "auto"
        sampling = Sampling(temperature, top_k, top_p, min_p)
        process = sampling.processor()
        offered = read_tools(tools) if tools else ()
        callable_tools = chosen_tools(offered, tool_choice)
        given = self._encoder(prompt, chat, offered if callable_tools else ())
        if callable_tools:
            if grammar is not None:
                raise UsageError("an answer cannot have both tools and a grammar; give one of them")
            grammar = self.tool_use.grammar(callable_tools, tool_choice, parallel_tool_calls)
        answers = given.answers if self._exact else None
        rule = _rule_name(rule, kind, sampling.greedy)
        coupled = rule == "coupled"
        randomness = Coupled(seed, len(given.tokens)) if coupled else Seeded(seed)
        last_tokens = () if ignore_eos else self.manifest.eos_token_ids
        edits = LogitEdits(
            repetition_penalty, presence_penalty, frequency_penalty, logit_bias or {}, min_tokens
        )
        repeated = () if self.manifest.target.is_encoder_decoder else given.tokens
        marks = self.tool_use.marks if callable_tools else ()
        condition = StopCondition(GrowingText(self.tokenizer, _stops(stop), marks), last_tokens)
        edit = edits.edit(repeated, last_tokens, self.target.vocab_size)
        same_text = self._exact and (sampling.greedy or coupled)  # whatever γ is
        spellings = self._spellings if same_text else Spellings()
        legal = self._legal_tokens(grammar, ignore_eos, spellings)
        clock = self.clock if same_text and gamma == "auto" else None
        drafter, gammas = self._drafting(kind, gamma, process, last_tokens, answers, clock, legal)
        loop = _decoder(drafter, gammas, rule)(
            self.target,
            prompt=given.tokens,
            process=process,
            randomness=randomness,
            max_new_tokens=self.target.capacity if max_new_tokens is None else max_new_tokens,
            ends=condition,
            answers=answers,
            logits=logprobs,
            edit=edit if legal is None else only_legal(legal, edit),
        )
        rounds = self.drive(loop)
        if self._remembered is not None:
            rounds = self._remembered.watched(rounds)
        result = Generation(
            prompt_tokens=len(given.tokens),
            seed=randomness.seed,
            settings=self._settings(kind, gamma, rule),
        )
        return stream_of(
            rounds,
            condition,
            result,
            max_new_tokens=max_new_tokens,
            model_seconds=lambda: (self.target.seconds, drafter.seconds if drafter else 0.0),
            top_logprobs=top_logprobs if logprobs else None,
            occupied=self._occupied(),
        )

    def many(self, texts: int = MANY, capacity: int | None = None) -> ManyTexts:
        """Makes so many texts at once, which share the calls of the models.

        Each is the text that it would be alone. Where calls cannot be shared (without kernels, or
        with float32 products of ONNX Runtime), it makes one text after the other.

        Args:
            texts: at most.
            capacity: positions that each cache holds; None takes the pair's.

        Raises:
            UsageError: there is no memory for their caches, or the number is below 1.
        """
        from edgespec.pair.several.many_texts import ManyTexts

        return ManyTexts(self, texts, capacity)

    def generate_many(
        self,
        prompts: Iterable[PromptInput],
        *,
        texts: int = MANY,
        n: int = 1,
        **options: Unpack[GenerationOptions],
    ) -> Iterator[Generation]:
        """Generates for several prompts at once and yields the results in the order of the prompts.

        Each result is the one that `generate` gives for its prompt alone.

        Args:
            prompts: are taken one by one as texts end.
            texts: how many are made at once.
            n: texts for each prompt, which is read once. Their results follow each other.
            options: of `stream`. With a seed, result number i is drawn with seed + i.

        Raises:
            UsageError: an argument is out of range, or a prompt is too long.
        """
        from edgespec.pair.several.in_order import InOrder

        ordered = InOrder[Generation]()
        for number, result in self.many(texts).results(prompts, n=n, **options):
            yield from ordered.add(number, result)

    def amany(self, texts: int = MANY, capacity: int | None = None) -> AsyncTexts:
        """`many` for coroutines: they wait in the event loop, and a thread computes for all of
        them. Nothing else may use the pair meanwhile.

            async with pair.amany(8) as many:
                async for chunk in many.stream("Why is the sky blue?", chat=True):
                    print(chunk.text, end="")

        The arguments and errors are those of `many`.
        """
        from edgespec.pair.several.async_texts import AsyncTexts

        return AsyncTexts(self.many(texts, capacity))

    async def agenerate_many(
        self,
        prompts: Iterable[PromptInput],
        *,
        texts: int = MANY,
        n: int = 1,
        **options: Unpack[GenerationOptions],
    ) -> AsyncIterator[Generation]:
        """`generate_many` for coroutines: `async for result in pair.agenerate_many(prompts)`.

        The arguments, results and errors are those of `generate_many`.
        """
        from edgespec.pair.several.in_order import InOrder

        ordered = InOrder[Generation]()
        async with self.amany(texts) as many:
            async for number, result in many.results(prompts, n=n, **options):
                for following in ordered.add(number, result):
                    yield following

    def beam_search(
        self,
        prompt: PromptInput,
        *,
        num_beams: int = 4,
        max_new_tokens: int | None = None,
        length_penalty: float = 1.0,
        early_stopping: EarlyStopping = False,
        repetition_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        logit_bias: Mapping[int, float] | None = None,
        min_tokens: int = 0,
        chat: bool = False,
    ) -> list[BeamResult]:
        """The texts that beam search over the target finds, the best first; at most `num_beams`.

        Nothing is drafted: all beams are scored in one call.

        Args:
            prompt, max_new_tokens, chat: as of `stream`.
            num_beams: how many unended texts are followed.
            length_penalty: a text's score is its log-probability, divided by its number of tokens
                to this power.
            early_stopping: True ends with `num_beams` ended texts; False when the best unended one,
                as it is, could not come among them; "never" when it could not whatever follows.
            repetition_penalty, presence_penalty, frequency_penalty, logit_bias, min_tokens: see
                `LogitEdits`.

        Raises:
            UsageError: an argument is out of range, or the prompt is too long.
            EdgespecError: rows of a call cannot be of several texts here: that needs kernels.
        """
        from edgespec.pair.several.beams import searched

        edits = LogitEdits(
            repetition_penalty, presence_penalty, frequency_penalty, logit_bias or {}, min_tokens
        )
        check_max_new_tokens(max_new_tokens)
        with self._occupied():
            return searched(
                self,
                self._encoder(prompt, chat, ()).tokens,
                edits,
                num_beams,
                max_new_tokens,
                length_penalty,
                early_stopping,
            )

    def beam_texts(self, count: int) -> Texts:
        """Texts of the target for so many beams, kept for the next search."""
        if self._beam_texts is None or len(self._beam_texts.texts) != count:
            assert isinstance(self.target, SharedModel)
            self._beam_texts = self.target.several(count, self.target.capacity)
        return self._beam_texts

    def seat(self, target: Model, draft: Model | None, clock: CostClock) -> Pair:
        """The same pair with other caches, for one of several texts.

        Args:
            target, draft: texts of this pair's models; without a draft, prompt lookup drafts.
            clock: for γ "auto".
        """
        seat = copy(self)
        seat.target, seat.draft, seat.clock = target, draft, clock
        seat._running = Lock()
        if draft is None:
            seat._untuned_draft = "lookup"
            seat._default_draft = "none" if self._default_draft == "none" else "lookup"
        return seat

    def transcribe(self, sound: SoundInput, **options: Unpack[TranscriptionOptions]) -> Transcript:
        """Transcribes to the end; takes the options of `stream_transcript`."""
        stream = self.stream_transcript(sound, **options)
        for _ in stream:
            pass
        return stream.result

    def stream_transcript(
        self, sound: SoundInput, **options: Unpack[TranscriptionOptions]
    ) -> TranscriptStream:
        """See `edgespec.pair.speech_pair.SpeechPair`, which is the pair of a speech model.

        Raises:
            UsageError: this is none.
        """
        raise UsageError(
            f"{self.manifest.target.source} reads text and transcribes nothing; export a speech "
            "model, such as a Whisper"
        )

    def encode(self, prompt: PromptInput, chat: bool = False) -> list[int]:
        """The token ids of a prompt, in the model's chat format if asked for."""
        return self._encoder(prompt, chat).tokens

    def seconds(self) -> tuple[float, float]:
        """Time spent so far in the target and in the draft."""
        return self.target.seconds, self.draft.seconds if self.draft else 0.0

    def drafter(
        self,
        name: str,
        gamma: int | str,
        process: Processor,
        last_tokens: Sequence[int] = (),
        answers: Sequence[range] | None = None,
        clock: CostClock | None = None,
        legal: LegalTokens | None = None,
        draft: Model | None = None,
    ) -> tuple[Drafter, Controller]:
        """A named drafter for one text, and the controller of its γ.

        Args:
            clock: times rounds, for γ "auto"; the text must not depend on γ then.
            legal: which tokens may come next.
            draft: the draft model, if it is not the pair's as it is.

        Raises:
            UsageError: γ is out of range, or the pair has no draft model and the drafter needs one.
        """
        costs: Mapping[str, CostSource] = clock.costs if clock else self.costs
        setup = DrafterSetup(
            self.target,
            self.draft if draft is None else draft,
            self.vocabulary,
            process,
            gamma,
            costs,
            last_tokens,
            answers,
            self._stores,
            legal,
        )
        drafter, chooser = DRAFTERS[name].build(setup)
        return drafter, clock.timed(name, chooser, self.target) if clock else chooser

    def _draft_kind(
        self, draft: bool | str | Drafter, gamma: int | str | None
    ) -> str | Drafter | None:
        """The name of a drafter, or the caller's own; None decodes plainly."""
        own = hasattr(draft, "propose")
        if not (own or isinstance(draft, bool) or draft in DRAFTER_NAMES):
            names = ", ".join(map(repr, DRAFTER_NAMES))
            raise UsageError(f"draft is {shortened(draft)}; give True, False, or one of: {names}")
        automatic = gamma in (None, "auto")
        if draft is False or (draft is True and automatic and self._default_draft == "none"):
            return None
        if not self._may_speculate:
            raise EdgespecError(
                "this target is not row-invariant on this machine, so speculation might change "
                "its text; decode with --no-draft (draft=False), export another format, or load "
                "it with allow_inexact=True"
            )
        if not isinstance(draft, bool):
            return draft
        return self._untuned_draft if self._default_draft == "none" else self._default_draft

    def _drafting(
        self,
        kind: str | Drafter | None,
        gamma: int | str,
        process: Processor,
        last_tokens: Sequence[int],
        answers: Sequence[range] | None,
        clock: CostClock | None,
        legal: LegalTokens | None,
    ) -> tuple[Drafter | None, Controller]:
        """The drafter of a text, None without one, and the controller of its γ."""
        costs = self.costs["lookup"]  # of rounds whose drafter runs no model
        if kind is None:
            return None, controller(gamma, costs)  # for its check of γ
        if isinstance(kind, str):
            drafter, gammas = self.drafter(kind, gamma, process, last_tokens, answers, clock, legal)
        elif clock:
            drafter, gammas = kind, clock.timed_own(kind, self.target)
        else:
            drafter, gammas = kind, controller(gamma, own_costs(kind, costs))
        if legal is None:
            return drafter, gammas
        longest = costs.longest if gamma == "auto" else gamma_number(gamma)
        both = GrammarDrafter(legal, drafter, gammas, longest)
        return both, both

    def _legal_tokens(
        self, grammar: Grammar | None, ignore_eos: bool, spellings: Spellings
    ) -> LegalTokens | None:
        """Which tokens a text may have; None if it may have all."""
        if grammar is None:
            return None
        if not isinstance(grammar, Grammar):
            raise UsageError(
                f"grammar is {shortened(grammar)}; give edgespec.json_schema(…), "
                "edgespec.regex(…) or edgespec.lark(…)"
            )
        if ignore_eos:
            raise UsageError("ignore_eos goes on after a grammar's end; give one of the two")
        return GrammarMatcher(grammar, self._grammar_vocabulary(), spellings)

    def _settings(self, kind: str | Drafter | None, gamma: int | str, rule: str | None) -> Settings:
        target_format, draft_format = self.formats
        device, draft_device = self.devices
        name = kind if isinstance(kind, str) else "none" if kind is None else type(kind).__name__
        uses_model = isinstance(kind, str) and DRAFTERS[kind].uses_model
        return Settings(
            target_format=target_format,
            provider=device.provider,
            draft=name,
            draft_format=draft_format if uses_model else None,
            draft_provider=draft_device.provider if uses_model else None,
            gamma=None if kind is None else gamma if gamma == "auto" else int(gamma),
            rule=rule,
        )

    @property
    def costs(self) -> Mapping[str, Costs]:
        return self._costs

    @costs.setter
    def costs(self, costs: Mapping[str, Costs]) -> None:
        self._costs = costs
        self.clock = None
        self.call_times = CallTimes(costs)

    @contextmanager
    def _occupied(self) -> Iterator[None]:
        """The caches hold one text: raises UsageError while another is being generated."""
        if not self._running.acquire(blocking=False):
            raise UsageError(
                "this pair is generating another text, and makes one at a time; finish or close "
                "that stream first, or load the pair twice"
            )
        try:
            yield
        finally:
            self._running.release()

    def __repr__(self) -> str:
        draft = self.manifest.draft.source if self.manifest.draft else "none"
        return f"<edgespec.Pair target={self.manifest.target.source!r} draft={draft!r}>"


def _rule_name(rule: str | None, kind: str | Drafter | None, greedy: bool) -> str | None:
    """The rule that decides the text's tokens; None if no rule has a say: nothing is verified, and
    the noise is not the coupled rule's."""
    if rule is not None and rule not in RULES:
        raise UsageError(f"rule is {shortened(rule)}; give one of: {', '.join(RULES)}")
    name = rule or ("token" if greedy else "coupled")
    if kind is None and (greedy or name != "coupled"):
        return None
    return name


def _decoder(drafter: Drafter | None, gammas: Controller, rule: str | None) -> Callable[..., Loop]:
    """Plain decoding, or speculation with a drafter."""
    if drafter is None or rule is None:
        return plain
    return partial(speculate, draft=drafter, rule=RULES[rule], gamma=gammas)


def _stops(stop: str | Sequence[str]) -> tuple[str, ...]:
    """The strings that end a text."""
    stops = (stop,) if isinstance(stop, str) or not isinstance(stop, Iterable) else tuple(stop)
    if not all(isinstance(text, str) for text in stops):
        raise UsageError(f"stop is {shortened(stop)}; give a string, or several")
    return stops
