"""The mean of two drafts: python average.py BEFORE AFTER OUTPUT

AFTER is BEFORE, trained further on other prompts. It gains on these and forgets some of what BEFORE
knew; the mean of their weights keeps most of both (Wortsman et al. 2022, arXiv 2109.01903).
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from edgespec_distill.card import RECORD
from edgespec_export.staging import staged

WEIGHTS = "model.safetensors"


def mean_of(first: Path, second: Path) -> dict[str, np.ndarray]:
    """The mean of each tensor, in the type of the first's.

    Raises:
        SystemExit: the drafts have other tensors or other sizes.
    """
    one, other = load_file(first / WEIGHTS), load_file(second / WEIGHTS)
    if {n: t.shape for n, t in one.items()} != {n: t.shape for n, t in other.items()}:
        raise SystemExit(f"{first} and {second} have other tensors; give a draft and its successor")
    return {
        name: np.mean([tensor, other[name]], axis=0, dtype=np.float32).astype(tensor.dtype)
        for name, tensor in one.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    weights = mean_of(arguments.before, arguments.after)
    record = json.loads((arguments.after / RECORD).read_text(encoding="utf-8"))
    before = json.loads((arguments.before / RECORD).read_text(encoding="utf-8"))
    # The figures of the part trained last are not those of the mean.
    record = {"edgespec": record["edgespec"], "target": record["target"], "plan": record["plan"]}
    text = json.dumps({**record, "mean_with": before}, indent=2) + "\n"
    card = shutil.ignore_patterns("README.md")
    recipe = f"the mean of {arguments.before} and {arguments.after}"
    with staged(arguments.output, replace=False, recipe=recipe, mark=RECORD) as aside:
        shutil.copytree(arguments.after, aside, ignore=card, dirs_exist_ok=True)
        save_file(weights, aside / WEIGHTS, metadata={"format": "pt"})
        (aside / RECORD).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
