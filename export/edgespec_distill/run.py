"""Distillation, end to end: a target and prompts in, a draft's checkpoint out."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from edgespec.artifact.atomic_file import whole_file
from edgespec.artifact.chat_format import user_message
from edgespec.artifact.staging import staged
from edgespec.artifact.text_file import read_lines
from edgespec.errors import UsageError
from edgespec_distill.card import RECORD, write_card
from edgespec_distill.data.draft_vocabulary import Vocabulary, frequent, whole
from edgespec_distill.data.examples import Example, Text
from edgespec_distill.data.features import Features
from edgespec_distill.data.held_out import HeldOut, greedy_acceptance
from edgespec_distill.data.outputs import (
    SamplingPlan,
    cut,
    generate_with_distributions,
    read_examples,
    with_distributions,
    write_examples,
    written,
)
from edgespec_distill.models.eagle_student import Eagle, layers_to_read
from edgespec_distill.models.student import last, small_model, spread
from edgespec_distill.models.target import open_target
from edgespec_distill.models.trainable import Causal, Distilled, EagleStudent, Student
from edgespec_distill.plan import Distillation, Plan, check_plan, plan_for
from edgespec_distill.start import shaped, take_weights, vocabulary_of
from edgespec_distill.training.loss import LOSSES
from edgespec_distill.training.memory import keep_freed_memory, one_line_memory
from edgespec_distill.training.training_loop import Report, Training
from edgespec_distill.work_folder import one_line_disk, recipe_of, work_folder
from edgespec_export.checkpoint.checkpoint import Checkpoint, open_checkpoint
from edgespec_export.checkpoint.sources import resolve
from edgespec_export.families import family_of
from edgespec_export.write_pair import check_target

__all__ = ["distill"]

FEWEST = 16  # prompts
BLOCK = 512  # prompts whose outputs are kept in one file
STARTERS = 512  # texts that a draft which reads begins with
WRITING = 0.4  # of the minutes at most go into the target's outputs
SHORTEST = 0.5  # minutes of training, whatever the outputs took
MINUTES = "minutes-written.txt"
ENOUGH = 0.9  # of the texts written at once; when they have ended, the rest is cut
Say = Callable[[str], object]


def distill(
    target: str,
    text: Path,
    folder: Path,
    plan: Plan,
    *,
    replace: bool = False,
    say: Say = lambda _: None,
    report: Callable[[Report], object] = lambda _: None,
) -> Distillation:
    """Trains a draft for `target` on what it writes after the prompts in `text`.

    Args:
        target: a checkpoint folder, a GGUF file, a hub id or a short name.
        text: a prompt on each line.
        folder: of the draft's checkpoint; appears when it is finished. An interrupted run leaves
            its state beside it, and the same call goes on from there.

    Raises:
        EdgespecError: one line that names what is wrong; `folder` is then as it was.
    """
    plan = shaped(plan)
    check_plan(plan)
    keep_freed_memory()
    source = resolve(target)
    checkpoint = open_checkpoint(source)
    family = family_of(checkpoint.config, checkpoint.label)
    check_target(checkpoint, family)
    plan = plan_for(plan, family)
    prompts = _prompts(text, checkpoint, plan.chat)
    recipe = recipe_of(source, prompts, plan)
    ours = staged(folder, replace=replace, recipe=recipe, mark=RECORD, what="a distilled draft")
    with ours as aside, one_line_memory():
        work = work_folder(folder, recipe)
        say(f"target: {source.label}")
        teacher = open_target(source, family.start_token)
        run = _Run(teacher, checkpoint.eos_token_ids, prompts, plan, work, say, report)
        with one_line_disk(work):
            draft, found = run.train()
            _save(draft, checkpoint, aside)
            write_card(aside, source, plan, found)
    shutil.rmtree(work)
    return found


class _Run:
    """The stages of one distillation, which share the target, the prompts and a work folder."""

    def __init__(
        self,
        target: Distilled,
        ends: Sequence[int],
        prompts: list[list[int]],
        plan: Plan,
        work: Path,
        say: Say,
        report: Callable[[Report], object],
    ) -> None:
        self._target, self._ends, self._plan, self._work = target, ends, plan, work
        self._say, self._report = say, report
        torch.manual_seed(plan.seed)
        self._probability = random.Random(plan.seed)
        self._probability.shuffle(prompts)
        held = max(4, min(64, len(prompts) // 20))
        self._held_out, self._prompts = prompts[:held], prompts[held:]
        self._features: Features | None = None
        if plan.eagle and isinstance(target, Causal):
            target.shows = layers_to_read(target.model.config.num_hidden_layers)
            self._features = Features(target)

    def train(self) -> tuple[Student, Distillation]:
        plan = self._plan
        # First of all: one that does not fit is not found out after an hour of writing. And aside:
        # what the target draws is the same whatever the draft begins with.
        with torch.random.fork_rng():
            started = None if plan.start is None else self._started(Path(plan.start))
        greedy, sampled = (self._held_out_texts(temperature) for temperature in (0.0, 1.0))
        examples = [] if plan.on_policy else list(self._cached())
        draft = started or self._fresh(examples)
        vocabulary, model = draft.vocabulary, draft.model
        self._tell_coverage(vocabulary, [*greedy, *sampled])
        held_out = HeldOut(self._target, vocabulary, greedy, sampled)
        share = _parameters(model) / _parameters(self._target.model)
        self._say(f"draft: {_parameters(model) / 1e6:.1f}M parameters, {share:.1%} of the target")
        known = _from_all_over([e for e in examples if e.is_greedy], len(self._held_out))
        if isinstance(draft, Distilled) and plan.on_policy:
            chunks = self._on_policy(draft)
        else:
            examples = list(cut(examples, vocabulary))
            chunks = iter(lambda: examples, None)
        training = Training(
            draft,
            LOSSES[plan.loss],
            rate=plan.rate,
            minutes=plan.minutes and max(plan.minutes - self._minutes_written(), SHORTEST),
            steps=plan.steps,
            positions=plan.positions,
            seed=plan.seed,
            state=self._work / "state.pt",
            evaluate=lambda: held_out.acceptance(draft),
            report=self._report,
        )
        after = training.run(chunks)
        learned = greedy_acceptance(draft, known) if known else None
        model.float().load_state_dict(training.optimizer.weights(), strict=False)
        return draft, Distillation(
            before=training.before,
            after=after,
            known=learned,
            prompts=len({tuple(e.prompt) for e in examples}) or len(self._prompts),
            held_out=len(self._held_out),
            output_tokens=sum(len(example.output) for example in examples),
            steps=training.budget.steps,
            minutes=training.budget.seconds / 60,
            target_parameters=_parameters(self._target.model),
            draft_parameters=_parameters(model),
        )

    def _started(self, start: Path) -> Student:
        """The draft as another training left it."""
        size = len(self._target.model.get_input_embeddings().weight)
        vocabulary = vocabulary_of(start, self._plan.vocabulary, size)
        body = self._body(vocabulary)
        take_weights(body, start)
        return self._trained(body, vocabulary)

    def _fresh(self, examples: Sequence[Example]) -> Student:
        """The draft before any training."""
        vocabulary = self._vocabulary(examples)
        draft = self._trained(self._body(vocabulary), vocabulary)
        if isinstance(draft, EagleStudent):
            draft.begin(_from_all_over(examples, STARTERS))
        return draft

    def _body(self, vocabulary: Vocabulary) -> Any:
        plan, model = self._plan, self._target.model
        body = small_model(
            model,
            layers=plan.layers,
            encoder_layers=plan.encoder_layers,
            width=plan.width,
            vocabulary=vocabulary,
            seed=plan.seed,
            keep=spread if self._features is None else last,
        )
        if self._features is None:
            return body
        return Eagle(body, self._features.layers, model.config.hidden_size)

    def _trained(self, body: Any, vocabulary: Vocabulary) -> Student:
        model = _worth_candidate(self._target.model, body)
        if self._features is None:
            return self._target.draft(model, vocabulary)
        return EagleStudent(model, vocabulary, self._features)

    def _manner(self, temperature: float, enough: float = 1.0) -> SamplingPlan:
        return SamplingPlan(self._plan.max_new_tokens, self._ends, temperature, enough)

    def _held_out_texts(self, temperature: float) -> Sequence[Text]:
        """What the target writes after prompts that are not trained on, always the same."""
        file = self._work / f"held-out-{temperature:.0f}.pt"
        if not file.exists():
            with self._counted():
                self._write(self._held_out, self._manner(temperature), file)
        texts = read_examples(file)
        self._look_at(texts, file)
        return texts

    def _write(self, prompts: Sequence[Sequence[int]], manner: SamplingPlan, file: Path) -> None:
        """Has the target write, and keeps what a draft will want to know of it."""
        examples, shown = generate_with_distributions(self._target, prompts, manner)
        write_examples(examples, file)
        if self._features is not None:
            self._features.note(shown, file)

    def _look_at(self, texts: Sequence[Text], file: Path) -> None:
        """Has the target show what the draft reads of these texts, if it reads anything."""
        if self._features is not None:
            self._features.add(texts, file)

    def _vocabulary(self, examples: Sequence[Text]) -> Vocabulary:
        """The draft's tokens: the most frequent ones of what the target reads and writes."""
        model, size = self._target.model, self._plan.vocabulary
        embeddings = model.get_input_embeddings().weight.detach().cpu()
        if size is None or size >= len(embeddings):
            return whole(len(embeddings))
        file = self._work / "vocabulary.pt"
        if not file.exists():
            texts = examples or self._some_texts()
            parts = [part for text in texts for part in (text.prompt, text.output)]
            found = frequent(parts, self._ends, size, embeddings)
            with whole_file(file) as aside:
                torch.save((found.outputs, found.inputs), aside)
        return Vocabulary(*torch.load(file, weights_only=True))

    def _some_texts(self) -> list[Text]:
        """What the target writes after some prompts, where it writes nothing to train on."""
        with self._counted():
            return written(self._target, self._prompts[: 2 * BLOCK], self._manner(1.0, ENOUGH))

    def _tell_coverage(self, vocabulary: Vocabulary, held_out: list[Text]) -> None:
        tokens = torch.tensor([token for text in held_out for token in text.output])
        covered = vocabulary.known(tokens).float().mean().item()
        self._say(f"the draft can say {covered:.1%} of the target's tokens")

    def _cached(self) -> Iterator[Example]:
        """The target's outputs, greedy and sampled in turns, from disk where they are there."""
        plan = self._plan
        blocks = [self._prompts[i : i + BLOCK] for i in range(0, len(self._prompts), BLOCK)]
        tasks = [(r, i, (r + i) % 2) for r in range(plan.outputs) for i in range(len(blocks))]
        for done, (round_, index, temperature) in enumerate(tasks):
            file = self._work / f"outputs-{round_}-{index:05}.pt"
            if not file.exists():
                over = plan.minutes and self._minutes_written() > WRITING * plan.minutes
                if over and done:
                    self._say(f"the time for the target's outputs is over: {done} of {len(tasks)}")
                    return
                with self._counted():
                    self._write(blocks[index], self._manner(float(temperature), ENOUGH), file)
                self._say(f"the target wrote block {done + 1} of {len(tasks)}")
            examples = read_examples(file)
            self._look_at(examples, file)
            yield from examples

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Counts the time of what the target writes."""
        began = time.monotonic()
        yield
        spent = self._minutes_written() + (time.monotonic() - began) / 60
        with whole_file(self._work / MINUTES) as aside:
            aside.write_text(f"{spent}\n", encoding="utf-8")

    def _minutes_written(self) -> float:
        """How long the target has been writing, in earlier runs too."""
        file = self._work / MINUTES
        return float(file.read_text(encoding="utf-8")) if file.exists() else 0.0

    def _on_policy(self, draft: Distilled) -> Iterator[list[Example]]:
        """What the draft writes at this moment, with what the target would have written."""
        while True:
            prompts = self._probability.sample(self._prompts, min(BLOCK, len(self._prompts)))
            texts = written(draft, prompts, self._manner(1.0, ENOUGH))
            yield list(cut(with_distributions(self._target, texts), draft.vocabulary))


def _prompts(file: Path, checkpoint: Checkpoint, chat: bool | None) -> list[list[int]]:
    """The lines of a file in the target's tokens."""
    lines = list(dict.fromkeys(read_lines(file)))
    if len(lines) < FEWEST:
        raise UsageError(
            f"{file} has {len(lines)} different prompts, one a line; give {FEWEST} at least, "
            "and thousands for a good draft"
        )
    form = checkpoint.chat
    if chat and form is None:
        raise UsageError(f"{checkpoint.label} has no chat format; leave --chat out")
    if chat is False or form is None:
        encoded = checkpoint.tokenizer.encode_batch(lines)
    else:
        lines = [form.text([user_message(line)])[0] for line in lines]
        encoded = checkpoint.tokenizer.encode_batch(lines, add_special_tokens=False)
    return [list(encoding.ids) for encoding in encoded]


def _from_all_over(examples: Sequence[Example], count: int) -> list[Example]:
    """So many; neighbours were written together and have prompts of one length."""
    return [examples[i] for i in spread(min(count, len(examples)), len(examples))]


def _save(draft: Student, checkpoint: Checkpoint, folder: Path) -> None:
    draft.model.to(torch.float16).save_pretrained(folder)
    draft.vocabulary.save(folder)
    checkpoint.tokenizer.save(str(folder / "tokenizer.json"))


def _worth_candidate(target: Any, draft: Any) -> Any:
    """The draft where its target is, with parameters of the target's type.

    Only these: rotary frequencies are a buffer, and in bf16 the angle of a distant position would
    be another one than in the graphs.
    """
    draft.to(target.device)
    for parameter in draft.parameters():
        parameter.data = parameter.data.to(target.dtype)
    return draft


def _parameters(model: Any) -> int:
    return sum(weight.numel() for weight in model.parameters())
