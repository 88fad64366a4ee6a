"""Concurrent texts of one pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Unpack

from edgespec.core.model import Model
from edgespec.costs.controller import Adaptive, Controller
from edgespec.costs.cost_model import Costs, CostSource
from edgespec.drafters.registry import DRAFTERS, own_costs
from edgespec.errors import UsageError
from edgespec.pair.concurrent.in_order import InOrder
from edgespec.pair.concurrent.seeds import each, seeded
from edgespec.scheduler.load_costs import AfterFirst, Load, LoadCosts
from edgespec.scheduler.scheduler import SHARED, Scheduler
from edgespec.scheduler.shared_calls import (
    OwnCallsDraft,
    SequenceBatch,
    SequenceModel,
    SharedModel,
    TargetStatesDraft,
)

if TYPE_CHECKING:
    from edgespec.core.draft import Drafter
    from edgespec.pair.generation import Generation, Stream
    from edgespec.pair.generation_options import GenerationOptions
    from edgespec.pair.keeping.prefix_folder import PrefixFolder
    from edgespec.pair.prompt import Prompt, PromptInput
    from edgespec.pair.text_engine import TextEngine

__all__ = ["Batch"]


class Batch:
    """Concurrent texts of one pair that share the calls of its models; `Pair.many` makes it.

    Must be used by one thread at a time.

    Args:
        texts: how many at once; one where the pair's calls cannot be shared.
        capacity: positions that each cache holds; None takes the pair's.

    Attributes:
        engine: what makes the pair's texts.
        target, drafts: the sequences of the models, which count their calls; None where they are
            not shared.

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
        self._longest = None if engine.longest_prompt is None else capacity
        self.target = _shared_batch(parts.target, texts, capacity) if parts.shares_calls else None
        self.drafts: SequenceBatch | None = None
        self._scheduler = Scheduler(self.target, load)
        if self.target is None:
            self._slots = [Slot(engine)]
            return
        self.drafts = _draft_batch(parts.draft, self.target, texts, capacity)
        drafts = self._draft_models(parts.draft, self.target, capacity)
        clock = _LoadClock(load, drafting.costs, parts.manifest.target.is_encoder_decoder)
        self._slots = [
            Slot(engine.slot(target, draft, clock, self._scheduler.add), target)
            for target, draft in zip(self.target.sequences, drafts, strict=True)
        ]

    def _draft_models(
        self, draft: Model | None, target: SequenceBatch, capacity: int
    ) -> Sequence[Model | None]:
        """The draft of each slot; None where it cannot draft for several texts at once."""
        if self.drafts is not None:
            return self.drafts.sequences
        if isinstance(draft, OwnCallsDraft):
            return draft.beside(target, capacity)
        return [None] * len(target.sequences)

    @property
    def capacity(self) -> int:
        """How many texts can be made at once."""
        return len(self._slots)

    @property
    def free(self) -> int:
        """How many more texts can begin now."""
        return sum(slot.is_free for slot in self._slots)

    def stream(self, prompt: PromptInput, **options: Unpack[GenerationOptions]) -> Stream:
        """Starts a text, as `Pair.stream`. It grows whenever any text is asked for its next token.

        A cache that holds the beginning of the prompt is taken, or else the one that was not used
        for the longest time.

        Raises:
            UsageError: as `Pair.stream`, or as many texts as can be made at once are being made.
        """
        free = [slot for slot in self._slots if slot.is_free]
        if not free:
            made = "1 text is" if len(self._slots) == 1 else f"{len(self._slots)} texts are"
            raise UsageError(
                f"{made} being made, as many as there are caches; finish or close one first, or "
                "ask for more texts"
            )
        tokens = (prompt := self.encoded(prompt, options)).tokens
        slot = free[0]
        if len(free) > 1 and not self.engine.parts.manifest.target.is_encoder_decoder:
            best = max(free, key=lambda slot: slot.kept(tokens))
            slot = best if best.kept(tokens) >= SHARED else slot
        if self.engine.kept_prompts is not None:
            slot.keep(self.engine.kept_prompts, tokens)
            own = max(each.kept(tokens) for each in self._slots)
            self.engine.kept_prompts.lend(tokens, own)
        self._slots.remove(slot)
        self._slots.append(slot)  # used last
        return slot.stream(prompt, options)

    def keep(self) -> None:
        """Keeps what the caches hold (`Pair.keep_prompts`)."""
        for slot in self._slots:
            if self.engine.kept_prompts is not None and slot.is_free:
                slot.keep(self.engine.kept_prompts)

    def encoded(self, prompt: PromptInput, options: GenerationOptions) -> Prompt:
        """The token ids of a prompt, which `stream` takes in its place; any thread may call it.

        Raises:
            UsageError: as `stream`.
        """
        return self.engine.read.prompt(prompt, options, self._longest)

    def step(self) -> None:
        """Makes one call for the texts that share calls; see `Stream.ready`."""
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
        numbered = zip(count(), each(prompts, n), strict=False)
        running: dict[int, Stream] = {}
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

    def in_order(
        self, prompts: Iterable[PromptInput], *, n: int = 1, **options: Unpack[GenerationOptions]
    ) -> Iterator[Generation]:
        """`results` in the order of the prompts, without their numbers."""
        ordered: InOrder[Generation] = InOrder()
        for number, result in self.results(prompts, n=n, **options):
            yield from ordered.add(number, result)


class Slot:
    """The caches of one text, and the text that is being made in them.

    Args:
        engine: makes texts in these caches.
        target: the sequence of the target's cache; None for a slot that shares no calls.
    """

    def __init__(self, engine: TextEngine, target: SequenceModel | None = None) -> None:
        self._engine = engine
        self._target = target
        self._stream: Stream | None = None

    @property
    def is_free(self) -> bool:
        return self._stream is None or self._stream.ended

    def kept(self, prompt: Sequence[int]) -> int:
        """How many leading positions of a prompt the target's cache holds."""
        return self._target.kept(self._target.position_keys(prompt)) if self._target else 0

    def keep(self, folder: PrefixFolder, prompt: Sequence[int] = ()) -> None:
        """Keeps what the caches hold, unless the prompt goes on from nearly there."""
        target = self._target
        if target is not None and target.computed_length - self.kept(prompt) >= SHARED:
            folder.keep(target, self._engine.drafting.draft)

    def stream(self, prompt: PromptInput, options: GenerationOptions) -> Stream:
        self._stream = self._engine.stream(prompt, options)
        return self._stream


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


def _draft_batch(
    model: Model | None, target: SequenceBatch, count: int, capacity: int
) -> SequenceBatch | None:
    """The sequences of a draft; None if they cannot share its calls."""
    if isinstance(model, TargetStatesDraft) and model.shares_calls:
        return model.batch_for(target, capacity)
    return _shared_batch(model, count, capacity)


def _shared_batch(model: Model | None, count: int, capacity: int) -> SequenceBatch | None:
    """The sequences of a model; None if they cannot share its calls."""
    if isinstance(model, SharedModel) and model.shares_calls:
        return model.make_batch(count, capacity)
    return None
