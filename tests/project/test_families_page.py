"""Claim: the page of model families is what the corpus of configs says."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
from make_families import FAMILIES_PAGE, REGENERATE, families_text


def test_the_page_of_families_is_what_the_corpus_says():
    assert FAMILIES_PAGE.read_text(encoding="utf-8") == families_text(), f"run: {REGENERATE}"
