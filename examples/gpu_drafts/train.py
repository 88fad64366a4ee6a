"""Trains a draft further on a GPU: python examples/gpu_drafts/train.py TARGET START TEXTS OUT

TARGET is packed by pack.py, TEXTS written by write.py, START a draft's folder that edgespec distill
wrote (--eagle). finish.py makes a draft's folder of OUT.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
from judging import Judgement, judged
from packed_target import digest_of, open_target
from program import begin_log, device_and_type, positive, run, share, whole
from started_draft import started_draft
from token_files import TRAINED_ON, load_texts
from training import Objective, train
from training_batch import batch_of

from edgespec_distill.data.draft_vocabulary import DraftVocabulary, frequent_vocabulary
from edgespec_distill.data.examples import Text
from edgespec_distill.models.reading.eagle_module import Eagle
from edgespec_distill.training.budget import Budget

logger = logging.getLogger("gpu_drafts")

FIGURES = "figures.json"
Judge = Callable[[Sequence[Text]], Judgement]


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("target", "start", "texts", "out"):
        parser.add_argument(name, type=Path)
    add = parser.add_argument
    add("--seconds", type=positive, default=300, help="of training")
    add("--steps", type=whole(1), help="of training, instead of a time")
    add("--batch", type=whole(1), default=65536, help="positions of a training step")
    add("--rate", type=positive, default=1e-3, help="the highest learning rate")
    add("--temperature", type=positive, default=1.0, help="at which p and q are compared")
    add("--tv", type=share, default=0.8, help="the total variation's share; the rest is KL")
    add("--vocabulary", type=whole(3), help="the draft's tokens; default: as many as START has")
    add("--seed", type=int, default=0, help="of the order of the texts")
    return parser.parse_args()


def tokens_of(draft: Path) -> int:
    """The number of tokens that a finished draft has."""
    config = json.loads((draft / "config.json").read_text(encoding="utf-8"))
    return int(config["vocab_size"])


def save(
    draft: Eagle, weights: dict[str, torch.Tensor], vocabulary: DraftVocabulary, out: Path
) -> None:
    """Writes config, weights in float16 and the vocabulary's maps.

    Args:
        weights: in float32, by name.
    """
    draft.float().load_state_dict(weights, strict=False)
    draft.to(torch.float16).save_pretrained(out)
    vocabulary.save(out)


def judged_by_kind(judge: Judge, kinds: dict[str, list[Text]], title: str) -> dict[str, Judgement]:
    """Of each kind, in the order of their names; written to the log."""
    found = {kind: judge(texts) for kind, texts in sorted(kinds.items())}
    for kind, judgement in found.items():
        logger.info(f"{title}, {kind}: {judgement}")
    return found


def main() -> None:
    arguments = read_arguments()
    begin_log()
    kinds = load_texts(arguments.texts, digest_of(arguments.target))
    model = open_target(arguments.target, *device_and_type())
    texts = kinds.pop(TRAINED_ON)

    outputs, table = [text.output for text in texts], model.get_input_embeddings().weight
    size = arguments.vocabulary or tokens_of(arguments.start)
    vocabulary = frequent_vocabulary(outputs, model.config.eos_token_id, size, table)
    draft = started_draft(arguments.start, vocabulary, model)
    at_device = (part.to(model.device) for part in (vocabulary.outputs, vocabulary.inputs))
    on_device = DraftVocabulary(*at_device)
    read = partial(batch_of, model, vocabulary=on_device, layers=draft.target_layers)
    judge = partial(judged, draft, read=read, outputs=on_device.outputs, positions=arguments.batch)
    before = judged_by_kind(judge, kinds, "before")
    objective = Objective(arguments.temperature, arguments.tv)
    minutes = None if arguments.steps else arguments.seconds / 60
    budget = Budget(minutes=minutes, steps=arguments.steps)
    weights = train(
        draft,
        texts,
        read,
        budget,
        arguments.batch,
        arguments.rate,
        objective,
        arguments.seed,
    )
    seconds = round(budget.seconds)
    after = judged_by_kind(judge, kinds, "after")
    arguments.out.mkdir(parents=True, exist_ok=True)
    save(draft, weights, vocabulary, arguments.out)
    figures = {
        "texts": len(texts),
        "tokens": sum(map(len, outputs)),
        "seed": arguments.seed,
        "rate": arguments.rate,
        "positions": arguments.batch,
        "objective": asdict(objective),
        "steps": budget.steps,
        "seconds": seconds,
        "before": {kind: asdict(judgement) for kind, judgement in before.items()},
        "after": {kind: asdict(judgement) for kind, judgement in after.items()},
    }
    (arguments.out / FIGURES).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
