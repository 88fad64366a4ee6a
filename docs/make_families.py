"""Writes docs/reference/families.md from the corpus of configs: python docs/make_families.py"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from edgespec_export.checkpoint.gguf.architectures import ARCHITECTURES
from edgespec_export.families.unknown import MISSING

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from family_corpus import CASES, Case  # noqa: E402

__all__ = ["FAMILIES_PAGE", "REGENERATE", "families_text"]

FAMILIES_PAGE = Path(__file__).with_name("reference") / "families.md"
REGENERATE = "python docs/make_families.py"
START = f"""# Model families

Written by `{REGENERATE}` from `tests/family_corpus.py`; a test compares the two. Each row of the
first two tables is a small random checkpoint with the keys of the published model. It is exported,
and in float32 its logits are within 1e-4 of transformers', its greedy tokens are the same, and a
drafter changes no text: with the config as it is published, as transformers 5 saves it and with the
names of transformers 4.

A key of `config.json` that transformers does not read is passed over. One that it reads and
edgespec does not is refused by name, and so is an unknown key of a config that a newer transformers
wrote.
"""


def families_text() -> str:
    """The page, as Markdown."""
    models = [case for case in CASES if not case.refused and case.wrapper is None]
    wrappers = [case for case in CASES if not case.refused and case.wrapper is not None]
    parts = [
        START,
        "## What works\n",
        *_table(["model", "`model_type`", "from GGUF"], (_model(case) for case in models)),
        "\n## The text model of a model with images or sound\n",
        "Where a config has a `text_config`, its text model is exported alone.\n",
        *_table(["model", "`model_type`", "text model"], (_wrapped(case) for case in wrappers)),
        "\n## What is refused\n",
        *_table(["model", "what the message names"], (_refused(case) for case in CASES)),
        "\n## Types that no family has\n",
        textwrap.fill(
            "Exported are " + ", ".join(f"`{kind}`" for kind in _public()) + ". Of others:", 118
        )
        + "\n",
        *_table(["`model_type`", "nearest", "what that lacks"], _missing()),
    ]
    return "\n".join(parts) + "\n"


def _public() -> Iterator[str]:
    yield from sorted({case.model_type for case in CASES} | {"whisper"})


def _model(case: Case) -> list[str]:
    return [case.model, f"`{case.model_type}`", "yes" if case.model_type in _from_gguf() else ""]


def _from_gguf() -> set[str]:
    return {kind for known in ARCHITECTURES.values() for kind in known.model_types}


def _wrapped(case: Case) -> list[str]:
    assert case.wrapper is not None
    return [case.model, f"`{case.wrapper['model_type']}`", f"`{case.model_type}`"]


def _refused(case: Case) -> list[str]:
    return [case.model, case.refused] if case.refused else []


def _missing() -> Iterator[list[str]]:
    for kind, (nearest, lacks) in MISSING.items():
        yield [f"`{kind}`", f"`{nearest}`", lacks]


def _table(heads: list[str], rows: Iterator[list[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *(row for row in rows if row)]
    return [f"| {' | '.join(line)} |" for line in lines]


if __name__ == "__main__":
    FAMILIES_PAGE.write_text(families_text(), encoding="utf-8")
