"""Makes a draft's folder of what train.py wrote: python finish.py START TRAINED OUT

OUT is then like a folder of edgespec distill: edgespec export takes it, and --start continues it.
Its distillation.json has the figures of the training in place of edgespec distill's.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from program import run

from edgespec.artifact.manifest import VOCABULARY
from edgespec.version import VERSION
from edgespec_distill.card import RECORD
from edgespec_distill.plan import SHAPE, Plan
from edgespec_distill.start import with_shape_of_start
from edgespec_export.staging import staged

FIGURES, TOKENIZER = "figures.json", "tokenizer.json"


def record(start: Path, trained: Path) -> dict[str, object]:
    """What distillation.json says: whose draft it is, its shape, and how it was trained."""
    plan = with_shape_of_start(Plan(layers=1, start=str(start)))
    shape = {name: getattr(plan, name) for name in SHAPE}
    if (trained / VOCABULARY).exists():
        config = json.loads((trained / "config.json").read_text(encoding="utf-8"))
        shape["vocabulary"] = config["vocab_size"]
    return {
        "edgespec": VERSION,
        "target": json.loads((start / RECORD).read_text(encoding="utf-8"))["target"],
        "plan": {**shape, "start": start.resolve().name},
        "on_a_gpu": json.loads((trained / FIGURES).read_text(encoding="utf-8")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("start", "trained", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--force", action="store_true", help="replace a draft that is there")
    arguments = parser.parse_args()
    start, trained = arguments.start, arguments.trained
    text = json.dumps(record(start, trained), indent=2) + "\n"
    recipe = f"{start} trained further: {trained}"
    force = arguments.force
    with staged(arguments.out, replace=force, recipe=recipe, mark=RECORD, what="a draft") as aside:
        shutil.copytree(trained, aside, ignore=shutil.ignore_patterns(FIGURES), dirs_exist_ok=True)
        if (start / TOKENIZER).exists():  # a draft with its target's tables has none
            shutil.copy(start / TOKENIZER, aside)
        (aside / RECORD).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run(main)
