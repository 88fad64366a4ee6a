"""Claim: the table of providers names the releases that `make test-providers` installs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_has_the_release_of_webgpu_that_is_tested():
    setup = (ROOT / "scripts/providers/setup_webgpu").read_text()
    (version,) = re.findall(r"^version=([\d.]+)$", setup, re.MULTILINE)
    table = (ROOT / "docs/reference/providers.md").read_text()
    assert f"`onnxruntime-webgpu` {version} " in table
