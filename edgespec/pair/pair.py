"""A loaded pair: the API that applications embed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Unpack

from edgespec.chat.long_conversation import Policy, checked_policy
from edgespec.costs.cost_model import Costs
from edgespec.errors import UsageError
from edgespec.pair.generation import Generation, Stream
from edgespec.pair.generation_options import (
    BEAM_DEFAULTS,
    DEFAULTS,
    BeamOptions,
    GenerationOptions,
    with_options,
)
from edgespec.pair.keeping.prefixes import KeepsPrefixes
from edgespec.pair.parts import OfParts, PairParts
from edgespec.pair.prompt import PromptInput
from edgespec.pair.scoring.text_scores import TextScores
from edgespec.pair.text_engine import TextEngine
from edgespec.speech.transcription_options import TRANSCRIPTION_DEFAULTS, TranscriptionOptions
from edgespec.tools.tool_use import ToolUse

if TYPE_CHECKING:
    from edgespec.chat.reasoning import ReasoningFormat
    from edgespec.pair.concurrent.async_batch import AsyncBatch, AsyncStream
    from edgespec.pair.concurrent.async_turns import AsyncTurns
    from edgespec.pair.concurrent.batch import Batch
    from edgespec.pair.concurrent.beams import BeamResult, BeamSearch
    from edgespec.pair.drafting import Drafting
    from edgespec.pair.speech_engine import SoundInput, SpeechEngine, TranscriptStream
    from edgespec.scheduler.beam_search import EarlyStopping
    from edgespec.speech.transcript import Transcript

__all__ = ["Pair"]

MANY = 8  # texts at once


class Pair(OfParts, KeepsPrefixes):
    """A target, perhaps a draft, and their tokenizer; `edgespec.load` makes it.

    It makes one text at a time: another stream, of this thread or another, gets a UsageError while
    one is running; with `load(wait=True)` other threads wait.

    Args:
        parts: models, tokenizer and what is known about them.
        speech: of a speech model, which transcribes sounds and continues no text.

    Attributes:
        parts: what the pair consists of.
        drafting: who drafts, by which costs.
    """

    def __init__(
        self, parts: PairParts, drafting: Drafting, speech: SpeechEngine | None = None
    ) -> None:
        super().__init__(parts)
        self.drafting = drafting
        self._speech = speech
        self._engine = TextEngine(parts, drafting)
        self._encoder = self._engine.encoder
        self._beams: BeamSearch | None = None

    @property
    def tool_use(self) -> ToolUse:
        """How the target uses tools."""
        return self.text_engine.tool_use

    @property
    def reasoning(self) -> ReasoningFormat | None:
        """How the target marks its thinking; None if it is not known to think."""
        return self._engine.reasoning

    @property
    def when_full(self) -> Policy:
        """What becomes of messages that the cache cannot hold: "stop" refuses them, "drop" leaves
        the oldest turns out; a function is given those messages, and makes others of them."""
        return self._engine.read.when_full

    @when_full.setter
    def when_full(self, policy: Policy) -> None:
        self._engine.read.when_full = checked_policy(policy)

    @property
    def text_engine(self) -> TextEngine:
        """What makes texts. Raises UsageError if the pair transcribes sounds."""
        if self._speech is not None:
            raise UsageError(
                f"{self.manifest.target.source} makes text of sound, not of a prompt; use: "
                "edgespec transcribe PAIR FILE (Pair.transcribe)"
            )
        return self._engine

    @property
    def speech_engine(self) -> SpeechEngine:
        """What transcribes sounds. Raises UsageError if the pair continues texts."""
        if self._speech is None:
            raise UsageError(
                f"{self.manifest.target.source} reads text and transcribes nothing; export a "
                "speech model, such as a Whisper"
            )
        return self._speech

    @with_options(GenerationOptions, DEFAULTS)
    def generate(self, prompt: PromptInput, **options: Unpack[GenerationOptions]) -> Generation:
        """Generates to the end; arguments and errors are those of `stream`."""
        stream = self.stream(prompt, **options)
        for _ in stream:
            pass
        return stream.result

    @with_options(GenerationOptions, DEFAULTS)
    def stream(self, prompt: PromptInput, **options: Unpack[GenerationOptions]) -> Stream:
        """Starts a generation and returns an iterator over its tokens.

        Args:
            prompt: text; token ids, used as they are; or the messages of a conversation,
                [{"role": "user", "content": "…"}, …], to be answered. What the caches hold of its
                earlier turns is not computed again, and the answer is the same as if it were (with
                a target that is not row-invariant everything is computed again). Special tokens
                that are spelled out in a text are control tokens; in messages, and with `chat`,
                they are ordinary text. The result's text goes on from a text or token ids, so it
                may begin with a space.
            options: see `edgespec.GenerationOptions`.

        Raises:
            UsageError: an argument is out of range. A prompt that is too long, or another stream
                that is running, is found with the first token.
        """
        return self.text_engine.stream(prompt, options)

    @with_options(GenerationOptions, DEFAULTS)
    async def agenerate(
        self, prompt: PromptInput, **options: Unpack[GenerationOptions]
    ) -> Generation:
        """`generate` for coroutines; those of an event loop get their texts one after the other."""
        return await self._turns.generate(lambda: self.stream(prompt, **options))

    @with_options(GenerationOptions, DEFAULTS)
    def astream(self, prompt: PromptInput, **options: Unpack[GenerationOptions]) -> AsyncStream:
        """`stream` for coroutines: `async for chunk in pair.astream(prompt)`.

        A thread computes; several streams of an event loop wait for their turns (`amany` makes
        them at once). Errors come with the first chunk.
        """
        return self._turns.stream(lambda: self.stream(prompt, **options))

    @cached_property
    def _turns(self) -> AsyncTurns:
        from edgespec.pair.concurrent.async_turns import AsyncTurns

        return AsyncTurns()

    def score(
        self,
        text: str | Sequence[int],
        *,
        prompt: PromptInput | None = None,
        chat: bool | None = None,
        top_logprobs: int = 0,
    ) -> TextScores:
        """How probable a text is under the target: the log-probability of each of its n tokens.

        Args:
            text: or its token ids [n], which are used as they are.
            prompt: what comes before it and is not scored, as of `stream`. Without one the first
                token, of which nothing can be said, has no score.
            chat: put the model's own chat format around the prompt, as of `stream`.
            top_logprobs: report so many of the most probable tokens in each one's stead, too.

        Returns lists of n entries (`TextScores`): `logprobs`, whose sum is `logprob`, `is_best`,
        `token_ids`, `starts`.

        Raises:
            UsageError: prompt and text are longer than the cache, a prompt is missing that an
                encoder has to read, or a stream is running.
        """
        from edgespec.pair.scoring.text_scoring import scored_text

        return scored_text(self.text_engine, text, prompt, chat, top_logprobs)

    def many(self, texts: int = MANY, capacity: int | None = None) -> Batch:
        """Makes so many texts at once, which share the calls of the models.

        Each is the text that it would be alone. Where calls cannot be shared (without kernels, or
        with float32 products of ONNX Runtime), it makes one text after the other.

        Args:
            texts: at most.
            capacity: positions that each cache holds; None takes the pair's.

        Raises:
            UsageError: there is no memory for their caches, or the number is below 1.
        """
        from edgespec.pair.concurrent.batch import Batch

        return Batch(self.text_engine, texts, capacity)

    @with_options(GenerationOptions, DEFAULTS)
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
        yield from self.many(texts).in_order(prompts, n=n, **options)

    def amany(self, texts: int = MANY, capacity: int | None = None) -> AsyncBatch:
        """`many` for coroutines: they wait in the event loop, and a thread computes for all of
        them. Nothing else may use the pair meanwhile.

            async with pair.amany(8) as many:
                async for chunk in many.stream("Why is the sky blue?"):
                    print(chunk.text, end="")

        The arguments and errors are those of `many`.
        """
        from edgespec.pair.concurrent.async_batch import AsyncBatch

        return AsyncBatch(self.many(texts, capacity))

    @with_options(GenerationOptions, DEFAULTS)
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
        async with self.amany(texts) as many:
            async for result in many.in_order(prompts, n=n, **options):
                yield result

    @with_options(BeamOptions, BEAM_DEFAULTS)
    def beam_search(
        self,
        prompt: PromptInput,
        *,
        num_beams: int = 4,
        length_penalty: float = 1.0,
        early_stopping: EarlyStopping = False,
        **options: Unpack[BeamOptions],
    ) -> list[BeamResult]:
        """The texts that beam search over the target finds, the best first; at most `num_beams`.

        Nothing is drafted: all beams are scored in one call.

        Args:
            prompt: as of `stream`.
            num_beams: how many unended texts are followed.
            length_penalty: a text's score is its log-probability, divided by its number of tokens
                to this power.
            early_stopping: True ends with `num_beams` ended texts; False when the best unended one,
                as it is, could not come among them; "never" when it could not whatever follows.
            options: those of `stream` that choose no tokens by chance, and end none.

        Raises:
            UsageError: an argument is out of range, or the prompt is too long.
            EdgespecError: rows of a call cannot be of several texts here: that needs kernels.
        """
        from edgespec.pair.concurrent.beams import BeamSearch

        if self._beams is None:
            self._beams = BeamSearch(self.text_engine)
        return self._beams(prompt, num_beams, length_penalty, early_stopping, options)

    @with_options(TranscriptionOptions, TRANSCRIPTION_DEFAULTS)
    def transcribe(self, sound: SoundInput, **options: Unpack[TranscriptionOptions]) -> Transcript:
        """Transcribes to the end; takes the options of `stream_transcript`."""
        stream = self.stream_transcript(sound, **options)
        for _ in stream:
            pass
        return stream.result

    @with_options(TranscriptionOptions, TRANSCRIPTION_DEFAULTS)
    def stream_transcript(
        self, sound: SoundInput, **options: Unpack[TranscriptionOptions]
    ) -> TranscriptStream:
        """Starts a transcript and returns an iterator over its segments.

        The text is the target's own, whatever drafts: each verified row keeps to the same rules on
        timestamps and suppressed tokens.

        Args:
            sound: the path of a sound file: WAV, or with the package soundfile FLAC, MP3 or Ogg;
                samples at 16 kHz, [samples] or [samples, channels], as floats from -1 to 1; or an
                `edgespec.audio.sound.Sound`, such as `ArraySound(samples, rate)`. A file is read
                window by window, however long it is.
            options: those of `edgespec.speech.speech_options.checked_options` (`language`, `task`,
                `temperature`, `word_times`, what is left out as silence, …); `voices`: only the
                parts in which somebody speaks, by a model of the package silero-vad: True, or
                `edgespec.speech.voices.VoiceOptions`; `seed` (0 if it is not given: a sound has one
                transcript), `gamma` and `draft` of `edgespec.GenerationOptions`.

        Raises:
            UsageError: an argument is out of range, or the target reads text. Another stream that
                is running is found with the first segment.
            EdgespecError: the sound cannot be read.
        """
        return self.speech_engine.stream(sound, options)

    def encode(self, prompt: PromptInput, chat: bool | None = None) -> list[int]:
        """The token ids of a prompt; `chat` as of `stream`."""
        return self._encoder(prompt, chat).tokens

    @property
    def costs(self) -> Mapping[str, Costs]:
        """Of rounds, by the name of the drafter, guessed or tuned. γ "auto" goes by them until
        rounds were timed, and always where the text depends on γ."""
        return self.drafting.costs

    def use_costs(self, costs: Mapping[str, Costs]) -> None:
        """Lets γ "auto" go by these costs alone from now on, not by the clock."""
        self.drafting.use_costs(costs)

    def __repr__(self) -> str:
        draft = self.manifest.draft.source if self.manifest.draft else "none"
        return f"<edgespec.Pair target={self.manifest.target.source!r} draft={draft!r}>"
