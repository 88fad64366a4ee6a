"""Claim: arrays have the dtypes and shapes that the core's annotations state.

jaxtyping and beartype check every call. That is slow, so it happens in a process of its own, over
the tests that pass real arrays and a part of those that walk the loop.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from depth import deep

TESTS = Path(__file__).parents[1]
DRAFTERS = ("alternating", "vocabulary_map", "token_intersection")
CHECKED = [
    *(
        f"edgespec.core.{name}"
        for name in "decode distribution draft model randomness sampling scoring verification "
        "vocab_ops".split()
    ),
    *(
        f"edgespec.drafters.{name}"
        for name in "alternating model_drafter suffix_lookup token_intersection".split()
    ),
    "shape_checks.checked",
]


@deep
def test_every_call_of_the_core_has_the_stated_shapes():
    drafters = [f"drafters/test_{name}.py" for name in DRAFTERS]
    files = ["core/test_distribution.py", "core/test_exact_distribution.py", *drafters]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    run = subprocess.run(
        [
            *command,
            f"--jaxtyping-packages={','.join(CHECKED)}",
            "-k",
            "test_distribution or test_alternating or test_vocabulary_map or common_token"
            " or (disjoint-token and not with_an_eagle_head and not ends_with_a_candidate)",
            *(str(TESTS / file) for file in files),
        ],
        capture_output=True,
        text=True,
        cwd=TESTS.parent,
    )
    assert run.returncode == 0, run.stdout[-2000:]


def test_a_wrong_shape_is_caught():
    code = f"""
from jaxtyping import install_import_hook
install_import_hook({CHECKED[:-1]!r}, "beartype.beartype")
import numpy as np
from edgespec.core.distribution import Distribution
Distribution(np.arange(3), np.ones(2))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "jaxtyping.TypeCheckError" in run.stderr
