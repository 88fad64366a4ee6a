"""Several texts of one pair at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import TYPE_CHECKING, Unpack

from edgespec.core.decode import Loop, Round
from edgespec.core.model import Model
from edgespec.costs.controller import Adaptive, Controller
from edgespec.costs.cost_model import Costs, CostSource
from edgespec.drafters.registry import DRAFTERS, own_costs
from edgespec.errors import UsageError
from edgespec.pair.several.samples import Samples, check_n, seeded
from edgespec.scheduler.live_text import LiveText
from edgespec.scheduler.load_costs import AfterFirst, Load, LoadCosts
from edgespec.scheduler.scheduler import SHARED, Scheduler
from edgespec.scheduler.shared_calls import ReadingDraft, SharedModel, TextModel, Texts

if TYPE_CHECKING:
    from edgespec.core.draft import Drafter
    from edgespec.pair.generation import Chunk, Generation, Stream
    from edgespec.pair.generation_options import GenerationOptions
    from edgespec.pair.prompt import PromptInput
    from edgespec.pair.text_engine import TextEngine

__all__ = ["ManyTexts", "TextStream"]


class ManyTexts:
    """Texts of one pair that share the calls of its models; `Pair.many` makes it.

    Must be used by one thread at a time.

    Args:
        texts: how many at once; one where the pair's calls cannot be shared.
        capacity: positions that each cache holds; None takes the pair's.

    Attributes:
        engine: what makes the pair's texts.
        target, drafts: the texts of the models, which count their calls; None where they are not
            shared.

    Raises:
        UsageError: there is no memory for their caches, or the number is below 1.
    """

    def __init__(self, engine: TextEngine, texts: int, capacity: int | None = None) -> None:
        if texts < 1:
            raise UsageError(f"texts is {texts}; give a whole number from 1")
        parts, drafting = engine.parts, engine.drafting
        capacity = parts.target.capacity if capacity is None else capacity
        load = Load(drafting.call_times)
        self.engine = engine
        self.target = _several(parts.target, texts, capacity) if parts.shares_calls else None
        self.drafts: Texts | None = None
        self._scheduler = Scheduler(self.target, load)
        if self.target is None:
            self._seats = [_Seat(engine)]
            return
        self.drafts = _drafts(parts.draft, self.target, texts, capacity)
        drafts = self.drafts.texts if self.drafts else [None] * texts
        clock = _LoadClock(load, drafting.costs, parts.manifest.target.is_encoder_decoder)
        self._seats = [
            _SharedSeat(engine, target, draft, clock, self._scheduler)
            for target, draft in zip(self.target.texts, drafts, strict=True)
        ]

    @property
    def capacity(self) -> int:
        """How many texts can be made at once."""
        return len(self._seats)

    @property
    def free(self) -> int:
        """How many more texts can begin now."""
        return sum(seat.is_free for seat in self._seats)

    def stream(self, prompt: PromptInput, **options: Unpack[GenerationOptions]) -> TextStream:
        """Starts a text, as `Pair.stream`. It grows whenever any text is asked for its next token.

        A cache that holds the beginning of the prompt is taken, or else the one that was not used
        for the longest time.

        Raises:
            UsageError: as `Pair.stream`, or as many texts as can be made at once are being made.
        """
        free = [seat for seat in self._seats if seat.is_free]
        if not free:
            raise UsageError(
                f"{len(self._seats)} texts are being made, as many as there are caches; finish or "
                "close one first, or ask for more texts"
            )
        seat = free[0]
        if len(free) > 1 and not self.engine.parts.manifest.target.is_encoder_decoder:
            tokens = self.engine.encoder(prompt, options.get("chat", False)).tokens
            best = max(free, key=lambda seat: seat.kept(tokens))
            seat = best if best.kept(tokens) >= SHARED else seat
        self._seats.remove(seat)
        self._seats.append(seat)  # used last
        return seat.stream(prompt, options)

    def samples(self, prompt: PromptInput, n: int, **options: Unpack[GenerationOptions]) -> Samples:
        """Several texts of one prompt. With a seed, text number i is drawn with seed + i. They
        begin with `Samples.grow`.

        Raises:
            UsageError: n is below 1.
        """
        check_n(n)
        return Samples(self, prompt, n, options)

    def step(self) -> None:
        """Makes one call for the texts that share calls; see `TextStream.ready`."""
        self._scheduler.step()

    def results(
        self, prompts: Iterable[PromptInput], *, n: int = 1, **options: Unpack[GenerationOptions]
    ) -> Iterator[tuple[int, Generation]]:
        """Makes `n` texts for each prompt and yields each with its number as it ends.

        Args:
            options: of `Pair.stream`. With a seed, text number i is drawn with seed + i.

        Raises:
            UsageError: as `stream`.
        """
        check_n(n)
        wanted = (prompt for prompt in prompts for _ in range(n))
        numbered = zip(count(), wanted, strict=False)
        running: dict[int, TextStream] = {}
        try:
            while True:
                while self.free and (following := next(numbered, None)) is not None:
                    number, prompt = following
                    running[number] = self.stream(prompt, **seeded(options, number))
                if not running:
                    return
                self.step()
                for number, stream in list(running.items()):
                    stream.ready()
                    if stream.ended:
                        yield number, running.pop(number).result
        finally:
            for stream in running.values():
                stream.close()


class TextStream:
    """Iterates over the `Chunk`s of one of several texts, as `Stream` does.

    Args:
        live: its place in the scheduler; None for a text that shares no calls.

    Attributes:
        result: grows with the chunks.
        ended: all chunks were taken.
    """

    def __init__(self, stream: Stream, live: LiveText | None) -> None:
        self._stream = stream
        self._live = live
        self.result = stream.result
        self.ended = False

    def __iter__(self) -> TextStream:
        return self

    def __next__(self) -> Chunk:
        try:
            return next(self._stream)
        except BaseException:
            self.close()
            raise

    def ready(self) -> list[Chunk]:
        """The chunks that came with the latest steps; ends the text with its last. A text that
        shares no calls computes its next chunk now.

        Raises:
            EdgespecError: the text cannot be made.
        """
        if self._live is None:
            return list(islice(self, 1))
        chunks = [next(self) for _ in range(self._live.ready_tokens)]
        if self._live.ended and not self.ended:
            chunks += self
        return chunks

    def close(self) -> None:
        """Ends the text, if it has not ended yet, and frees its cache for another."""
        self.ended = True
        self._stream.close()
        if self._live is not None:
            self._live.close()

    def __enter__(self) -> TextStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Seat:
    """The caches of one text that shares no calls, and the text that is being made in them."""

    def __init__(self, engine: TextEngine) -> None:
        self._engine = engine
        self._stream: TextStream | None = None
        self._live: LiveText | None = None

    @property
    def is_free(self) -> bool:
        return self._stream is None or self._stream.ended

    def kept(self, prompt: Sequence[int]) -> int:
        """How many leading positions of a prompt the target's cache holds."""
        return 0

    def stream(self, prompt: PromptInput, options: GenerationOptions) -> TextStream:
        stream = self._engine.stream(prompt, options)
        self._stream = TextStream(stream, self._live)
        return self._stream


class _SharedSeat(_Seat):
    """The caches of one of several texts that share calls.

    Args:
        engine: of the pair.
        target, draft: texts of its models.
        clock: for γ "auto".
        scheduler: drives the loops.
    """

    def __init__(
        self,
        engine: TextEngine,
        target: TextModel,
        draft: Model | None,
        clock: _LoadClock,
        scheduler: Scheduler,
    ) -> None:
        super().__init__(engine.slot(target, draft, clock, self._drive))
        self._target = target
        self._scheduler = scheduler

    def kept(self, prompt: Sequence[int]) -> int:
        return self._target.kept(self._target.position_keys(prompt))

    def _drive(self, loop: Loop) -> Iterator[Round]:
        self._live = self._scheduler.add(loop)
        return self._live.rounds()


class _LoadClock:
    """Costs of rounds while other texts share the calls (`edgespec.pair.round_clock.CostClock`)."""

    def __init__(self, load: Load, costs: Mapping[str, Costs], has_encoder: bool) -> None:
        self._guesses = costs
        self._has_encoder = has_encoder
        self.costs: Mapping[str, CostSource] = {
            name: LoadCosts(load, guess.longest, DRAFTERS[name].uses_model)
            for name, guess in costs.items()
        }

    def timed(self, name: str, chooser: Controller, target: Model) -> Controller:
        # Calls are timed, not rounds. An encoder reads a prompt apart from the first token.
        return chooser if self._has_encoder else AfterFirst(chooser)

    def timed_own(self, drafter: Drafter, target: Model) -> Controller:
        return Adaptive(own_costs(drafter, self._guesses["lookup"]))


def _drafts(model: Model | None, target: Texts, count: int, capacity: int) -> Texts | None:
    """Texts of a draft; None if they cannot share its calls."""
    if isinstance(model, ReadingDraft) and model.shares_calls:
        return model.several_beside(target, capacity)
    return _several(model, count, capacity)


def _several(model: Model | None, count: int, capacity: int) -> Texts | None:
    """Texts of a model; None if they cannot share its calls."""
    if isinstance(model, SharedModel) and model.shares_calls:
        return model.several(count, capacity)
    return None
