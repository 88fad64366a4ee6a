"""The target's texts after the prompts, generated once and stored in the work folder."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from edgespec.artifact.atomic_file import whole_file
from edgespec_distill.data.derived_seed import derived_seed
from edgespec_distill.data.examples import Example, Text, read_examples, write_examples
from edgespec_distill.data.features import Features
from edgespec_distill.data.pace import Pace
from edgespec_distill.data.text_generation import (
    GenerationSettings,
    generate_texts,
    generate_with_distributions,
)
from edgespec_distill.models.target_head import TargetHead
from edgespec_distill.models.trainable import GeneratingModel
from edgespec_distill.plan import Plan
from edgespec_distill.training.memory import return_freed_memory

__all__ = ["BLOCK", "FINISHED_SHARE", "TargetOutputs"]

logger = logging.getLogger("edgespec")

BLOCK = 512  # prompts whose outputs are stored in one file
GENERATION_SHARE = 0.4  # of the plan's minutes at most
READING_SHARE = 0.6  # with what the target reads
FINISHED_SHARE = 0.9  # of the texts generated at once; the others are then cut
MINUTES_FILE = "minutes-written.txt"


class TargetOutputs:
    """What the target generates. Every text is generated once, also across interrupted runs.

    Args:
        features: where the features of an EAGLE draft's texts are added; None: no EAGLE draft.
        eos_token_ids: token ids that end a text.
        work: the folder of the files.
    """

    def __init__(
        self,
        target: GeneratingModel,
        features: Features | None,
        eos_token_ids: Collection[int],
        plan: Plan,
        work: Path,
    ) -> None:
        self._target, self._features = target, features
        self._eos_token_ids, self._plan, self._work = eos_token_ids, plan, work

    def settings(
        self, temperature: float, *purpose: object, finished_share: float = FINISHED_SHARE
    ) -> GenerationSettings:
        """How texts of this plan are generated, with a seed for this purpose."""
        seed = derived_seed(self._plan.seed, *purpose)
        most = self._plan.max_new_tokens
        return GenerationSettings(most, self._eos_token_ids, temperature, finished_share, seed)

    def held_out(self, prompts: Sequence[Sequence[int]], temperature: float) -> Sequence[Text]:
        """Outputs after prompts that are not trained on, each generated to its end."""
        file = self._work / f"held-out-{temperature:.0f}.pt"
        if not file.exists():
            with self._timed():
                whole = self.settings(temperature, "held-out", finished_share=1.0)
                self._generate(prompts, whole, file)
        return self._read(file)

    def training(self, prompts: Sequence[Sequence[int]]) -> Iterator[Example]:
        """Greedy and sampled outputs in turns, until `GENERATION_SHARE` of the time is used."""
        plan = self._plan
        blocks = [prompts[i : i + BLOCK] for i in range(0, len(prompts), BLOCK)]
        tasks = [(r, i, (r + i) % 2) for r in range(plan.outputs) for i in range(len(blocks))]
        pace, tokens, begun = Pace(), 0, 0
        for done, (round_, index, temperature) in enumerate(tasks):
            file = self._work / f"outputs-{round_}-{index:05}.pt"
            if not file.exists():
                if done and self._is_over(GENERATION_SHARE):
                    logger.info(
                        f"the time for the target's outputs is over: {done} of {len(tasks)}"
                    )
                    return
                with self._timed():
                    settings = self.settings(float(temperature), "outputs", round_, index)
                    self._generate(blocks[index], settings, file)
                begun += 1
                tokens += sum(len(example.output) for example in read_examples(file))
                logger.info(
                    f"the target wrote block {done + 1} of {len(tasks)}, "
                    f"{tokens / pace.seconds:.0f} tokens/s"
                    f"{pace.left(begun, len(tasks) - done - 1)}"
                )
            yield from self._read(file)

    def read(self, texts: Sequence[Text], head: TargetHead) -> Iterator[Example]:
        """Texts that the target reads and did not write, until `READING_SHARE` of the time is used.

        Args:
            head: of the draft's tokens.
        """
        blocks = [texts[i : i + BLOCK] for i in range(0, len(texts), BLOCK)]
        pace, positions = Pace(), 0
        for index, block in enumerate(blocks):
            file = self._work / f"answers-{index:05}.pt"
            if not file.exists():
                if self._is_over(READING_SHARE):
                    logger.info(f"the time for reading is over: {index} of {len(blocks)}")
                    return
                with self._timed():
                    write_examples(self._judged(block, head, file), file)
                positions += sum(map(len, block))
                logger.info(
                    f"the target read block {index + 1} of {len(blocks)}, "
                    f"{positions / pace.seconds:.0f} tokens/s"
                    f"{pace.left(index + 1, len(blocks) - index - 1)}"
                )
            yield from self._read(file)

    def _is_over(self, share: float) -> bool:
        """Whether this share of the plan's minutes is used."""
        minutes = self._plan.minutes
        return minutes is not None and self.minutes > share * minutes

    def sample(self, prompts: Sequence[Sequence[int]]) -> list[Text]:
        """Sampled outputs that are not stored."""
        with self._timed():
            return generate_texts(self._target, prompts, self.settings(1.0, "sample"))

    @property
    def minutes(self) -> float:
        """The time that the generation took so far, including earlier runs."""
        file = self._work / MINUTES_FILE
        return float(file.read_text(encoding="utf-8")) if file.exists() else 0.0

    def _generate(
        self, prompts: Sequence[Sequence[int]], settings: GenerationSettings, file: Path
    ) -> None:
        """Generates outputs and stores them: features first, as the examples' file says that all
        is there."""
        written = generate_with_distributions(self._target, prompts, settings)
        if self._features is None:
            examples = [example for example, _ in written]
        else:
            examples = list(self._features.keeping(written, file))
        write_examples(examples, file)

    def _judged(self, texts: Sequence[Text], head: TargetHead, file: Path) -> list[Example]:
        """Texts that the target reads, with its distributions; features are stored on the way."""
        assert self._features is not None
        pairs = ((head.example(t, own), own) for t, own in self._features.read(texts))
        return list(self._features.keeping(pairs, file))

    def _read(self, file: Path) -> list[Example]:
        examples = read_examples(file)
        if self._features is not None:
            self._features.add(examples, file)
        return examples

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Adds the time of the block to `minutes`; the memory that it freed is returned."""
        began = time.monotonic()
        yield
        return_freed_memory()
        spent = self.minutes + (time.monotonic() - began) / 60
        with whole_file(self._work / MINUTES_FILE) as aside:
            aside.write_text(f"{spent}\n", encoding="utf-8")
