"""What an opened pair consists of: its models and tokenizer, and what is known about them here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, get_ident
from typing import TYPE_CHECKING

from edgespec.artifact.manifest import Manifest
from edgespec.core.model import Model
from edgespec.costs.cost_model import Costs
from edgespec.device.device import Device
from edgespec.drafters.matcher import Store
from edgespec.drafters.remembered_texts import RememberedTexts
from edgespec.drafters.vocabulary_map import Vocabulary
from edgespec.errors import UsageError
from edgespec.pair.drafting import Drafting
from edgespec.pair.opening.profile import Profile

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from edgespec.chat.chat_template import ChatTemplate

__all__ = ["OfParts", "OneAtATime", "PairParts"]


class OneAtATime:
    """The caches of a pair hold one text: others who want to make one are refused, or wait.

    Args:
        waits: those of other threads wait. The thread whose own text is being made is always
            refused: it would wait for itself.
    """

    def __init__(self, waits: bool = False) -> None:
        self._running = Lock()
        self._waits = waits
        self._owner = 0  # the thread whose text is being made

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Raises UsageError while another text is being generated that is not waited for."""
        waits = self._waits and self._owner != get_ident()
        if not self._running.acquire(blocking=waits):
            raise UsageError(
                "this pair is generating another text, and makes one at a time; finish or close "
                "that stream first, or load the pair twice (wait=True lets other threads wait)"
            )
        self._owner = get_ident()
        try:
            yield
        finally:
            self._owner = 0
            self._running.release()


@dataclass(frozen=True)
class PairParts:
    """An opened pair.

    Attributes:
        manifest: what the folder says about itself.
        tokenizer: a `tokenizers.Tokenizer`.
        target, draft: the models; the draft may be None.
        vocabulary: which of the target's tokens the draft has.
        costs: of rounds, by the name of the drafter, guessed or tuned.
        formats: which variants of the target and of the draft were loaded.
        devices: where the target and the draft run.
        tuned: what `edgespec tune` found for these variants on this machine.
        exact: the target is row-invariant on this machine.
        allow_inexact: let it verify even if it is not.
        corpus: texts in which lookup searches.
        remembered: earlier outputs, in which it searches too, and where each text is added.
        shares_calls: texts that share calls of the target have the bits that they have alone here.
        template: the target's chat template.
        occupied: is entered while the caches hold a text that is being made.
    """

    manifest: Manifest
    tokenizer: Tokenizer
    target: Model
    draft: Model | None
    vocabulary: Vocabulary
    costs: Mapping[str, Costs]
    formats: tuple[str, str | None]
    devices: tuple[Device, Device]
    tuned: Profile | None
    exact: bool
    allow_inexact: bool
    corpus: Store | None = None
    remembered: RememberedTexts | None = None
    shares_calls: bool = False
    template: ChatTemplate | None = None
    occupied: OneAtATime = field(default_factory=OneAtATime)

    def drafting(self) -> Drafting:
        """What drafts are made from for the caches of these models."""
        stores: Sequence[Store] = [s for s in (self.corpus, self.remembered) if s is not None]
        static = self.manifest.target.variants[self.formats[0]].static
        return Drafting(
            self.target,
            self.draft,
            vocabulary=self.vocabulary,
            costs=self.costs,
            tuned=self.tuned,
            exact=self.exact,
            allow_inexact=self.allow_inexact,
            stores=stores,
            exported=[rows - 1 for rows in static.rows] if static else (),
        )

    def seconds(self) -> tuple[float, float]:
        """Time spent so far in the target and in the draft."""
        return self.target.seconds, self.draft.seconds if self.draft else 0.0


class OfParts:
    """What consists of the parts of a pair, and shows them by name.

    Attributes:
        parts: of the pair.
    """

    def __init__(self, parts: PairParts) -> None:
        self.parts = parts

    @property
    def manifest(self) -> Manifest:
        """What the folder says about itself."""
        return self.parts.manifest

    @property
    def tokenizer(self) -> Tokenizer:
        """A `tokenizers.Tokenizer`."""
        return self.parts.tokenizer

    @property
    def target(self) -> Model:
        """The model whose texts these are."""
        return self.parts.target

    @property
    def draft(self) -> Model | None:
        """The model that drafts, if there is one."""
        return self.parts.draft

    @property
    def vocabulary(self) -> Vocabulary:
        """Which of the target's tokens the draft has."""
        return self.parts.vocabulary

    @property
    def formats(self) -> tuple[str, str | None]:
        """Which variants of the target and of the draft were loaded."""
        return self.parts.formats

    @property
    def devices(self) -> tuple[Device, Device]:
        """Where the target and the draft run."""
        return self.parts.devices

    @property
    def shares_calls(self) -> bool:
        """Whether several texts can share the calls of the models (`many`)."""
        return self.parts.shares_calls

    def seconds(self) -> tuple[float, float]:
        """Time spent so far in the target and in the draft."""
        return self.parts.seconds()
