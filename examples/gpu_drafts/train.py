"""Trains a draft further on a GPU: python examples/gpu_drafts/train.py TARGET START PROMPTS OUT

TARGET is packed by pack.py, PROMPTS written by prompts.py, START a draft's folder that edgespec
distill wrote (--eagle). finish.py makes a draft's folder of OUT.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from judging import Judgement, judged
from packed_target import open_target
from started_draft import started_draft
from training import train
from training_batch import batch_of
from writing import greedy_texts, own_prompts, write_texts

from edgespec_distill.data.draft_vocabulary import DraftVocabulary, frequent_vocabulary
from edgespec_distill.data.examples import Text
from edgespec_distill.models.reading.eagle_module import Eagle
from edgespec_distill.training.budget import Budget

logger = logging.getLogger("gpu_drafts")

HELD_OUT = 512  # prompts, an eighth of them at most
FIGURES = "figures.json"
Judge = Callable[[Sequence[Text]], Judgement]
JUDGED_TOKENS = 96


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("target", "start", "prompts", "out"):
        parser.add_argument(name, type=Path)
    add = parser.add_argument
    add("--write", type=float, default=80, help="seconds that the target writes")
    add("--train", type=float, default=300, help="seconds that the draft is trained")
    add("--own", type=int, default=8192, help="prompts that the target begins itself")
    add("--positions", type=int, default=1_400_000, help="of texts that are written at once")
    add("--batch", type=int, default=65536, help="positions of a training step")
    add("--rate", type=float, default=1e-3, help="the highest learning rate")
    add("--vocabulary", type=int, help="the draft's tokens; as many as START has, if not given")
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


def texts_to_judge(model: Any, given: dict[str, Any]) -> dict[str, list[Text]]:
    """Greedy texts of the target by the kinds of their prompts."""
    texts = greedy_texts(model, [one["prompt"] for one in given["judges"]], JUDGED_TOKENS)
    kinds: dict[str, list[Text]] = {}
    for one, text in zip(given["judges"], texts, strict=True):
        kinds.setdefault(one["kind"], []).append(text)
    return kinds


def judged_by_kind(judge: Judge, kinds: dict[str, list[Text]], title: str) -> dict[str, Judgement]:
    """Of each kind, in the order of their names; written to the log."""
    found = {kind: judge(texts) for kind, texts in sorted(kinds.items())}
    for kind, judgement in found.items():
        logger.info(f"{title}, {kind}: {judgement}")
    return found


def main() -> None:
    arguments = read_arguments()
    logging.basicConfig(format="[%(relativeCreated)7.0f ms] %(message)s", level=logging.INFO)
    arguments.out.mkdir(parents=True, exist_ok=True)
    has_gpu = torch.cuda.is_available()
    device, dtype = ("cuda", torch.bfloat16) if has_gpu else ("cpu", torch.float32)
    rng = random.Random(0)
    given = json.loads(arguments.prompts.read_text(encoding="utf-8"))
    model = open_target(arguments.target, device, dtype)

    rng.shuffle(given["prompts"])
    count = min(HELD_OUT, len(given["prompts"]) // 8)
    held_out, prompts = given["prompts"][:count], given["prompts"][count:]
    kinds = {"held out": greedy_texts(model, held_out), **texts_to_judge(model, given)}
    around = given["before_message"], given["after_message"]
    prompts += own_prompts(model, *around, arguments.own)
    texts = write_texts(model, prompts, arguments.write, arguments.positions, rng)

    outputs, table = [text.output for text in texts], model.get_input_embeddings().weight
    size = arguments.vocabulary or tokens_of(arguments.start)
    vocabulary = frequent_vocabulary(outputs, model.config.eos_token_id, size, table)
    draft = started_draft(arguments.start, vocabulary, model)
    on_gpu = DraftVocabulary(vocabulary.outputs.to(device), vocabulary.inputs.to(device))
    read = partial(batch_of, model, vocabulary=on_gpu, layers=draft.target_layers)
    judge = partial(judged, draft, read=read, outputs=on_gpu.outputs, positions=arguments.batch)
    before = judged_by_kind(judge, kinds, "before")
    budget = Budget(minutes=arguments.train / 60, steps=None)
    weights = train(draft, texts, read, budget, arguments.batch, arguments.rate)
    after = judged_by_kind(judge, kinds, "after")
    save(draft, weights, vocabulary, arguments.out)
    figures = {
        "texts": len(texts),
        "tokens": sum(map(len, outputs)),
        "steps": budget.steps,
        "before": {kind: asdict(judgement) for kind, judgement in before.items()},
        "after": {kind: asdict(judgement) for kind, judgement in after.items()},
    }
    (arguments.out / FIGURES).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
