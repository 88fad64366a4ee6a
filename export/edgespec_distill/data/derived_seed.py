"""Seeds of parts of a distillation: each follows from the plan's seed and from what it is for.

So a run that was interrupted draws the same random numbers as one that was not, whichever parts of
it were finished already.
"""

from __future__ import annotations

import hashlib

__all__ = ["derived_seed"]


def derived_seed(seed: int, *purpose: object) -> int:
    """A number of 63 bits for one purpose, such as ("outputs", 3)."""
    digest = hashlib.sha256(repr((seed, *purpose)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
