"""The training of a draft, from the target's outputs to the draft's checkpoint."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging as transformers_logging

from edgespec.artifact.atomic_file import whole_file
from edgespec.device.kernels import installed_kernels
from edgespec.device.memory_limit import memory_limit
from edgespec_distill.data.derived_seed import derived_seed
from edgespec_distill.data.draft_vocabulary import (
    DraftVocabulary,
    frequent_vocabulary,
    full_vocabulary,
)
from edgespec_distill.data.examples import Example, Text, read_examples, write_examples
from edgespec_distill.data.features import Features, ShowingTarget
from edgespec_distill.data.held_out import HeldOut, greedy_acceptance
from edgespec_distill.data.own_prompts import MOST_TOKENS, own_prompts
from edgespec_distill.data.target_outputs import BLOCK, TargetOutputs
from edgespec_distill.data.text_generation import add_distributions, generate_texts
from edgespec_distill.data.training_answers import Answer
from edgespec_distill.models.causal import Causal
from edgespec_distill.models.draft_builder import DraftBuilder
from edgespec_distill.models.exported_target import as_exported
from edgespec_distill.models.reading.eagle_module import feature_layers
from edgespec_distill.models.target import open_target
from edgespec_distill.models.target_ends import open_ends, training_dtype
from edgespec_distill.models.target_head import TargetHead
from edgespec_distill.models.trainable import GeneratingModel, ScoringModel
from edgespec_distill.models.untrained_draft import spread_layers
from edgespec_distill.needs import GB, Amounts, Needs, check_needs, needs_of
from edgespec_distill.plan import ORIGINAL, Plan, has_known_layers
from edgespec_distill.result import Distillation
from edgespec_distill.training.loss import LOSSES
from edgespec_distill.training.memory import (
    keep_freed_memory,
    one_line_memory,
    return_freed_memory,
)
from edgespec_distill.training.training_loop import Training, TrainingProgress
from edgespec_export.checkpoint.checkpoint import Checkpoint
from edgespec_export.checkpoint.sources import Source
from edgespec_export.families import Family
from edgespec_export.families.decoder_only import DecoderOnly
from edgespec_export.families.t5 import T5
from edgespec_export.families.tensor_check import fitted

__all__ = ["train_draft"]

logger = logging.getLogger("edgespec")

EAGLE_START_TEXTS = 512  # that an EAGLE draft is initialised with
MIN_MINUTES = 0.5  # of training, however long the target's outputs took


def train_draft(
    source: Source,
    checkpoint: Checkpoint,
    prompts: list[list[int]],
    answers: Sequence[Answer],
    plan: Plan,
    work: Path,
    folder: Path,
    report: Callable[[TrainingProgress], object],
) -> Distillation:
    """Trains a draft and writes its checkpoint into `folder`.

    Args:
        prompts: token ids.
        answers: texts that the target reads.
        plan: complete, for this target.
        work: folder of an interrupted run's state.
    """
    keep_freed_memory()
    with one_line_memory(), _quiet_transformers():
        logger.info(f"target: {source.label}")
        family = fitted(checkpoint)
        plan = _resolved(plan, family)
        needs = _needs(plan, family, checkpoint, prompts, answers)
        logger.info(f"{needs}")
        target = _opened(source, checkpoint, family, plan, work)
        return_freed_memory()  # to load and to export it took gigabytes
        target.positions_at_once = needs.positions
        if plan.own_prompts:
            file, ends = work / "own-prompts.json", checkpoint.eos_token_ids
            prompts = prompts + own_prompts(
                target, checkpoint, plan.own_prompts, ends, file, plan.seed
            )
        run = _Run(target, checkpoint, prompts, plan, needs, work, report)
        cap = family.logit_cap if isinstance(family, DecoderOnly) else None
        draft, result = run.train([Text(*answer) for answer in answers], cap)
        _save(draft, checkpoint, folder)
    return result


def _opened(
    source: Source, checkpoint: Checkpoint, family: Family, plan: Plan, work: Path
) -> GeneratingModel:
    """The target, as it writes the texts that are learnt.

    Args:
        plan: with its target format.
    """
    layers = feature_layers(family.layers) if plan.uses_target_states else ()
    assert plan.target_format is not None
    if plan.target_format == ORIGINAL:
        target = open_target(source, family.start_token)
        if isinstance(target, Causal):
            target.feature_layers = layers
        return target
    if isinstance(family, DecoderOnly) or (isinstance(family, T5) and plan.uses_target_states):
        ends = open_ends(checkpoint, family, plan)
    else:
        ends = open_target(source, family.start_token)
    return as_exported(ends, checkpoint, plan.target_format, layers, work)


def _resolved(plan: Plan, family: Family) -> Plan:
    """The plan with the target's format; and without stored states where a GPU computes them, as it
    does so faster than they are fetched."""
    has_gpu = torch.cuda.device_count() > 0
    runs_kernels = bool(installed_kernels()) and not has_gpu
    usual = "int8" if runs_kernels or not has_known_layers(plan, family) else ORIGINAL
    plan = replace(plan, target_format=plan.target_format or usual)
    computes_there = has_gpu and plan.target_format == ORIGINAL
    return replace(plan, disk=0.0) if computes_there else plan


def _needs(
    plan: Plan,
    family: Family,
    checkpoint: Checkpoint,
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Answer],
) -> Needs:
    """What the run takes. Where a GPU computes, its memory is not known.

    Raises:
        UsageError: the machine has less memory.
    """
    amounts = Amounts(
        len(prompts) + plan.own_prompts,
        sum(map(len, prompts)) + plan.own_prompts * MOST_TOKENS,
        len(answers),
        sum(len(part) for answer in answers for part in answer),
    )
    device = "cuda" if torch.cuda.device_count() else "cpu"
    limit = math.inf if device == "cuda" else (memory_limit() or math.inf) / GB
    parameters = checkpoint.float32_bytes // 4
    needs = needs_of(plan, family, parameters, amounts, training_dtype(device).itemsize, limit)
    check_needs(needs, limit)
    return needs


class _Run:
    """The stages of one distillation."""

    def __init__(
        self,
        target: GeneratingModel,
        checkpoint: Checkpoint,
        prompts: list[list[int]],
        plan: Plan,
        needs: Needs,
        work: Path,
        report: Callable[[TrainingProgress], object],
    ) -> None:
        self._target, self._plan, self._needs = target, plan, needs
        self._eos_token_ids = checkpoint.eos_token_ids
        self._target_parameters = checkpoint.float32_bytes // 4
        self._work, self._report = work, report
        prompts = list(prompts)
        random.Random(plan.seed).shuffle(prompts)
        held_out = max(4, min(64, len(prompts) // 20))
        self._held_out_prompts, self._prompts = prompts[:held_out], prompts[held_out:]
        features: Features | None = None
        if plan.uses_target_states and isinstance(target, ShowingTarget):
            features = Features(target, plan.disk * GB)
        self._outputs = TargetOutputs(target, features, self._eos_token_ids, plan, work)
        self._builder = DraftBuilder(target, features, plan)

    def train(
        self, answers: Sequence[Text], logit_cap: float | None
    ) -> tuple[ScoringModel, Distillation]:
        """Trains the draft.

        Args:
            answers: texts that the target reads.
            logit_cap: the target's.
        """
        plan = self._plan
        started = self._started()
        greedy, sampled = (
            self._outputs.held_out(self._held_out_prompts, temperature)
            for temperature in (0.0, 1.0)
        )
        examples = [] if plan.on_policy else list(self._outputs.training(self._prompts))
        vocabulary = started.vocabulary if started else self._vocabulary([*examples, *answers])
        read: list[Example] = []
        if answers:
            head = TargetHead(self._target.model, vocabulary, logit_cap)
            read = list(self._outputs.read(answers, head))
        draft = started or self._fresh(vocabulary, examples or read)
        self._log_draft(draft, [*greedy, *sampled])
        held_out = HeldOut(self._target, draft.vocabulary, greedy, sampled)
        known = _spread_examples([e for e in examples if e.is_greedy], len(self._held_out_prompts))
        training = self._training(draft, held_out)
        after = training.run(self._chunks(draft, [*examples, *read]))
        known_acceptance = greedy_acceptance(draft, known) if known else None
        draft.model.float().load_state_dict(training.optimizer.weights(), strict=False)
        return draft, Distillation(
            before=training.before,
            after=after,
            known=known_acceptance,
            prompts=len({tuple(e.prompt) for e in examples}) or len(self._prompts),
            held_out=len(self._held_out_prompts),
            output_tokens=sum(len(example.output) for example in examples),
            read_tokens=sum(len(example.output) for example in read),
            steps=training.budget.steps,
            minutes=training.budget.seconds / 60,
            target_parameters=self._target_parameters,
            draft_parameters=_parameters(draft.model),
        )

    def _training(self, draft: ScoringModel, held_out: HeldOut) -> Training:
        plan = self._plan
        return Training(
            draft,
            LOSSES[plan.loss],
            rate=plan.rate,
            minutes=plan.minutes and max(plan.minutes - self._outputs.minutes, MIN_MINUTES),
            steps=plan.steps,
            positions=plan.positions,
            seed=plan.seed,
            state=self._work / "state.pt",
            most_memory=self._needs.training * GB,
            evaluate=lambda: held_out.acceptance(draft),
            report=self._report,
        )

    def _chunks(
        self, draft: ScoringModel, examples: Sequence[Example]
    ) -> Callable[[int], Sequence[Example]]:
        """The examples of each pass: the target's outputs, or new ones of the draft."""
        if self._plan.on_policy and isinstance(draft, GeneratingModel):
            return partial(self._on_policy, draft)
        return lambda _: examples

    def _started(self) -> ScoringModel | None:
        """The finished draft that the plan starts from, if there is one.

        It is opened first, so that one that does not fit is refused before the target generates
        for an hour. The target draws the same random numbers with it and without it.
        """
        if self._plan.start is None:
            return None
        with torch.random.fork_rng():
            return self._builder.from_finished(Path(self._plan.start))

    def _fresh(self, vocabulary: DraftVocabulary, examples: Sequence[Example]) -> ScoringModel:
        """An untrained draft."""
        return self._builder.from_target(vocabulary, _spread_examples(examples, EAGLE_START_TEXTS))

    def _vocabulary(self, examples: Sequence[Text]) -> DraftVocabulary:
        """The draft's tokens: the most frequent ones in what the target reads and writes."""
        model, size = self._target.model, self._plan.vocabulary
        embeddings = model.get_input_embeddings().weight.detach().cpu()
        if size is None or size >= len(embeddings):
            return full_vocabulary(len(embeddings))
        file = self._work / "vocabulary.pt"
        if not file.exists():
            texts = examples or self._outputs.sample(self._prompts[: 2 * BLOCK])
            parts = [part for text in texts for part in (text.prompt, text.output)]
            found = frequent_vocabulary(parts, self._eos_token_ids, size, embeddings)
            with whole_file(file) as aside:
                torch.save((found.outputs, found.inputs), aside)
        return DraftVocabulary(*torch.load(file, weights_only=True))

    def _log_draft(self, draft: ScoringModel, held_out: Sequence[Text]) -> None:
        tokens = torch.tensor([token for text in held_out for token in text.output])
        covered = draft.vocabulary.known(tokens).float().mean().item()
        logger.info(f"the draft can say {covered:.1%} of the target's tokens")
        size = _parameters(draft.model)
        share = size / self._target_parameters
        logger.info(f"draft: {size / 1e6:.1f}M parameters, {share:.1%} of the target")

    def _on_policy(self, draft: GeneratingModel, number: int) -> list[Example]:
        """Texts of the draft in its present state, with the target's distributions; those of an
        interrupted run if it wrote as many."""
        file = self._work / f"on-policy-{number}.pt"
        if not file.exists():
            for older in self._work.glob("on-policy-*.pt"):
                older.unlink()
            chosen = random.Random(derived_seed(self._plan.seed, "chosen", number))
            prompts = chosen.sample(self._prompts, min(BLOCK, len(self._prompts)))
            settings = self._outputs.settings(1.0, "on-policy", number)
            texts = generate_texts(draft, prompts, settings)
            write_examples(add_distributions(self._target, texts), file)
        return read_examples(file)


def _spread_examples(examples: Sequence[Example], count: int) -> list[Example]:
    """`count` examples, evenly spaced: neighbours have prompts of similar length."""
    return [examples[i] for i in spread_layers(min(count, len(examples)), len(examples))]


def _save(draft: ScoringModel, checkpoint: Checkpoint, folder: Path) -> None:
    draft.model.to(torch.float16).save_pretrained(folder)
    draft.vocabulary.save(folder)
    if not getattr(draft.model, "has_target_tables", False):  # else it takes the target's, too
        checkpoint.tokenizer.save(str(folder / "tokenizer.json"))


def _parameters(model: Any) -> int:
    return sum(weight.numel() for weight in model.parameters())


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Hides transformers' messages and progress bars, which would mix with the training's own."""
    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
